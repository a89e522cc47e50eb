"""One row per bot identity ever used, and where bots run."""
