"""Audit log: an append-only chain of recorded actions for each project."""
