"""Report of a study: its document, the pages and files made of it, changes, and sharing."""
