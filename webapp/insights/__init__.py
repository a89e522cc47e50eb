"""What is said of results: leaderboard, sentences, charts, report, benchmark and live numbers, without pages."""
