"""Results in words: sentences that can be translated whole, and the tables and figures beside them.

The numbers come from `evaluation`; nothing is computed here.
"""
