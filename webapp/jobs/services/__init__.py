"""Writes of runs and jobs.

`jobs` (states of jobs and shards), `selfplay`, `fits` (also metrics), `simulation`.
"""
