"""`make chaos`: scripted people against a real server whose processes are killed under them."""
