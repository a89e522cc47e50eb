"""Trainable metrics, one per file; discovered automatically."""
