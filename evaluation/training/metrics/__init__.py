"""One file for each metric that can be trained; found by themselves."""
