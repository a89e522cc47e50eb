"""The form that narrows the list of conversations: what it shows of a line, the line it makes, and what it finds."""

import re
from collections.abc import Mapping
from typing import Any

import pytest
from django.http import QueryDict
from django.test import Client
from django.urls import reverse

from tests.builders import make_conversation, make_rating, make_study
from tests.markup import flat
from webapp.conversations.models import Conversation
from webapp.dashboard.filters import line_narrowed, search_form_of
from webapp.jobs.engine import run_job
from webapp.jobs.services.selfplay import run_create
from webapp.ratings.flag_store.models import TaskFlag
from webapp.ratings.flags.base import flag_kinds
from webapp.ratings.models import Rating
from webapp.ratings.selectors import study_dimensions
from webapp.search.fields import Numbers
from webapp.search.services import star_set, tag_add
from webapp.studies.models import Study

pytestmark = pytest.mark.django_db


@pytest.fixture(scope="module")
def rated_chats(rows_of_file: None) -> int:
    """Make a study of six rated chats; return its primary key."""
    study = make_study("n")
    for quality in (1, 2, 3, 4, 5, 6):
        make_rating(make_conversation(study, n_exchanges=3), quality=quality)
    return study.pk


@pytest.fixture
def study(rated_chats: int, db: None) -> Study:
    """Return that study as it is before any test."""
    return Study.objects.get(pk=rated_chats)


def sent(line: str, numbers: Numbers, changed: Mapping[str, Any]) -> str:
    """Return the line that comes of the form of a line, as a browser sends it after these changes."""
    form = search_form_of(line, numbers, {"bot": [("eliza", "Eliza"), ("parrot", "Parrot")], "tag": []})
    values: dict[str, Any] = {
        "q": line,
        "narrow": "1",
        **{name: select.chosen for name, select in form.selects.items()},
        "rater": form.rater,
        "number": form.shown_range.number.name,
        "low": form.shown_range.low,
        "high": form.shown_range.high,
        "is": [name for name, _title, is_asked in form.kinds if is_asked],
        "sample": form.sample,
        "seed": form.seed,
        **changed,
    }
    query = QueryDict(mutable=True)
    for name, value in values.items():
        query.setlist(name, value if isinstance(value, list) else [value])
    return line_narrowed(query, numbers)


LINES = (
    "",
    'rain bot:eliza quality:2..4 rater:r7 tag:"odd one" is:starred -is:scripted sample:20 seed:3',
    "bot:eliza,parrot bot:eliza quality>2 quality<5 tag:a,b sort:-quality limit:3",
    "-bot:eliza any.quality:1 is:starred,noted is:rated",
    "quality:>=2 started>2026-01-01",
)


@pytest.mark.parametrize("line", LINES)
def test_what_nobody_changed_stays_as_it_was(study: Study, line: str) -> None:
    numbers = Numbers(study_dimensions(study))
    read = sent(line, numbers, {})
    assert read == line.replace(":>=", ">=")


@pytest.mark.parametrize(
    ("line", "changed", "expected"),
    [
        ("rain", {"bot": "eliza"}, "rain bot:eliza"),
        ("bot:eliza rain", {"bot": ""}, "rain"),
        ("bot:eliza,parrot", {"bot": "parrot"}, "bot:parrot"),
        ("-bot:eliza", {"bot": "parrot"}, "-bot:eliza bot:parrot"),
        ("", {"rater": " Doe,  Jane "}, 'rater:"Doe, Jane"'),
        ("rater:r1,r2", {"rater": "r1"}, "rater:r1"),
        ("tag:Odd", {"tag": "odd one"}, 'tag:"odd one"'),
        ("is:rated", {"is": ["starred", "rated"]}, "is:rated is:starred"),
        ("is:rated is:starred", {"is": ["starred"]}, "is:starred"),
        ("is:rated,starred", {"is": ["noted"]}, "is:rated,starred is:noted"),
        ("", {"is": ["nonsense"]}, ""),
        ("quality:2..4", {"low": "", "high": ""}, ""),
        ("quality>2 quality<5", {"high": "6"}, "quality:2..6"),
        ("", {"number": "turns", "low": "4"}, "turns:4.."),
        ("quality:2..4", {"number": "turns", "low": "6", "high": "6"}, "quality:2..4 turns:6"),
        ("limit:5", {"sample": "20"}, "limit:5 sample:20"),
        ("sample:20 seed:3", {"seed": "4"}, "sample:20 seed:4"),
        ("sample:20 seed:3", {"sample": ""}, ""),
        ("", {"seed": "4"}, ""),
        ('rain "snow', {"bot": "eliza"}, 'rain "snow bot:eliza'),
    ],
)
def test_what_was_changed_is_changed_in_the_line(
    study: Study, line: str, changed: Mapping[str, Any], expected: str
) -> None:
    assert sent(line, Numbers(study_dimensions(study)), changed) == expected


def test_the_form_shows_what_the_line_asks_for(reader: Client, study: Study) -> None:
    tag_add(conversation=study.conversations.all()[0], text="odd <one>", author=None)
    listed = reverse("dashboard:study_conversations", args=["n"])
    line = 'tag:"odd <one>" bot:a,b rater:"<r>" is:starred sample:4 seed:2 turns:2..8'
    page = flat(reader.get(listed, {"q": line.replace("bot:a,b ", "")}).content.decode())
    form = page[page.index("data-narrow") : page.index("</form>", page.index("data-narrow"))]
    for part in (
        '<option value="odd &lt;one&gt;" selected>odd &lt;one&gt; (1)</option>',
        'name="rater" value="&lt;r&gt;"',
        'name="is" value="starred" checked',
        'name="sample" inputmode="numeric" autocomplete="off" value="4"',
        'value="turns" data-low="2" data-high="8" selected',
        'name="low" inputmode="decimal" autocomplete="off" value="2"',
    ):
        assert part in form, part
    assert "<one>" not in form
    assert search_form_of(line, Numbers([]), {"bot": [("c", "C")]}).selects["bot"].otherwise == "a,b"


def test_the_form_leads_to_the_address_of_its_line(reader: Client, study: Study) -> None:
    listed = reverse("dashboard:study_conversations", args=["n"])
    query = {"q": "sort:quality", "narrow": "1", "is": "unrated", "columns": "turns", "bot": ""}
    answer = reader.get(listed, {**query, "synthetic": "1", "flag": "", "low": "", "high": ""})
    assert answer.status_code == 302
    assert answer.url == f"{listed}?q=sort:quality+is:unrated&columns=turns&synthetic=1"  # type: ignore[attr-defined]
    # What cannot be meant is refused on the page, by its name.
    page = reader.get(listed, {"q": "", "narrow": "1", "sample": "many"}, follow=True)
    assert "“sample:many” needs a whole number." in page.content.decode()


def test_whose_ratings_are_asked_for_by_name_or_id(reader: Client, study: Study) -> None:
    chats = list(study.conversations.order_by("created_at"))
    Rating.objects.filter(conversation=chats[1]).update(rater="Doe, Jane", participant=None, task=None)
    listed = reverse("dashboard:study_conversations", args=["n"])

    def found(rater: str) -> list[Conversation]:
        page = reader.get(listed, {"q": "", "narrow": "1", "rater": rater}, follow=True)
        return [row.conversation for row in page.context["page"].rows]

    assert found("Doe, Jane") == [chats[1]]
    assert found(str(chats[2].participant_id)) == [chats[2]]
    assert found("nobody") == []
    # The names of those who rated what the list shows are offered.
    assert '<option value="Doe, Jane"></option>' in reader.get(listed).content.decode()


def test_flags_are_those_that_the_study_has(reader: Client, study: Study) -> None:
    listed = reverse("dashboard:study_conversations", args=["n"])
    # Nobody has looked for flags yet: all can be asked for, and then they are looked for.
    select = reader.get(listed).context["narrow"].selects["flag"]
    assert [value for value, _title in select.options] == flag_kinds.names()
    assert not TaskFlag.objects.exists()
    select = reader.get(listed, {"q": "flag:fast"}).context["narrow"].selects["flag"]
    flags = set(TaskFlag.objects.values_list("name", flat=True))
    assert {value for value, _title in select.options} == flags | {"fast"}
    select = reader.get(listed).context["narrow"].selects["flag"]
    assert {value for value, _title in select.options} == flags == {"same_answer"}
    flagged = TaskFlag.objects.filter(name="same_answer").values("participant")
    page = reader.get(listed, {"q": "", "narrow": "1", "flag": "same_answer"}, follow=True)
    assert page.context["narrow"].selects["flag"].chosen == "same_answer"
    assert page.context["page"].total == study.conversations.filter(participant__in=flagged).count()


def test_a_total_is_told_before_the_list_is_narrowed(reader: Client, study: Study) -> None:
    first = study.conversations.earliest("created_at")
    star_set(conversation=first, is_starred=True, author=None)
    url = reverse("dashboard:study_total", args=["n"])

    def told(**query: str) -> str:
        answer = reader.get(url, {"q": "quality<6", "narrow": "1", "number": "quality", **query})
        assert answer["Content-Type"].startswith("text/plain")
        return answer.content.decode()

    assert told(high="6") == "5 matching conversations."
    assert told(high="6", **{"is": "starred"}) == "1 matching conversation."
    assert told(sample="x", high="6") == "“sample:x” needs a whole number."
    assert "no order" not in told(high="<b>")


def test_runs_have_the_form_without_raters_and_flags(reader: Client) -> None:
    run = run_create(bots=["eliza", "parrot"], n_conversations=2, n_turns=4, seed=1, pairs="all")
    run_job(run)
    listed = reverse("dashboard:run_conversations", args=[run.pk])
    page = reader.get(listed)
    form = page.context["narrow"]
    assert set(form.selects) == {"bot", "first", "state"}
    assert (form.rater, [name for name, _title, _is in form.kinds]) == (None, ["starred", "tagged", "noted"])
    assert 'name="rater"' not in page.content.decode()
    answer = reader.get(listed, {"q": "", "narrow": "1", "bot": "parrot", "first": "eliza"})
    assert answer.url == f"{listed}?q=bot:parrot+first:eliza"  # type: ignore[attr-defined]
    total = reverse("dashboard:run_total", args=[run.pk])
    assert reader.get(total, {"q": "", "first": "eliza"}).content == b"4 matching conversations."


def test_names_and_ids_of_the_page_stand_once(reader: Client, study: Study) -> None:
    tag_add(conversation=study.conversations.all()[0], text="odd", author=None)
    page = reader.get(reverse("dashboard:study_conversations", args=["n"])).content.decode()
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
