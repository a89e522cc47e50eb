"""Shared parts of endpoint bots: addresses, calls, settings and costs."""
