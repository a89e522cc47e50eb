"""Kinds of flags that are found in ratings; `webapp.quality.flags.base` says what a kind is."""
