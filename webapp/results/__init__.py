"""Results of a study's analysis: computation and storage."""
