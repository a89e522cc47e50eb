"""Tests of what becomes of a report."""
