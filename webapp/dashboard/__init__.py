"""Front end for researchers; staff only."""
