"""Flags: reasons to look at somebody's work before it counts or is paid. None decides anything by itself."""
