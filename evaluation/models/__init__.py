"""One file for each learned metric's network, equation numbers beside the lines."""
