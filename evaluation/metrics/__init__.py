"""Metrics, one file each; base.py defines the contract, registry.py finds them."""
