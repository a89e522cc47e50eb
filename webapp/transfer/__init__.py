"""Exported tables and imported file formats."""
