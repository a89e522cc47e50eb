"""Simulated participants: one file for each kind."""
