"""Kinds of job of this app; see jobs/README.md."""
