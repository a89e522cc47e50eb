"""Results that are stored."""
