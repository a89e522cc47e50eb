"""Training of the learned metrics: data rules, samplers, and what measures them on data kept back."""
