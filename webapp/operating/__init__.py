"""Operation of Confab itself: metrics of processes, their state, and alerts."""
