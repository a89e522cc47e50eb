"""Correlations with people that papers printed of metrics of single replies, as facts in two files, and what reads them."""
