"""A participant's answers to a rubric."""
