"""Meaning of results, without pages: leaderboard, sentences, charts, report, benchmark and live numbers."""
