"""Reads of runs: `jobs` (progress), `selfplay` (what is missing), `metrics` (results), `fits`, `analysis_tables`."""
