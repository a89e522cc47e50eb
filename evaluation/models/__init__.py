"""One file for each learned metric's network, equation numbers next to the lines."""
