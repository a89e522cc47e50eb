"""Self-play runs, metric results and hybrid fits, and the long work behind them."""
