"""Pay: submissions, decisions about them, and the recruitment platform's API."""
