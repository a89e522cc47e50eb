"""Analyses of a study: numbers, finding codes, `to_json()` and `summary()`, without prose."""
