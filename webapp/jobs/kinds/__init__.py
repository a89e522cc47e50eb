"""Kinds of job, one file each; other apps have folders of the same name."""
