"""The calls, a module for each kind of thing."""
