"""Neural dialogue models, one readable file each; importing this package loads no torch."""
