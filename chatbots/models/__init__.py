"""Neural dialogue models, one module each; importing this package loads no torch."""
