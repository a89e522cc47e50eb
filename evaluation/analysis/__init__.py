"""One result for each question: numbers, codes of findings, `to_json()` and `summary()`; no prose."""
