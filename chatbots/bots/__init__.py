"""Bots, one module per kind."""
