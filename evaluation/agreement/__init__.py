"""Agreement of scores with people: metrics, systems, preferences, judges."""
