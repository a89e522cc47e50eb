"""One file per bot: what talks."""
