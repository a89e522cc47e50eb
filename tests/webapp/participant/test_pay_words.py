"""Pages speak of pay where the study says that it pays, and nowhere else."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client

from tests.builders import BY_PROLIFIC, exchange, make_study
from tests.webapp.participant.conftest import begin, post
from tests.webapp.participant.test_finished import MTURK, PROLIFIC, end_early, rate
from webapp.studies.models import Participant
from webapp.studies.privacy import withdrawal_token

pytestmark = pytest.mark.django_db

OF_PAY = re.compile(r"\b(?:pay|pays|paid|payment)\b", re.I)
LINKS: dict[str, tuple[dict[str, Any], str]] = {
    "link": ({}, ""),
    "prolific": (BY_PROLIFIC, PROLIFIC),
    "mturk": ({"platform": "mturk"}, MTURK),
    "mturk, pasted": ({"platform": "mturk"}, ""),
    "panel": ({**BY_PROLIFIC, "platform": "panel"}, "?id=p1"),
}


def read(client: Client, path: str) -> str:
    """Return what a page says, without its markup's names."""
    html = client.get(path).content.decode()
    return re.sub(r"<[^>]*>", " ", html)


def pages_of(browser: Client, query: str, **settings: Any) -> list[str]:
    """Return everything that is read on the way of a chat that fails, and on that of a withdrawal."""
    make_study("s", pays_in_full=True, ids_kept_days=30, withdrawal_days=30, **settings)
    found = [read(browser, f"/s/s/{query}")]
    chat = begin(browser, query=query)
    exchange(chat, "hello", "hello you")
    found += [read(browser, f"/chat/{chat.pk}/"), read(browser, f"/chat/{chat.pk}/report/?turn=1")]
    assert end_early(browser, query).pk == chat.pk
    found += [read(browser, f"/chat/{chat.pk}/done/"), read(browser, f"/s/s/{query}")]
    withdrawal = f"/withdraw/{withdrawal_token(Participant.objects.get())}/"
    found.append(read(browser, withdrawal))
    assert post(browser, withdrawal, confirm="on").status_code == 302
    found += [read(browser, withdrawal), read(browser, f"/s/s/{query}")]
    found.append(read(Client(), f"/s/s/{'?id=' if 'id=' in query else '?PROLIFIC_PID='}"))
    return found


@pytest.mark.parametrize("come_by", LINKS)
def test_a_study_without_pay_says_no_word_of_it(browser: Client, come_by: str) -> None:
    settings, query = LINKS[come_by]
    for page in pages_of(browser, query, **settings):
        assert not (said := OF_PAY.search(page)), page[said.start() - 200 : said.end() + 200]


@pytest.mark.parametrize("come_by", LINKS)
def test_who_has_rated_in_a_study_without_pay_is_promised_none(browser: Client, come_by: str) -> None:
    settings, query = LINKS[come_by]
    make_study("s", **settings)
    chat = rate(browser, query)
    page = read(browser, f"/chat/{chat.pk}/done/")
    assert "Everything is saved" in page
    assert not OF_PAY.search(page)


@pytest.mark.parametrize("pay", [{"pay_each": 2}, {"payment": "£1.40 per chat"}])
def test_a_study_with_pay_speaks_of_it_everywhere(browser: Client, pay: dict[str, Any]) -> None:
    settings, query = LINKS["prolific"]
    assert all(OF_PAY.search(page) for page in pages_of(browser, query, **settings, **pay))
