"""Kinds of jobs, one file per subject.

Other apps have such folders, too.
"""
