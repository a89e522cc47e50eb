"""One file per metric; base.py is the contract, registry.py finds them."""
