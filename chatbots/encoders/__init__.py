"""Frozen sentence and word encoders, shared by bots and metrics."""
