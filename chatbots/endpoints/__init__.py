"""What endpoint bots share: addresses, one call, checks of their settings, and what replies cost."""
