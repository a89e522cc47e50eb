"""Replies of a corpus bot in its own words: goodbye, and that it is a program.

A corpus of people answers "are you real?" with "of course I am", and a farewell with whatever came next in some
dialogue. English only, as the phrases of `chatbots/bots/retrieval.py` are.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

FAREWELLS = (
    "Goodbye! It was nice talking to you.",
    "Bye, and thanks for the chat!",
    "All right, take care. Goodbye!",
    "It was good to talk with you. Bye!",
)
ADMISSIONS = (
    "I'm a chatbot, a computer program. There is no person behind these words.",
    "No human here: I'm a program that looks for fitting replies.",
    "I'm a computer program. I can chat, but I'm not a person.",
)

_MOST_FAREWELLS = 2
"""In one conversation; where bots talk with each other, goodbyes would never end."""

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
_A_KIND = (
    rf"(?:(?:really|actually|even|just|maybe|not) )*(?:(?:a|an) )?(?:real |actual |living )*{_KIND}"
)
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
    """Return True if the text says goodbye or that its writer has to go, not if it tells about a farewell."""
    for clause in _CLAUSE.split(text.lower().replace("’", "'")):
        words = _FILLERS.sub("", f"{clause.strip()} ", count=1).strip()
        if _BYE.fullmatch(words) or _LEAVING.fullmatch(words):
            return True
    return False


def asks_what_it_is(text: str) -> bool:
    """Return True if the text asks if it is a person or a program that replies."""
    return bool(_ASKED.search(text.replace("’", "'")))


def courtesies(last: str, said: Sequence[str]) -> tuple[str, ...]:
    """Return the phrases from which a polite answer is chosen; none where no courtesy is due.

    Args:
        last: the utterance to be answered.
        said: all utterances of the conversation so far.
    """
    if asks_what_it_is(last):
        return ADMISSIONS
    if takes_leave(last) and sum(text in FAREWELLS for text in said) < _MOST_FAREWELLS:
        return FAREWELLS
    return ()
