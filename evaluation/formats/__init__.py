"""Imported file formats, one file each; `base.format_for` finds the one a file is in."""
