"""Imported file formats, one file each; `recognition.format_for` finds the one a file is in."""
