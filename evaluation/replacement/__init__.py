"""Verdict on whether a metric, a judge or simulated participants can replace people."""
