"""Benchmarks that print ratios: run by hand with `python -m tests.benchmarks.<name>`, not by pytest."""
