"""Names of the bots of these tests, and messages that tell them to break.

A test imports this module, and never `told_bots.py`, which would register the bots in the test's own process.
"""

NAMES = ("told-a", "told-b", "told-c", "told-d")
BREAKS, BREAKS_ONCE = "Break now.", "Break once."
