"""Drawings of results as SVG, for pages and notebooks alike."""
