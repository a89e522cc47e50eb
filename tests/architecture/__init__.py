"""The house rules of the code, read from the code: arrows, light starts, documented settings."""
