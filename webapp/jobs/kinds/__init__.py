"""Kinds of job, a file for those of one subject; other apps have folders of the same name."""
