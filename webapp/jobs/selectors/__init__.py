"""Reads of runs: `jobs` (progress), `selfplay` (what is missing), `metrics` (results), `frames`,
`bot_facts` (how bots were made, and which are of one family)."""
