"""Exported tables of this app, one file each."""
