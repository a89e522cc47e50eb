"""One of a thing is never told in the plural: "1 rating", not "1 ratings"."""

from __future__ import annotations

import html
import re

import pytest
from django.test import Client
from django.urls import reverse
from django.utils.html import strip_tags

from tests.builders import make_conversation, make_rating, make_study
from tests.webapp.dashboard.test_pages import addresses
from webapp.conversations.models import Turn
from webapp.dashboard.report_files import report_ask
from webapp.dashboard.views.why import why_parts
from webapp.jobs.engine import run_job
from webapp.studies.models import Study

COUNTED = (
    "answers|bots|chats|columns|conversations|dimensions|exchanges|messages|metrics|pairs|people|persons"
    "|participants|questions|raters|ratings|replies|runs|turns|users|votes|words"
)
WRONG = re.compile(rf"(?<![\d.,:−+-])\b1 (?:(?:rated|completed|scripted|open) )?(?:{COUNTED})\b")


def wrong_in(page: str) -> list[str]:
    """Return the places that tell one thing in the plural, in texts and in attributes."""
    text = html.unescape(re.sub(r"\s+", " ", strip_tags(page)))
    places = [*WRONG.finditer(text), *WRONG.finditer(html.unescape(page))]
    return [f"…{place.string[max(0, place.start() - 40) : place.end()]}" for place in places]


def test_the_search_finds_what_is_wrong() -> None:
    assert wrong_in("<p>by <b>1</b> people</p>") == ["…by 1 people"]
    assert wrong_in('<i title="1 rated bots">') == ['…<i title="1 rated bots']
    assert not wrong_in("11 people, 2.1 words, 1 person, −1 votes, 1 metric")


@pytest.mark.parametrize(("bots", "n_exchanges"), [(["eliza"], 1), (["eliza", "parrot"], 2)])
def test_no_page_tells_one_thing_in_the_plural(staff: Client, bots: list[str], n_exchanges: int) -> None:
    study = make_study("one", bots=bots, min_exchanges=1)
    conversation = make_conversation(study, n_exchanges=n_exchanges)
    Turn.objects.filter(conversation=conversation, index=1).update(vote=1)
    make_rating(conversation)
    scripted = make_conversation(study, n_exchanges=1, is_synthetic=True)
    make_rating(scripted)
    pages = [*addresses(study), *statistics_pages(study)]
    pages += [reverse("participant:entry", args=[study.key]), f"{addresses(study)[0]}?synthetic=1"]
    wrong = {page: found for page in pages if (found := wrong_in(read(staff, page)))}
    assert not wrong


def part_pages(study: Study) -> list[str]:
    """Return the pages of the parts that the study has."""
    return [f"{reverse('dashboard:study_why', args=[study.key])}?part={part}" for part in why_parts(study)]


def statistics_pages(study: Study) -> list[str]:
    parts = part_pages(study)
    run_job(report_ask(study=study))
    return [*parts, reverse("dashboard:study_report_file", args=[study.key])]


def read(client: Client, address: str) -> str:
    answer = client.get(address, follow=True)
    assert answer.status_code == 200, address
    return answer.content.decode()
