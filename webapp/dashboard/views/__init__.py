"""Pages of the dashboard, by subject. All for staff only."""
