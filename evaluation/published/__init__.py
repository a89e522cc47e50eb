"""Published correlations of turn-level metrics with human ratings.

Two data files and their reader.
"""
