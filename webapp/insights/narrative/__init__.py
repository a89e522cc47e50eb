"""Narrative of results: sentences, with their tables and figures.

The numbers come from `evaluation`; nothing is computed here.
"""
