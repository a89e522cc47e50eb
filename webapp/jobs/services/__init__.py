"""Writes of runs: `jobs` (state of any long work, and of its shards), `selfplay`, `fits` (metrics, too)."""
