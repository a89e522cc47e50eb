"""A reply in progress: prompts, decoding, running batches, and the text that comes of tokens."""
