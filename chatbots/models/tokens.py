"""The four special token ids that every vocabulary here begins with (Park et al. 2018, released code)."""

from __future__ import annotations

PAD = 0
"""Fills rows up; its embedding is fixed at zero."""
UNK = 1
"""Any word outside the vocabulary."""
SOS = 2
"""The decoder's first input; never part of an input utterance."""
EOS = 3
"""Ends every utterance, and counts in its length."""

SPECIAL_TOKENS = ("<pad>", "<unk>", "<sos>", "<eos>")
"""Their texts, in the order of their ids."""
