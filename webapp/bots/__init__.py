"""One row per bot identity ever used, and the places where bots run."""
