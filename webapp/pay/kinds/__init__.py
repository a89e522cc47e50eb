"""Kinds of job of this app, one file each (runs/README.md)."""
