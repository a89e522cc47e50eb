"""Rules that look at the participant: bots, conditions, answers, link parameters and earlier tasks."""

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.test import Client

from chatbots import Identity
from tests.builders import make_conversation, make_rating, make_study
from tests.webapp.participant.test_sittings import PANEL, start
from webapp.conversations.models import Conversation
from webapp.studies.assignment.rules.base import AssignmentCase, AssignmentRule, rules
from webapp.studies.models import QuestionAnswers, Task

pytestmark = pytest.mark.django_db


class ByCase(AssignmentRule):
    """Rule of a test: it keeps the case, and gives what a function chooses."""

    name = title = description = "by-case"
    identity = Identity("by-case", "1")

    def __init__(self) -> None:
        self.cases: list[AssignmentCase] = []
        self.pick: Callable[[AssignmentCase], int] = lambda _case: 0

    def choose_for(self, case: AssignmentCase, rng: random.Random) -> int:
        self.cases.append(case)
        return self.pick(case)


@pytest.fixture
def rule() -> Iterator[ByCase]:
    rules.names()  # the rules of the package are found first
    case = ByCase()
    rules.put(case)
    from tests.plugin.rule import FirstOfTheList

    rules.put(FirstOfTheList())
    yield case
    rules.discard("by-case")
    rules.discard("first")


def bot_of(response: Any) -> str:
    assert response.status_code == 302, response.content.decode()
    return str(Conversation.objects.get(pk=response["Location"].split("/")[2]).bot.bot_id)


def test_everybody_gets_the_first_bot_of_the_documented_rule(rule: ByCase) -> None:
    make_study("s", bots=["eliza", "parrot", "generic"], rule="first", min_exchanges=1)
    assert [bot_of(start(Client())) for _person in range(4)] == ["eliza"] * 4


def test_bots_in_a_row_come_in_the_order_of_a_rule_that_sets_it(rule: ByCase) -> None:
    make_study("s", bots=["parrot", "eliza", "generic"], rule="first", min_exchanges=1, bots_in_a_row=2)
    for _person in range(3):
        assert bot_of(start(Client())) == "parrot"
    for task in Task.objects.all():
        assert list(task.slots.order_by("order").values_list("bot_id", flat=True)) == ["parrot", "eliza"]


def test_a_rule_assigns_by_a_parameter_of_the_link(rule: ByCase) -> None:
    make_study("s", bots=["eliza", "parrot"], rule="by-case", **PANEL, more_parameters="country", min_exchanges=1)

    def pick(case: AssignmentCase) -> int:
        wanted = "parrot" if case.parameters.get("country") == "de" else "eliza"
        return [candidate.bot for candidate in case.candidates].index(wanted)

    rule.pick = pick
    for n, country in enumerate(("de", "uk", "de", "de")):
        expected = "parrot" if country == "de" else "eliza"
        assert bot_of(start(Client(), f"?pid=p{n}&country={country}")) == expected
    [candidate, _other] = rule.cases[-1].candidates
    assert (candidate.bot, candidate.load) == ("eliza", 1)


def test_a_rule_sees_answers_and_earlier_tasks(rule: ByCase) -> None:
    study = make_study(bots=["eliza", "parrot", "generic"], rule="by-case", min_exchanges=1)
    first = make_conversation(study, n_exchanges=1, platform="prolific", external_id="p")
    make_rating(first)
    QuestionAnswers.objects.create(participant=first.participant, version=study.version, answers={"age": "30"})
    make_conversation(study, platform="prolific", external_id="p")
    case = rule.cases[-1]
    assert case.participant == first.participant_id
    assert case.answers == {"age": "30"}
    assert [(task.outcome, task.bots) for task in case.earlier] == [("rated", [(first.bot.bot_id, {})])]
    assert list(case.bots) == ["eliza", "parrot", "generic"]


def test_a_rule_sees_conditions(rule: ByCase) -> None:
    factor = {
        "key": "tone",
        "label": "Tone",
        "levels": [{"key": "warm", "topic": "Holidays"}, {"key": "cold", "topic": "Winter"}],
    }
    study = make_study(bots=["eliza", "parrot"], rule="by-case", factors=[factor], min_exchanges=1)
    rule.pick = lambda case: [candidate.condition["tone"] for candidate in case.candidates].index("cold")
    for _person in range(3):
        assert make_conversation(study).condition == {"tone": "cold"}
