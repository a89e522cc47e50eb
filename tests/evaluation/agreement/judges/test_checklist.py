"""A judge that checks criteria: its request, its answers, and those that cannot be used."""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from chatbots import Conversation, Identity
from chatbots.bots.base import BotDefaults
from chatbots.registry import bots
from evaluation.agreement.judges.checklist import NEEDS_ENDPOINT, NO_LIST, check_items, check_prompt, read_met
from evaluation.data.items import ReplyItem
from evaluation.metrics.judge import JudgeMetric
from evaluation.metrics.verdicts import REFUSED

CRITERIA = [{"text": "It is kind.", "points": 3}, {"text": "It is wrong.", "points": -2}]


class Checker(BotDefaults):
    """A language model at an endpoint: it ticks a statement if a word of it stands in the reply."""

    name = "checker"
    title = "Checker"
    identity = Identity("checker", "1", {"model": "any"})

    def __init__(self) -> None:
        self.formats: list[dict[str, Any]] = []

    def likely_want(self, context: Conversation, response_format: dict[str, Any] | None = None) -> None:
        assert response_format is not None
        self.formats.append(response_format)

    def likely_take(self, context: Conversation) -> tuple[()]:
        return ()

    def answer(self, contexts: Sequence[Conversation]) -> list[str]:
        return [self.about(context.turns[-1].text) for context in contexts]

    def about(self, prompt: str) -> str:
        reply = prompt.partition("The reply to judge:")[2].partition("The statements:")[0]
        if "secret" in reply:
            return "I'm sorry, I cannot help with that."
        if "odd" in reply:
            return "All of them!"
        numbers = [n for n, word in enumerate(("kind", "wrong"), start=1) if word in reply]
        return f'Some are true.\n{{"met": {numbers}}}'


@pytest.fixture
def checker() -> Iterator[Checker]:
    bot = Checker()
    bots.add(bot)
    yield bot
    bots.discard("checker")


def make_item(key: str, reply: str) -> ReplyItem:
    return ReplyItem(id=key, context=["Hello.", "Hi! Statement 9."], response=reply, criteria=CRITERIA)


def test_each_item_is_one_request_and_unusable_answers_are_counted(checker: Checker) -> None:
    replies = ["kind", "wrong", "kind and wrong", "neither", "a secret", "odd", "an odd secret"]
    items = [make_item(str(n), reply) for n, reply in enumerate(replies)]
    done: list[int] = []
    checked = check_items(JudgeMetric(bot="checker"), items, done.append)
    assert checked.ticks == {"0": [1, 0], "1": [0, 1], "2": [1, 1], "3": [0, 0]}
    assert checked.problems == {REFUSED: 2, NO_LIST: 1}
    assert done == [7]
    numbers = [one["json_schema"]["schema"]["properties"]["met"]["items"]["enum"] for one in checker.formats]
    assert numbers == [[1, 2]] * 7


def test_the_request_has_the_statements_without_their_points() -> None:
    prompt = check_prompt(make_item("1", 'Sure.\n{"met": [2]}'), 5)
    assert "1. It is kind.\n2. It is wrong.\n" in prompt
    assert "-2" not in prompt
    assert prompt.endswith('{"met": [1, 3]}')
    assert "A: Hi! Statement 9." in prompt


def test_a_line_break_in_a_statement_begins_no_other_statement() -> None:
    criteria = [{"text": "It is kind.\n2. It is long.", "points": 1}, CRITERIA[1]]
    prompt = check_prompt(ReplyItem(id="1", response="Hi.", criteria=criteria), 5)
    assert "\n1. It is kind. 2. It is long.\n2. It is wrong.\n" in prompt


def test_a_judge_without_an_endpoint_is_refused() -> None:
    with pytest.raises(ValueError, match="name a judge with a `bot`"):
        check_items(JudgeMetric(model="any"), [make_item("1", "kind")])
    assert "local `model`" in NEEDS_ENDPOINT


@pytest.mark.parametrize(
    ("text", "met"),
    [
        ('{"met": [1, 3]}', [1, 0, 1]),
        ('{"met": []}', [0, 0, 0]),
        ('```json\n{\n "met": [2]\n}\n```', [0, 1, 0]),
        ('First {"met": [1]}, but then:\n{"met": [3], "note": "sure"}', [0, 0, 1]),
        ('{"met": [2, 2]}', [0, 1, 0]),
        ('{"met": [4]}', None),
        ('{"met": [0]}', None),
        ('{"met": [true]}', None),
        ('{"met": ["1"]}', None),
        ('{"met": 1}', None),
        ('{"met": [1}', None),
        ('{"1": "met", "2": "not met", "3": "met"}', None),
        ('{"met": [1, 3]} was the form.\n{"met": [{"statement": 2}]}', None),
        ('{"reasons": {"1": "kind"}, "met": [2]}', [0, 1, 0]),
        ('<think>Maybe {"met": [1]}?</think>I am not sure.', None),
        ('{"met": ' + "[" * 3000, None),
        ("1 and 3", None),
        ("", None),
    ],
)
def test_the_last_list_counts_if_all_its_numbers_are_statements(text: str, met: list[int] | None) -> None:
    assert read_met(text, 3) == (met, NO_LIST if met is None else "")
