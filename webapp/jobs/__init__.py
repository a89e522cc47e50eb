"""Long work: jobs, self-play runs, metric results and hybrid fits."""
