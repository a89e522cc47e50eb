"""Report of a study: its document, pages and files, changes, and sharing."""
