"""Every registered study protocol: identity, steps, and a task drawn, asked about and completed."""

import json
from collections.abc import Mapping, Sequence
from typing import get_args
from uuid import UUID

import pytest
from django.template.loader import get_template

from tests.builders import make_study
from webapp.participant.question_forms.base import sheets
from webapp.studies.assignment.cells import DrawnBot
from webapp.studies.protocols.base import Gives, HeaderStep, Step, StudyProtocol, TaskProgress, header_steps, protocols
from webapp.studies.ready_made import DEFAULT_QUESTIONS
from webapp.studies.settings import SECTIONS, StudyValues


class FirstOnes:
    """Draws the first of a list."""

    values = StudyValues()

    def bots(self, n: int = 1) -> Sequence[DrawnBot]:
        return [DrawnBot(bot_id) for bot_id in ("eliza", "parrot", "generic")[:n]]

    def pairs(self, n: int = 1) -> Sequence[tuple[DrawnBot, DrawnBot]]:
        return [(DrawnBot(f"bot-{number}"), DrawnBot("parrot")) for number in range(n)]

    def in_turn(self) -> tuple[Sequence[DrawnBot], str]:
        return self.bots(self.values.assignment.bots_in_a_row), ""

    def dialogues(self, n: int = 1) -> Sequence[tuple[str, str]]:
        chats = self.conversations(2 * n)
        return list(zip(chats[::2], chats[1::2], strict=True))

    def conversations(self, n: int = 1) -> Sequence[str]:
        return [str(UUID(int=number)) for number in range(n)]

    def items(self, n: int = 1, *, least: int | None = None) -> Sequence[str]:
        return [str(number) for number in range(n)]

    def replies(self, conversations: Sequence[str]) -> dict[str, list[int]]:
        return {chat: [1, 3] for chat in conversations}

    def with_checks(self, items: Sequence[str]) -> Sequence[str]:
        return [*items, "check"]

    def sides(self, items: Sequence[str]) -> Mapping[str, bool]:
        return dict.fromkeys(items, False)

    def shown(self, items: Sequence[str], n: int) -> Mapping[str, Sequence[int]]:
        return {item: list(range(n)) for item in items}


@pytest.fixture(params=protocols.names())
def protocol(request: pytest.FixtureRequest) -> StudyProtocol:
    return protocols.get(request.param)


def test_it_says_who_it_is(protocol: StudyProtocol) -> None:
    assert protocol.title
    assert protocol.description
    assert protocol.gives in get_args(Gives)
    assert protocol.identity.name == protocol.name
    json.dumps(protocol.identity.as_dict())


def test_its_settings_are_sections_of_a_studys_values(protocol: StudyProtocol) -> None:
    assert set(protocol.settings) <= SECTIONS.keys()
    assert len(set(protocol.settings)) == len(protocol.settings)


def test_its_steps_begin_with_consent_and_end_with_the_code(protocol: StudyProtocol) -> None:
    names = [step.name for step in protocol.steps]
    assert names[0] == "consent"
    assert names[-1] == "done"
    assert len(set(names)) == len(names)
    assert all(str(step.heading) for step in protocol.steps)
    assert [name for place in header_steps(protocol.steps) for name in place.steps] == names


def test_who_judges_has_a_page_with_its_words_its_partial_and_its_sheet(protocol: StudyProtocol) -> None:
    if all(step.name != "judge" for step in protocol.steps):
        return
    page = protocol.page
    assert page.heading
    assert "3" in page.count % {"n": 3, "of": 7}
    get_template(f"participant/judge/{page.template}.html")
    assert sheets.get(page.sheet).name == page.sheet


def test_a_task_names_what_is_looked_at_and_is_complete_when_all_of_it_is_rated(protocol: StudyProtocol) -> None:
    plan = protocol.next_task(FirstOnes())
    assert plan.kind
    assert plan.slots
    json.dumps(dict(plan.payload))
    for slot in plan.slots:
        assert sum(bool(given) for given in (slot.bot, slot.conversation, slot.item)) == 1
    assert not protocol.is_complete(TaskProgress(n_slots=len(plan.slots), n_rated=0))
    assert protocol.is_complete(TaskProgress(n_slots=len(plan.slots), n_rated=len(plan.slots)))


@pytest.mark.django_db
def test_a_new_study_asks_what_the_protocol_begins_with(protocol: StudyProtocol) -> None:
    study = make_study(protocol=protocol.name, state="draft")
    params = {row.key: row.scale for row in study.rubric.dimensions.all()}
    scores = [score.key for score in protocol.scores(study.values)]
    assert [key for key in params if key in scores] == list(params)[: len(scores)] == scores, "they lead"
    params = {key: scale for key, scale in params.items() if key not in scores}
    assert list(params) == [question.key for question in protocol.asks or DEFAULT_QUESTIONS]
    if protocol.scale is not None:
        assert set(params.values()) == {protocol.scale}


def test_steps_in_a_row_with_one_heading_share_a_place() -> None:
    steps = [Step("consent", "About"), Step("instructions", "About"), Step("chat", "Chat")]
    assert header_steps([*steps, Step("form", "About")]) == [
        HeaderStep(1, "About", ("consent", "instructions")),
        HeaderStep(2, "Chat", ("chat",)),
        HeaderStep(3, "About", ("form",)),
    ]
