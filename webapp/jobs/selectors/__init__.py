"""Queries for runs and jobs: `jobs` (progress), `selfplay` (what is missing), `metrics` (results), `fits`,
`analysis_tables`.
"""
