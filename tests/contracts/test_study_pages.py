"""The example of every protocol, from its file to its results: opened, played by scripted participants, exported.

Every page of the study tells the same of its data: of one rehearsed person, and of two as real.
"""

from pathlib import Path
from typing import Any

import pytest
from django.db import connection, connections
from django.test import Client
from django.urls import reverse

from tests.builders import make_staff
from tests.contracts.rehearsals import (
    LINES,
    NO_DATA,
    PAGES,
    InsideDoors,
    item_models_tell,
    names_nothing,
    opened,
    results_shown,
    secrets_of,
    tables_read_back,
    words_of,
)
from webapp.conversations.models import Conversation
from webapp.core.database import in_database
from webapp.core.rights import Right
from webapp.dashboard.navigation import RESULTS, TABS, pages_open_to
from webapp.insights.action_items import action_items
from webapp.insights.live_page import live_room
from webapp.insights.live_progress import now_rounded
from webapp.insights.selectors import study_cards, study_rows
from webapp.participant import consumers
from webapp.participant.simulated import ScriptedParticipant, steps
from webapp.ratings.models import Rating
from webapp.results.fingerprint import analysed_counts
from webapp.studies.assignment.counterbalance import study_count_anew
from webapp.studies.models import Participant, Study
from webapp.studies.protocols.base import get_protocol, protocols
from webapp.studies.selectors import rehearsal_token

PER_TASK = {"arena": 4, "best_worst": 5, "dialogues": 3, "pairwise": 5, "picks": 6, "rank_three": 5}
"""Ratings of pairs or of several replies by one person of the protocol's example; the check is none of them."""


def read(client: Client, study: Study, route: str, **query: str) -> str:
    answer = client.get(reverse(f"dashboard:{route}", args=[study.key]), query, follow=True)
    assert answer.status_code == 200, (study.protocol, route)
    return words_of(answer.content.decode())


def pages_agree(study: Study, n_people: int, **query: str) -> None:
    """Ask every page of people's data whether there are some, and the numbers of each that shows some.

    Pages of scripted participants are asked by `test_project_contents.py`, which opens them anyway.
    """
    synthetic, name = "synthetic" in query, study.protocol
    user = make_staff(*Right, username=f"{study.key}-{n_people}-{len(query)}")
    client = Client()
    client.force_login(user)
    if not synthetic:  # of scripted people alone the list says nothing
        row = next(study_row for study_row in study_rows(Study.objects.all()) if study_row.study == study)
        each = 1 if name not in ("chat", "marked_chat", "arena", "picks", "survey") else None
        assert row.n_completed >= n_people, name
        assert each is None or row.n_completed == n_people, name
        assert "chat" not in row.latest or get_protocol(study).talks_to_bots, name
    for tab in () if synthetic else TABS:
        for page in pages_open_to(user, tab, study):
            assert not NO_DATA.findall(read(client, study, page.route)), (name, n_people, page.name)
    cards = study_cards(study, include_synthetic=synthetic)
    room = live_room(study, include_synthetic=synthetic, now=now_rounded())
    counted = {
        "cards": cards.n_ratings,
        "live room": sum(hour.n for hour in room.pace.hours),
        "report": analysed_counts(study, include_synthetic=synthetic).n_ratings,
    }
    if cards.items is not None:
        counted["items"] = cards.items.n_ratings
        assert cards.items.n_rated > 0, name
    assert len(set(counted.values())) == 1, (name, counted)
    assert (cards.n_people, cards.n_raters) == (n_people, n_people), name
    if name in PER_TASK:
        assert cards.n_ratings == n_people * PER_TASK[name]
    if get_protocol(study).compares_pairs:
        order = get_protocol(study).order
        n_judgements = cards.n_ratings * (1 if order is None else len(order.choices.implied))
        assert f"{n_judgements} judgements of" in read(client, study, "study_results", **query)
    if get_protocol(study).judges_items:
        assert "do not chat" in read(client, study, "study_conversations", **query)
    assert "cannot give participants a chatbot" not in " ".join(action_item.rest for action_item in action_items())


def people_made_real(study: Study) -> None:
    """Count the scripted participants as people."""
    Participant.objects.filter(study=study).update(is_synthetic=False)
    Conversation.objects.filter(study=study).update(is_synthetic=False)
    study_count_anew(study_id=study.pk)


def opens_on_its_own_results(study: Study) -> None:
    user = make_staff(*Right, username=f"{study.key}-opens")
    first = pages_open_to(user, RESULTS, study)[0].name
    assert first == ("why" if study.protocol == "choose" else "results")
    client = Client()
    client.force_login(user)
    if study.protocol == "choose":
        text = read(client, study, "study_why", synthetic="1", part="items")
        assert "weight" in text.lower()


ON_SERVERS = {
    (protocol.gives, protocol.compares_pairs): protocol.name for protocol in map(protocols.get, protocols.names())
}.values()
"""Protocols that PostgreSQL is asked about, one for each kind of task and of result: all have the same tables.

Their tables are read back in every form, those of each other protocol in one.
"""
ENDINGS = ("csv", "jsonl", "parquet")


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    "name", [name for name in protocols.names() if name in ON_SERVERS or connection.vendor == "sqlite"]
)
async def test_an_example_is_played_to_its_end_and_all_pages_agree(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    """Nobody who takes part is told which bot or item it is; that, and tables read back, are the same on both."""
    monkeypatch.setattr(consumers, "LOOK_UP_AFTER_S", 0.02)  # no host tells of its replies here
    monkeypatch.setattr(steps, "_ATTENTIVE", 1.0)  # else one in twenty misses a check
    study, number = await in_database(opened)(name), protocols.names().index(name)
    await in_database(item_models_tell)(study)
    rehearsal: dict[str, Any] = {"rehearsal": await in_database(rehearsal_token)(study)}
    first, second = (InsideDoors("http://testserver", study.key, rehearsal) for _ in range(2))
    first.follows_links, second.follows_links = connection.vendor == "sqlite", False
    who = await ScriptedParticipant(first, lines=LINES, seed=number).play()
    assert who.n_pages
    assert bool(who.n_exchanges) == (protocols.get(name).gives == "bots")
    assert len(first.told) >= who.n_pages
    await in_database(results_shown)(study)
    if first.follows_links:  # on PostgreSQL every page is opened once, below
        await in_database(pages_agree)(study, 1, synthetic="1")
    secrets = await in_database(secrets_of)(study)
    if first.follows_links:
        endings = ENDINGS if name in ON_SERVERS else [ENDINGS[number % len(ENDINGS)]]
        await in_database(tables_read_back)(study, tmp_path, endings)
    await ScriptedParticipant(second, lines=LINES, seed=1).play()
    await second.close()
    assert await in_database(Rating.objects.exists)()
    await in_database(opens_on_its_own_results)(study)
    await in_database(people_made_real)(study)
    await in_database(pages_agree)(study, 2)
    if first.follows_links:
        await first.look_back()
        await first.withdraw()
        await first.look_back()
    await first.close()
    names_nothing(first.told, secrets, name)
    PAGES.submit(connections.close_all).result()
