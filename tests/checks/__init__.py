"""What `make check` runs beside the linter and the type checker."""
