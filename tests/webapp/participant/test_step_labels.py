"""Labels of the steps of a reply's trace: pages, what is refused, exports, packages and erasure."""

import re
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from django.core.exceptions import ValidationError
from django.test import Client

from chatbots.trace import TraceStep
from chatbots.validation import ValuesError
from tests.builders import make_conversation, make_participant, make_rating, make_study
from tests.webapp.participant.conftest import csrf, shown, started
from tests.webapp.transfer.test_package_reading import again
from webapp.conversations.models import Turn
from webapp.core.errors import Refused
from webapp.participant.simulated import ScriptedParticipant, StudyClient
from webapp.ratings.models import Rating, RatingRevision
from webapp.ratings.rating_tasks import requested_ratings
from webapp.ratings.services import rating_add
from webapp.studies.models import Participant, Study, Task
from webapp.studies.services import task_open
from webapp.studies.study_file import study_file_read
from webapp.transfer.exporters.base import ExportOptions, exporter_get

pytestmark = pytest.mark.django_db
TRACE = [
    TraceStep(kind="reasoning", text="Look it up <b>.").model_dump(),
    TraceStep(kind="tool", name="search", arguments='{"q": "tea"}', text="Green tea.").model_dump(),
]
KEYS = ("ignores", "contradicts", "invents", "nonsense", "repeats", "feeling", "asks")
NO_LABEL = dict.fromkeys(KEYS, 0)


def make_steps_study(trace: str = "folded", **fields: Any) -> Study:
    """Make a study that labels two replies of a chat; the first one has a trace of two steps."""
    chat = make_conversation(make_study("talked", min_exchanges=2, trace=trace), n_exchanges=2)
    Turn.objects.filter(conversation=chat, index=1).update(trace=TRACE)
    make_rating(chat)
    fields = {"label_steps": True, **fields}
    return make_study("a", **{"protocol": "turns", "bots": [], "conversations_of": "talked", **fields})


def send(browser: Client, address: str, n: int, *steps: str) -> Any:
    sent = {"_n": str(n), "marks": ["_none"], "steps": list(steps), "csrfmiddlewaretoken": csrf(browser)}
    return browser.post(address, sent)


def test_steps_are_labelled_with_their_reply(browser: Client) -> None:
    make_steps_study()
    address = started(browser, "a")
    page = shown(browser.get(address))
    assert page.count('name="steps"') == 2 * 5 + 1
    assert '<details class="trace" aria-live="off" open>' in page
    assert "Look it up &lt;b&gt;." in page
    page = shown(send(browser, address, 1))
    assert "Tick what is true of the steps above the reply" in page
    page = shown(send(browser, address, 1, "1:Wrong call", "_none"))
    assert "“None of these in any step” cannot be combined with others" in page
    assert send(browser, address, 1, "1:Wrong call", "0:Faulty reasoning", "1:Invented result").status_code == 302
    rating = Rating.objects.get(turn__isnull=False)
    assert rating.other_answers == {"steps": [["Faulty reasoning"], ["Wrong call", "Invented result"]]}
    assert rating.answers == NO_LABEL
    page = shown(browser.get(f"{address}?n=1"))
    assert re.findall(r'name="steps"[^>]* value="([^"]+)" checked', page) == [
        "0:Faulty reasoning", "1:Wrong call", "1:Invented result"
    ]  # fmt: skip
    send(browser, address, 1, "_none")
    rating.refresh_from_db()
    assert rating.other_answers == {"steps": [[], []]}
    assert RatingRevision.objects.get().other_answers["steps"][1] == ["Wrong call", "Invented result"]
    assert 'name="steps"' not in shown(browser.get(address)), "the second reply has no trace"
    assert send(browser, address, 2).url.endswith("/done/")
    assert Rating.objects.filter(turn__index=3).get().other_answers == {}
    Participant.objects.filter(study__key="a").delete()
    assert not Rating.objects.filter(other_answers__has_key="steps").exists()
    assert not RatingRevision.objects.exists()


@pytest.mark.parametrize(
    "steps",
    [
        None,
        [],
        "_none",
        ["2:Wrong call"],
        ["-1:Wrong call"],
        ["1:wrong call"],
        ["0:Wrong call\x00"],
        ["0:" + "x" * 100_000],
        [["0:Wrong call"]],
        ["_none", "0:Wrong call"],
    ],
)
def test_a_step_or_label_that_is_not_there_is_refused(steps: Any) -> None:
    task = task_open(participant=make_participant(make_steps_study()))
    with pytest.raises(Refused) as refused:
        rating_add(task=task, target=requested_ratings(task)[0].target, answers={**NO_LABEL, "steps": steps})
    assert set(refused.value.details["errors"]) == {"steps"}
    assert not Rating.objects.filter(task=task).exists()


@pytest.mark.parametrize(
    "fields", [{"trace": "hidden"}, {"label_steps": False}, {"protocol": "error_spans"}, {"withheld": True}]
)
def test_no_labels_of_steps_are_asked_where_none_are_shown_or_wanted(fields: dict[str, Any]) -> None:
    is_withheld = fields.pop("withheld", False)
    task = task_open(participant=make_participant(make_steps_study(**fields)))
    if is_withheld:
        Turn.objects.filter(index=1).update(withheld_text="Bad.")
    target = requested_ratings(task)[0].target
    given = {"spans": ["_none"]} if "protocol" in fields else NO_LABEL
    with pytest.raises(Refused) as refused:
        rating_add(task=task, target=target, answers={**given, "steps": ["0:Wrong call"]})
    assert set(refused.value.details["errors"]) == {"steps"}
    assert "steps" not in rating_add(task=task, target=target, answers=given).rating.other_answers


def label(study: Study, *codes: str) -> None:
    task = task_open(participant=make_participant(study, entry_nonce="-".join(codes)))
    first, second = (rating.target for rating in requested_ratings(task))
    rating_add(task=task, target=first, answers={**NO_LABEL, "steps": list(codes)})
    rating_add(task=task, target=second, answers=NO_LABEL)


def test_labels_of_steps_are_exported_and_come_back_from_a_package(tmp_path: Path) -> None:
    study = make_steps_study(step_labels=["Übel", "Wrong: call"])
    label(study, "0:Wrong: call", "1:Übel")
    label(study, "_none")
    table = exporter_get("step_labels")
    names = [column.name for column in table.columns(study, ExportOptions())]
    rows = [dict(zip(names, row, strict=True)) for row in table.rows(study, ExportOptions())]
    assert [(row["turn"], row["step"], row["label"], row["value"]) for row in rows] == [
        (1, 0, "Übel", 0), (1, 0, "Wrong: call", 1), (1, 1, "Übel", 1), (1, 1, "Wrong: call", 0),
        (1, 0, "Übel", 0), (1, 0, "Wrong: call", 0), (1, 1, "Übel", 0), (1, 1, "Wrong: call", 0),
    ]  # fmt: skip
    names = [column.name for column in exporter_get("ratings").columns(study, ExportOptions())]
    at = names.index("steps")
    assert [row[at] for row in exporter_get("ratings").rows(study, ExportOptions())] == [
        [["Wrong: call"], ["Übel"]], None, [[], []], None
    ]  # fmt: skip
    result = Rating.objects.filter(task__participant__study=again(study, tmp_path), turn__index=1).order_by("pk")
    assert [one.other_answers for one in result] == [{"steps": [["Wrong: call"], ["Übel"]]}, {"steps": [[], []]}]


@pytest.mark.parametrize("labels", [[], ["a", "a"], [""], ["x" * 201], ["a\nb"], ["a"] * 21, "Wrong call", {"a": "b"}])
def test_labels_that_cannot_be_used_are_refused(labels: Any) -> None:
    with pytest.raises(ValidationError) as refused:
        make_steps_study(step_labels=labels)
    assert "step_labels" in str(refused.value)


def test_a_question_cannot_have_the_name_of_the_steps() -> None:
    scale = {"key": "ok", "title": "Good", "kind": "scale", "low": 0, "high": 1}
    with pytest.raises(ValidationError, match="already uses the key “steps”"):
        make_steps_study(after=[scale, {"key": "steps", "title": "Why?", "kind": "text"}])


def test_labels_speak_the_participants_language(browser: Client) -> None:
    own = {"de": {"Too slow": "Zu langsam"}}
    make_steps_study(languages=["en", "de"], translations=own, step_labels=["Wrong call", "Too slow"])
    address = started(browser, "a", "?lang=de")
    page = shown(browser.get(address))
    assert re.findall(r'value="0:([^"]+)"> <span dir="auto">([^<]+)<', page) == [
        ("Wrong call", "Falscher Aufruf"), ("Too slow", "Zu langsam")
    ]  # fmt: skip
    assert send(browser, address, 1, "0:Too slow").status_code == 302
    assert Rating.objects.get(turn__isnull=False).other_answers["steps"] == [["Too slow"], []]
    german = make_study("g", protocol="turns", bots=[], conversations_of="talked", language="de")
    assert german.values.step_marking.step_labels[0] == "Falscher Aufruf"


def test_a_task_of_labelled_steps_can_be_completed(browser: Client) -> None:
    make_steps_study()
    address = started(browser, "a")
    send(browser, address, 1, "_none")
    send(browser, address, 2)
    assert Task.objects.get(kind="judge").outcome == "rated"


def test_mistakes_in_a_file_are_refused_with_their_places() -> None:
    file = {"confab_study": 1, "key": "k", "name": "K", "protocol": "turns"}
    wrong = {**file, "step_marking": {"label_steps": "maybe", "step_labels": ["Good", "two\nlines"]}}
    with pytest.raises(ValuesError) as refused:
        study_file_read(yaml.safe_dump(wrong))
    assert {mistake.path for mistake in refused.value.mistakes} >= {
        "step_marking.label_steps",
        "step_marking.step_labels[1]",
    }


class OwnProcess(StudyClient):
    """Client of a scripted participant that asks Django itself, without a server."""

    async def _ask(self, method: str, address: str, **request: Any) -> httpx.Response:
        send = self.browser.post if method == "POST" else self.browser.get
        page = send(address, request.get("data"), follow=True)
        at = httpx.Request(method, f"http://testserver{page.request['PATH_INFO']}")
        return httpx.Response(page.status_code, content=page.content, request=at)

    browser = Client()


def test_a_scripted_participant_labels_steps() -> None:
    make_steps_study()
    person = ScriptedParticipant(OwnProcess("http://testserver", "a"), lines=["Hi"], seed=1)
    with pytest.raises(StopIteration):  # at its end: nothing waits, so it needs no loop, which would hide the database
        person.play().send(None)
    assert Task.objects.get(kind="judge").outcome == "rated"
    steps = Rating.objects.get(turn__index=1).other_answers["steps"]
    assert len(steps) == 2
    assert set(steps[0] + steps[1]) <= set(Study.objects.get(key="a").values.step_marking.step_labels)
