"""English text rules of bots: clauses, swapped pronouns, canned replies.

The canned replies are goodbyes and the admission of being a program. A human corpus would answer "are you real?" with
"of course I am", and a farewell with an unrelated line.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_CONTRACTIONS: tuple[tuple[str, str], ...] = (
    (r"\bwon't\b|\bwont\b", "will not"),
    (r"\bcan't\b|\bcant\b", "cannot"),
    (r"\bshan't\b", "shall not"),
    (r"\blet's\b", "let us"),
    (r"\b(do|does|did|is|are|was|were|have|has|had|would|could|should|must|need)n'?t\b", r"\1 not"),
    (r"\b(i)'?m\b", r"\1 am"),
    (r"\b(you|we|they)'re\b|\b(you)re\b", r"\1\2 are"),
    (r"\b(i|you|we|they)'ve\b", r"\1 have"),
    (r"\bive\b", "I have"),
    (r"\b(i|you|he|she|it|we|they|that|there|who|what)'ll\b", r"\1 will"),
    (r"\b(i|you|he|she|it|we|they|who)'d\b", r"\1 would"),
    (r"\b(he|she|it|that|there|what|who|where|how|here|when|why)'s\b", r"\1 is"),
    (r"\b(what|that|how|where)s\b", r"\1 is"),
    (r"\bgonna\b", "going to"),
    (r"\bwanna\b", "want to"),
    (r"\bgotta\b", "got to"),
    (r"\bu\b", "you"),
    (r"\bur\b", "your"),
    (r"\bthx\b|\bty\b|\btysm\b", "thanks"),
)
_CONTRACTED = [(re.compile(pattern, re.IGNORECASE), full) for pattern, full in _CONTRACTIONS]
_SENTENCE = re.compile(r"[^.!?;:\n]+[.!?;:]*")
_CLAUSE_END = re.compile(r",|\bbut\b|[()\"“”…]| - | – |—", re.IGNORECASE)
_ASKS = re.compile(
    r"^(?:but |and |so |ok |okay |then |hey |hi )?(?:(?:what|how|where|when|who|why|which) "
    r"(?:is|are|do|does|did|can|could|would|will|should|was|were|have|has|about)\b"
    r"|how (?:come|old|many|much|long|often)\b"
    r"|(?:do|are|can|did|have|would|could|will|should) (?:you|i|we|they)\b|why$|what$)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class EnglishClause:
    """Part of a sentence, with a flag for questions."""

    text: str
    asks: bool


def _spelt_out(text: str) -> str:
    """Normalise apostrophes, contractions and all-capital words."""
    text = re.sub("[’‘ʼ`]", "'", text)
    if text.isupper() and len(text) > 4:
        text = text.lower()
    for pattern, full in _CONTRACTED:
        text = pattern.sub(full, text)
    return text


def split_clauses(text: str) -> list[EnglishClause]:
    """Split a text at sentence ends, commas and "but", marking questions."""
    clauses = []
    for sentence in _SENTENCE.findall(_spelt_out(text)):
        asks = "?" in sentence
        for part in _CLAUSE_END.split(sentence):
            part = re.sub(r"[^\w\s'-]", " ", part)
            part = re.sub(r"\s+", " ", part).strip(" '-_")
            if part:
                clauses.append(EnglishClause(part, asks or bool(_ASKS.search(part))))
    return clauses


_REFLECTED = {
    "i": "you",
    "me": "you",
    "my": "your",
    "mine": "yours",
    "myself": "yourself",
    "your": "my",
    "yours": "mine",
    "yourself": "myself",
    "we": "you",
    "us": "you",
    "our": "your",
    "ours": "yours",
    "ourselves": "yourselves",
}
_BE_AFTER = {("i", "am"): "are", ("i", "was"): "were", ("you", "are"): "am", ("you", "were"): "was"}
_SUBJECT_BEFORE = {
    *("that", "if", "when", "because", "and", "what", "how", "why", "where", "think", "know"),
    *("than", "until", "while", "as", "do", "did", "are", "can", "hope", "wish", "thought", "whether"),
}
_TRAILING = re.compile(
    r"(?: (?:and|or|so|too|though|lol|please|haha|then|today|now|right|also|as well|you know))+$", re.I
)
_SHORTENED = (
    (r"\b(you|we|they) are (?=\w)", r"\1're "),
    (r"\bI am (?=\w)", "I'm "),
    (r"\b(do|does|did|is|are|was|were|have|has|had|would|could|should) not\b", r"\1n't"),
    (r"\bcan ?not\b", "can't"),
    (r"\bwill not\b", "won't"),
    (r"\b(it|that|he|she) is (?=\w)", r"\1's "),
    (r"\b(you|we|they|I) have (?=(?:been|got|had|seen|done|lost|made)\b)", r"\1've "),
)


def swap_pronouns(text: str) -> str:
    """Swap first and second person: "my dog hates me" → "your dog hates you"."""
    words = _TRAILING.sub("", text.strip()).split()
    out = []
    for i, word in enumerate(words):
        lower = word.lower()
        before = words[i - 1].lower() if i else ""
        if (before, lower) in _BE_AFTER:
            out.append(_BE_AFTER[before, lower])
        elif lower == "you":
            # "you" has one form for both cases: it is a subject at the start and after a conjunction, else an object.
            out.append("I" if i < len(words) - 1 and (i == 0 or before in _SUBJECT_BEFORE) else "me")
        elif lower in _REFLECTED:
            out.append(_REFLECTED[lower])
        else:
            out.append(word)
    result = " ".join(out)
    for pattern, short in _SHORTENED:
        result = re.sub(pattern, short, result)
    return result


FAREWELL_REPLIES = (
    "Goodbye! It was nice talking to you.",
    "Bye, and thanks for the chat!",
    "All right, take care. Goodbye!",
    "It was good to talk with you. Bye!",
)
BOT_ADMISSIONS = (
    "I'm a chatbot, a computer program. There is no person behind these words.",
    "No human here: I'm a program that looks for fitting replies.",
    "I'm a computer program. I can chat, but I'm not a person.",
)

_MOST_FAREWELLS = 2
"""Maximum number of goodbyes per conversation; two bots would otherwise never stop."""

_CLAUSE = re.compile(r"[.,!?;:\n]+")
_FILLERS = re.compile(
    r"(?:(?:ok(?:ay)?|well|so|and|but|anyway|all ?right|right|thanks?(?: you)?|cool|great|oh|hey|sorry|then)\s+)+"
)
_BYE = re.compile(
    r"(?:good ?bye|(?:bye)+(?: bye)?|byebye|farewell|good ?night|cya|ttyl|take care|so long"
    r"|see (?:you|ya)(?: (?:later|soon|then|around|again|tomorrow|next time))*"
    r"|(?:i'll )?(?:talk|speak|chat) to you (?:later|soon|tomorrow)"
    r"|(?:it was |it's been )?(?:nice|good|great|lovely) (?:talking|chatting|speaking) (?:to|with) you"
    r"|have a (?:nice|good|great|lovely) (?:day|evening|night|weekend|one|time))"
    r"(?: (?:for )?now| then| everyone| friend| my friend| (?:to )?you too| too)*"
)
_LEAVING = re.compile(
    r"(?:i )?(?:really |just )?(?:have to|have got to|'ve got to|i've got to|got to|gotta|must|need to|should|better)"
    r" (?:be )?(?:go|going|leave|run|get going|be off|log off)"
    r"(?: now| soon| home| to bed| to sleep| to work| back to work| to class| offline)*"
    r"|gtg|g2g|i'?m (?:leaving|off)(?: now)?"
)

_KIND = (
    r"(?:(?:chat|ro)?bots?|humans?|human beings?|(?:real |actual |living )*persons?|real|alive|machines?|computers?"
    r"|(?:computer )?programs?|ai|a\.i\.?|artificial(?: intelligence)?|somebody real|someone real|software)"
)
_A_KIND = rf"(?:(?:really|actually|even|just|maybe|not) )*(?:(?:a|an) )?(?:real |actual |living )*{_KIND}"
_THEN = r"(?= or\b| then\b| too\b| by any chance\b|\s*(?:[?.!,]|$))"
_ASKED = re.compile(
    rf"\b(?:are|aren't) you {_A_KIND}{_THEN}"
    rf"|\byou(?:'re| are| must be) {_A_KIND}{_THEN}"
    rf"|\bam i (?:really |actually )?(?:talking|speaking|chatting|writing) (?:to|with) {_A_KIND}{_THEN}"
    rf"|\bis (?:this|it|there|that) {_A_KIND}(?: here| there)?{_THEN}"
    r"|^(?:so )?(?:who|what) are you(?: really| exactly)?\W*$",
    re.IGNORECASE,
)


def takes_leave(text: str) -> bool:
    """Return True if the text says goodbye, not if it reports a farewell."""
    for clause in _CLAUSE.split(text.lower().replace("’", "'")):
        words = _FILLERS.sub("", f"{clause.strip()} ", count=1).strip()
        if _BYE.fullmatch(words) or _LEAVING.fullmatch(words):
            return True
    return False


def asks_what_it_is(text: str) -> bool:
    """Return True if the text asks whether it talks to a program."""
    return bool(_ASKED.search(text.replace("’", "'")))


def canned_replies(last: str, utterances: Sequence[str]) -> tuple[str, ...]:
    """Return the canned replies to choose from; empty if none applies.

    Args:
        last: the latest utterance.
        utterances: all utterances of the conversation so far.
    """
    if asks_what_it_is(last):
        return BOT_ADMISSIONS
    if takes_leave(last) and sum(text in FAREWELL_REPLIES for text in utterances) < _MOST_FAREWELLS:
        return FAREWELL_REPLIES
    return ()
