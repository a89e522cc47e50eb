"""Flags: reasons to look at a participant's work before it counts or is paid. None decides anything by itself."""
