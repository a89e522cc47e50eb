"""Tests of the comparison of simulated participants with people."""
