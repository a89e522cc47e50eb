"""Correlations with intervals, bootstrap, comparisons of bots."""
