"""Writes of runs: `jobs` (state of any long work), `selfplay`, `metrics`, `fits`."""
