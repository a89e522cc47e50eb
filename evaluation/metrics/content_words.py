"""Words of an utterance that carry content, which the repetition measures count.

Fact sheet section 1.6: tokens at white space without stopwords (question words stay), punctuation and the
endings of contractions. The list of stopwords is our own: the words of English grammar.
"""

from __future__ import annotations

import re

QUESTION_WORDS = frozenset({"who", "what", "why", "where", "how", "when"})

UNKNOWN = frozenset({"<unk>", "<unknown>"})
"""How a bot shows a word it does not know."""

_STOPWORDS = """
    a an the this that these those
    i me my mine myself we us our ours ourselves you your yours yourself yourselves
    he him his himself she her hers herself it its itself they them their theirs themselves
    am is are was were be been being do does did doing done have has had having
    can could will would shall should may might must ought ca wo sha ai
    and or but nor so if then than because while although though unless until whether as
    of at by for with about against between into through during before after above below to from up down in
    out on off over under again once upon onto
    which whom whose there here all any both each few more most other some such no not only own same too very
    just also
"""
STOPWORDS = frozenset(_STOPWORDS.split())

_CURLY = str.maketrans({"’": "'", "‘": "'", "ʼ": "'"})
_ENDING = re.compile(r"(?:n't|'(?:s|re|ve|ll|d|m|t))$")
_AROUND = re.compile(r"^[\W_]+|[\W_]+$")


def content_words(text: str) -> list[str]:
    """Return the content words of a text, in lower case, in order and with repeats."""
    found = []
    for token in text.lower().translate(_CURLY).split():
        if token not in UNKNOWN:
            token = _AROUND.sub("", _ENDING.sub("", token.rstrip(".,!?;:\"')…")))
        if token and token not in STOPWORDS:
            found.append(token)
    return found
