"""How Confab itself fares: what processes count, how they are, and what has to be told."""
