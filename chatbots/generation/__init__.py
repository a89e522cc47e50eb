"""Generation of replies: prompts, decoding, running batches and streamed text."""
