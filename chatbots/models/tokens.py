"""The four special token ids that every vocabulary here begins with (Park et al. 2018, released code)."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from chatbots.outside_types import Wanted

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

VocabularySize = Annotated[
    int,
    Field(ge=len(SPECIAL_TOKENS) + 1),
    Wanted("a whole number of at least 5: the 4 special tokens and a word"),
]
"""Words of a vocabulary, special ones included."""
