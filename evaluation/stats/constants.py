"""Constants that several analyses share."""

RATING_LEVEL = 0.90
"""Confidence level of intervals of ratings and choices, unless a study sets its own."""
SCORE_LEVEL = 0.95
"""Confidence level of intervals of agreement between scores and people, and of other comparisons of scores."""
MOST_NUMBERS = 4_000_000
"""Numbers of an array that are in memory at once (32 MB); larger work is done in blocks."""
