"""Dialogue corpora: the everyday corpus written for this project, and its reader."""
