"""Comparison of simulated participants with people (`docs/background/simulated_participants.md`)."""
