"""File formats for import, one module each; `text_files.format_for` detects a file's format."""
