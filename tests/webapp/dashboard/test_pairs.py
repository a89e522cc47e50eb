"""A run of bots with each other: the form, the matrix, the conversations behind its cells, the reader."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse
from pytest_django.asserts import assertContains, assertNotContains

from chatbots.registry import bots
from tests.fakes import FakeWholeBot
from tests.markup import flat
from webapp.conversations.models import Conversation
from webapp.jobs.engine import run_job
from webapp.jobs.models import SelfPlayRun

pytestmark = pytest.mark.django_db


def test_a_matrix_is_asked_for_shown_and_read(staff: Client) -> None:
    plan = {"bots": ["eliza", "parrot"], "n_conversations": 2, "n_turns": 4, "seed": 1}
    page = staff.post(reverse("dashboard:runs"), {**plan, "bots": ["eliza"], "pairs": "all"})
    assertContains(page, "eliza alone makes no pair", status_code=400)
    assert staff.post(reverse("dashboard:runs"), {**plan, "pairs": "all"}).status_code == 302
    run = SelfPlayRun.objects.get()
    assert run.n_total == 8
    assertContains(
        staff.get(reverse("dashboard:run", args=[run.pk])), "The bot of the row begins, the bot of the column answers"
    )
    run_job(run)
    page = staff.get(reverse("dashboard:run", args=[run.pk]))
    listed = reverse("dashboard:run_conversations", args=[run.pk])
    for first in ("eliza", "parrot"):
        for bot in ("eliza", "parrot"):
            link = f'href="{listed}?bot={bot}&amp;first={first}">2</a>'
            assert link in flat(page.content.decode())
    assertContains(page, "Conversations per pair")

    mixed = staff.get(listed, {"bot": "parrot", "first": "eliza"})
    assertContains(mixed, "with eliza, who begins", count=2)
    alone = staff.get(listed, {"bot": "parrot", "first": "parrot"})
    assert alone.context["page"].total == 2
    assertNotContains(alone, "who begins")

    one = Conversation.objects.filter(selfplay__partner_bot_id="eliza").first()
    reader = staff.get(reverse("dashboard:conversation", args=[one.pk]), follow=True)
    assertContains(reader, "with Eliza (rules), version")
    assertNotContains(reader, "opener’s side")


def test_a_run_says_how_many_failed_and_why(staff: Client) -> None:
    bots.add(FakeWholeBot(name="moody", fails=lambda context: context.seed % 2))
    try:
        plan = {"bots": ["eliza", "moody"], "n_conversations": 8, "n_turns": 4, "seed": 1}
        assert staff.post(reverse("dashboard:runs"), plan).status_code == 302
        run = SelfPlayRun.objects.get()
        run_job(run)
    finally:
        bots.discard("moody")
    failed = Conversation.objects.filter(selfplay__run=run, state="failed")
    n_failed = failed.count()
    assert 1 < n_failed < 8
    page = staff.get(reverse("dashboard:run", args=[run.pk]))
    assertContains(page, f"{n_failed} conversations failed.")
    assertContains(page, f"{n_failed} times: failed: RuntimeError: scripted failure")
    assertContains(page, f'<span class="big-count">{16 - n_failed}</span>', html=True)
    assertContains(page, "Part failed")
    listed = staff.get(reverse("dashboard:runs"))
    assertContains(listed, f"{16 - n_failed} of 16")
    assertContains(listed, f"{n_failed} failed")
    reader = staff.get(reverse("dashboard:conversation", args=[failed.first().pk]), follow=True)
    assertContains(reader, "scripted failure")
    assert "leave this conversation out" in flat(reader.content.decode())
