"""Template filters of the participant's pages."""
