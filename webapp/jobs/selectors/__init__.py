"""Queries for runs and jobs.

`jobs` (progress), `selfplay` (missing conversations), `metrics` (results), `fits`, `analysis_tables`.
"""
