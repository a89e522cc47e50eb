"""What becomes of a study's report: its document, the pages and files made of it, what changed, who may read it."""
