"""Means and correlations with intervals, agreement, comparisons of bots."""
