"""Networks of the learned metrics, one file each, with equation numbers."""
