"""Kinds of job of this app."""
