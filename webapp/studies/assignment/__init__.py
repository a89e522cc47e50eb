"""Assignment of bots and items to participants: settings, draw, capacity, counterbalancing, rules."""
