"""API routes, one module per subject."""
