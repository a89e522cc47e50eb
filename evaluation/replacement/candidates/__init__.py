"""Kinds of candidates, one file each."""
