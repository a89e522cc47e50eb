"""Trainable metrics, one file each; discovered automatically."""
