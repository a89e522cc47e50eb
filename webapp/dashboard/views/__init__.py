"""Pages of the dashboard, by subject; staff only."""
