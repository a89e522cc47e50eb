"""How far people came in a study."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import pytest
from django.apps import apps
from django.db import connection
from django.test import Client

from tests.builders import make_conversation, make_study
from webapp.studies.models import LinkCount, Participant, Study, Task, Whereabouts
from webapp.studies.recruitment.links import link_opened, step_reached
from webapp.studies.selectors import rehearsal_token

pytestmark = pytest.mark.django_db

PHONE = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 Version/18.5 Safari/604.1"
CUBOT = "Mozilla/5.0 (Linux; Android 14; CUBOT X90) AppleWebKit/537.36 Chrome/138.0.0.0 Mobile Safari/537.36"
ROBOTS = (
    "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
    "Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)",
    "facebookexternalhit/1.1 (+http://www.facebook.com/externalhit_uatext.php)",
    "WhatsApp/2.23.20.0",
    "Mozilla/5.0 (Windows NT 6.1) SkypeUriPreview Preview/0.5",
    "curl/8.5.0",
    "python-requests/2.32.4",
)


def rows() -> dict[str, list[dict[str, Any]]]:
    """Return every row of every table but those of the openings."""
    models = [
        model for model in apps.get_models(include_auto_created=True) if model._meta.managed and model != LinkCount
    ]
    return {model._meta.label: list(model._default_manager.order_by("pk").values()) for model in models}


def counts() -> dict[tuple[bool, str], int]:
    result = LinkCount.objects.values_list("is_synthetic", "refused", "n")
    return {(is_synthetic, refused): n for is_synthetic, refused, n in result}


def test_opening_a_link_stores_a_count_and_nothing_about_a_person() -> None:
    study = make_study()
    before = rows()
    ids = "?PROLIFIC_PID=5f0c0ffee&STUDY_ID=s1&SESSION_ID=v1"
    for query in ("", ids, "?workerId=W1&assignmentId=A1&hitId=H1", ids):
        answer = Client(headers={"user-agent": PHONE}).get(f"/s/{study.key}/{query}")
        assert "Nothing about you is stored until you start the chat or decline." in answer.content.decode()
    assert rows() == before
    [count] = LinkCount.objects.values()
    day = count.pop("day")
    assert (datetime.now(UTC).date() - day).days in (-1, 0, 1)
    del count["id"]
    assert count == {"study_id": study.pk, "is_synthetic": False, "refused": "", "n": 4}


def test_openings_are_counted_by_reason_and_robots_and_previews_are_left_out() -> None:
    study, address = make_study(), "/s/s/"
    for agent in (PHONE, PHONE, CUBOT):
        Client(headers={"user-agent": agent}).get(address)
    for agent in ROBOTS:
        Client(headers={"user-agent": agent}).get(address)
    Client(headers={"user-agent": PHONE, "sec-purpose": "prefetch;prerender"}).get(address)
    Client().head(address)
    Client().get(f"{address}?assignmentId=ASSIGNMENT_ID_NOT_AVAILABLE&workerId=w")
    assert counts() == {(False, ""): 3}
    # Scripted participants are programs, and counted apart.
    Client(headers={"user-agent": ROBOTS[-1]}).get(f"{address}?rehearsal={rehearsal_token(study)}")
    Study.objects.update(state=Study.State.PAUSED)
    Client().get(address)
    assert counts() == {(False, ""): 3, (True, ""): 1, (False, "paused"): 1}


@pytest.mark.postgres  # the test database of SQLite is in memory, where writers do not wait
@pytest.mark.django_db(transaction=True)
def test_openings_at_one_instant_are_all_counted() -> None:
    study, ready = make_study(), threading.Barrier(8)

    def open_link(_number: int) -> None:
        try:
            ready.wait(timeout=30)
            link_opened(study=study, is_synthetic=False)
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(open_link, range(40)))
    assert counts() == {(False, ""): 40}


def test_the_step_that_somebody_looks_at_and_the_furthest_one_are_kept() -> None:
    conversation = make_conversation(make_study())
    task = conversation.task
    step_reached(task=task, step="chat")
    step_reached(task=task, step="form")
    step_reached(task=task, step="chat")
    step_reached(task=task, step="no step of it")
    where = Whereabouts.objects.get()
    assert (where.step, where.furthest, where.study_id) == ("chat", "form", task.participant.study_id)
    Task.objects.update(state=Task.State.EXPIRED)
    task.refresh_from_db()
    step_reached(task=task, step="form")
    where.refresh_from_db()
    assert where.step == "chat"
    Participant.objects.all().delete()
    assert not Whereabouts.objects.exists()
