"""Formats of other programs with JSON objects as records; modules by field."""
