"""Shared parts of endpoint bots: addresses, one call, validation of settings, and the cost of replies."""
