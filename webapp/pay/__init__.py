"""Pay: who began, what is decided about each visit, and what the recruitment platform is told."""
