"""Ratings, conversations and tables that the analyses read, and the files they come from."""
