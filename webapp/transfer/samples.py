"""Six short conversations of two chatbots, to try out studies that rate conversations."""

from __future__ import annotations

from chatbots import Turn
from evaluation.formats.base import Record

_BOTS = ("sample-curious", "sample-curt")
_SAID: list[list[tuple[str, str, str]]] = [
    # what the person said, and what each of the two chatbots answered to it
    [
        (
            "I finally planted tomatoes on my balcony.",
            "Lovely! How many plants did you put out?",
            "Tomatoes are red.",
        ),
        (
            "Three. I worry about the wind, though.",
            "Tie them to a stick each, then a storm does them little harm. Is it windy where you live?",
            "Wind is moving air.",
        ),
        (
            "Very. I live on the ninth floor.",
            "Then a heavy pot helps as well. What a view you must have from up there!",
            "I live on the ninth floor too.",
        ),
    ],
    [
        (
            "I lost my keys again this morning.",
            "Oh no, were you late because of that?",
            "Keys open doors.",
        ),
        (
            "Half an hour, and my boss was not amused.",
            "That is no good start to a day. Where did they turn up in the end?",
            "I do not know.",
        ),
        (
            "In the fridge, of all places.",
            "At least they kept fresh! A hook beside the door has saved me from that.",
            "Keys open doors.",
        ),
    ],
    [
        (
            "My train was two hours late and I missed the concert.",
            "I am sorry, you must have looked forward to it for weeks.",
            "Trains run on rails.",
        ),
        (
            "I had. My sister gave me the ticket.",
            "What a pity for both of you. Do they play anywhere near you again?",
            "What is a sister?",
        ),
        (
            "Next year perhaps.",
            "Then I keep my fingers crossed for next year, and for the trains.",
            "Perhaps.",
        ),
    ],
]


def conversations_sample() -> list[Record]:
    """Return the conversations as an import reads them: each chatbot in every talk."""
    return [
        Record(
            line=number,
            dialogue_id=f"example-{number}-{bot}",
            bot=bot,
            turns=tuple(
                turn
                for said, *answers in talk
                for turn in (Turn("human", said), Turn("bot", answers[which]))
            ),
        )
        for number, talk in enumerate(_SAID, start=1)
        for which, bot in enumerate(_BOTS)
    ]
