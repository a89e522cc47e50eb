"""The comparison finds what is lost and doubled."""

import json
from collections import Counter
from typing import Any

from tests.chaos.ledger import Ledger


class Stored:
    """Stands in for a server whose database holds this."""

    def __init__(self, **stored: Any) -> None:
        self.stored = {"turns": [], "ratings": [], "waiting": [], "people": {}, **stored}

    def shell(self, _code: str) -> str:
        return json.dumps(self.stored)


def told() -> Ledger:
    return Ledger(
        messages={"m": ("c", 0, "hello")},
        replies={("c", 1): "hi"},
        votes={("c", 1): -1},
        ratings=["c"],
        people=Counter(s=1),
    )


TURNS = [["c", 0, "hello", 0, "m"], ["c", 1, "hi", -1, ""]]


def test_all_is_there() -> None:
    result = told().compare(Stored(turns=TURNS, ratings=["c"], people={"s": 1}))
    assert (result.lost, result.doubled, result.waiting) == ([], [], [])


def test_all_is_lost() -> None:
    result = told().compare(Stored())
    assert result.lost == ["message m (0 of c)", "reply 1 of c", "vote on 1 of c", "rating of c", "1 people of study s"]


def test_what_was_changed_counts_as_lost() -> None:
    ledger = told()
    ledger.note_reply("c", 1, "something else")
    turns = [["c", 0, "hullo", 0, "m"], ["c", 1, "hi", 1, ""]]
    result = ledger.compare(Stored(turns=turns, ratings=["c"], people={"s": 1}))
    assert result.lost == ["reply 1 of c was shown with two texts", "message m (0 of c)", "vote on 1 of c"]


def test_what_is_there_twice() -> None:
    turns = [*TURNS, ["c", 2, "hello", 0, "n"]]
    result = told().compare(Stored(turns=turns, ratings=["c", "c"], people={"s": 2}, waiting=["c"]))
    assert result.doubled == ["rating of c", "message 'hello'", "1 people of study s"]
    assert result.lost == []
    assert result.waiting == ["c"]
