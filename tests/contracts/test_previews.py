"""Every step of every registered protocol in a preview: the real page, and nothing is stored."""

import re
from html.parser import HTMLParser
from typing import Any

import pytest
from django.apps import apps
from django.db import transaction
from django.test import Client

from tests.builders import QUIZ, TRAINING_PAIR, force_bots, make_study, signed_in
from webapp.core.rights import Right
from webapp.participant.access import ParticipantRequest
from webapp.participant.preview import BEFORE_TASKS
from webapp.participant.preview_data import standing_staged
from webapp.participant.steps.base import steps
from webapp.studies.models import Outcome, Study
from webapp.studies.protocols.base import get_protocol, protocols
from webapp.studies.selectors import participant_token

pytestmark = pytest.mark.django_db

QUESTIONS = [{"key": "age", "title": "How old are you?", "kind": "text"}]


def draft(protocol: str) -> Study:
    """Return a study that has questions, practice and neither bots nor items."""
    study = make_study(
        protocol=protocol,
        state="draft",
        bots=[],
        questions=QUESTIONS,
        training_pairs=[TRAINING_PAIR],
        quiz_questions=QUIZ,
    )
    return Study.objects.get(pk=study.pk)


@pytest.fixture
def staff() -> Client:
    return signed_in(Right.READ, Right.PAY)


def rows() -> dict[str, int]:
    managed = [model for model in apps.get_models() if model._meta.managed]
    return {model._meta.label: model._base_manager.count() for model in managed}


def main_of(page: bytes) -> str:
    """Return what the page shows, without what differs from visit to visit."""
    html = page.decode().split("<main", 1)[1].split("</main>", 1)[0]
    html = re.sub(r'(value|href|action|data-rate|data-report-url|data-token|datetime)="[^"]*"', "", html)
    html = re.sub(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}|AB\d{6}|\d\d:\d\d UTC", "·", html)
    return " ".join(html.split())


ELSEWHERE = re.compile(r"<(li|p)><a >Continue on another device</a></\1> ?")
"""Links that only the real page has: a preview cannot be continued on another device."""


ENDINGS = {protocols.get(name).gives: name for name in protocols.names()}.values()
"""One protocol for each kind of task, whose last page is previewed with every outcome: all share that step."""


@pytest.mark.parametrize("protocol", protocols.names())
def test_previews_store_nothing_and_hold_what_the_real_pages_hold(protocol: str, staff: Client) -> None:
    study = draft(protocol)
    before, frozen = rows(), study.version.frozen_at
    names = [step.name for step in protocols.get(protocol).steps]
    shown = {}
    for step in names:
        outcomes = Outcome.values if step == "done" and protocol in ENDINGS else []
        for outcome in [*outcomes, ""]:
            page = staff.get(f"/preview/{study.key}/{step}/", {"outcome": outcome})
            assert page.status_code == 200, (step, page.content.decode()[:500])
            assert not page.cookies, step
            shown[step] = main_of(page.content)
    assert rows() == before
    study.version.refresh_from_db()
    assert study.version.frozen_at == frozen
    for step in names:
        with transaction.atomic():
            real = real_page(study, step)
            transaction.set_rollback(True)  # the next step's participant is the study's first, too
        assert real.status_code == 200, step
        assert shown[step] == ELSEWHERE.sub("", main_of(real.content)), step


def real_page(study: Study, step: str) -> Any:
    """Open a step as a participant who has reached it."""
    if step not in BEFORE_TASKS:
        standing = standing_staged(study, step, Outcome.RATED)
        visit = ParticipantRequest(participant_token(standing.participant), standing.participant)
        return Client().get(steps.get(step).address(standing, visit))
    if get_protocol(study).talks_to_bots:  # visitors of a study that collects without bots are refused
        force_bots(study, ["eliza", "parrot"])
    Study.objects.filter(pk=study.pk).update(state=Study.State.COLLECTING)
    return Client().get(f"/s/{study.key}/")


SHARED_STEPS = {"consent", "instructions", "quiz", "questions", "done"}
"""Steps whose pages are the same for all protocols; their direction is looked at for one of each kind of task."""
MARK = "\u0632\u0628\u0631\u062c\u062f"
"""A word of Arabic that begins every text which the study's researcher wrote."""


class OwnTexts(HTMLParser):
    """Texts of a researcher, by whether something around them finds out the direction of writing."""

    VOID = ("area", "br", "hr", "img", "input", "link", "meta", "path", "use", "circle", "rect", "line")
    NO_MARKUP = ("title", "script", "option", "textarea")

    def __init__(self, html: str) -> None:
        super().__init__()
        self.around: list[tuple[str, bool]] = []
        self.right: list[str] = []
        self.wrong: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in self.VOID:
            self.around.append((tag, tag == "bdi" or ("dir", "auto") in attrs))

    def handle_endtag(self, tag: str) -> None:
        while self.around and self.around.pop()[0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        data = re.sub("\u2068[^\u2069]*\u2069", "", data)  # a blank of a sentence is isolated by its marks
        if MARK in data and self.around[-1][0] not in self.NO_MARKUP:
            (self.right if any(is_auto for _, is_auto in self.around) else self.wrong).append(data.strip())


def own_question(key: str, **fields: object) -> dict[str, object]:
    return {"key": key, "title": f"{MARK} {key}", "help": f"{MARK} help of {key}", **fields}


OWN_QUESTIONS = [
    own_question("age", kind="text"),
    own_question("tongue", kind="choice", options=[f"{MARK} one", f"{MARK} two"]),
    own_question("read", kind="choices", options=[f"{MARK} one", f"{MARK} two"]),
    *(
        own_question(key, kind="scale", low=1, high=5, labels={"1": f"{MARK} low", "5": f"{MARK} high"})
        for key in ("ease", "joy")
    ),
]
OWN_WORDS = {
    "title": f"{MARK} title",
    "payment": f"{MARK} pay",
    "organisation": f"{MARK} lab",
    "consent_points": f"{MARK} point one\n{MARK} point two",
    "consent_text": f"# {MARK} heading\n\n{MARK} form",
    "instructions_text": f"{MARK} first. {MARK} rest\n{MARK} second",
    "thanks_text": f"{MARK} thanks",
    "content_notice": f"{MARK} notice",
}


@pytest.mark.parametrize("protocol", protocols.names())
def test_texts_of_a_researcher_find_their_own_direction(protocol: str, staff: Client) -> None:
    quiz = [
        {**one, "question": f"{MARK} {number}", "options": [f"{MARK} a", f"{MARK} b"], "right": f"{MARK} a"}
        for number, one in enumerate(QUIZ)
    ]
    scale = protocols.get(protocol).scale
    asked = [
        {**own_question, "low": int(scale[0]), "high": int(scale[1]), "labels": {}}
        if scale and own_question["kind"] == "scale"
        else own_question
        for own_question in OWN_QUESTIONS
    ]
    study = make_study(
        protocol=protocol,
        state="draft",
        bots=[],
        language="ar",
        questions=OWN_QUESTIONS,
        after=asked[:-1] if protocols.get(protocol).n_asked else asked,  # there is room for one scale
        training_pairs=[{**TRAINING_PAIR, "why": f"{MARK} why"}],
        quiz_questions=quiz,
        counts_typing=True,
        typing_notice=f"{MARK} typing",
        counts_focus=True,
        focus_notice=f"{MARK} leaving",
        **OWN_WORDS,
        **({"n_choose": 1} if protocol == "choose" else {}),
    )
    seen = set[str]()
    is_asked_all = protocol in ENDINGS
    for step in protocols.get(protocol).steps:
        if step.name in SHARED_STEPS and not is_asked_all:
            continue
        texts = OwnTexts(staff.get(f"/preview/{study.key}/{step.name}/").content.decode())
        assert not texts.wrong, f"{step.name}: {texts.wrong}"
        seen |= set(texts.right)
    expected = {
        line
        for name, text in OWN_WORDS.items()
        if name != "organisation"
        for line in text.splitlines()
        if line and "#" not in line
    }
    expected = (expected - {f"{MARK} first. {MARK} rest"}) | {
        f"{MARK} first",
        f"{MARK} rest",
        f"{MARK} typing",
        f"{MARK} leaving",
    }
    assert seen
    assert expected <= seen or not is_asked_all, expected - seen
