"""Results of a study's analysis: what they are made of, and those that are stored."""
