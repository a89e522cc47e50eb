"""The live room of a study: what is read for it, in a number of queries that does not grow with the study."""
