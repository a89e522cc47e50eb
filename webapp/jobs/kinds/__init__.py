"""Kinds of jobs, one file per subject; other apps have such folders too."""
