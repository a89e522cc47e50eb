"""Self-play, simulated participants, and how far they differ from people."""
