"""A run of bots with each other: the form, the matrix, the conversations behind its cells, the reader."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse
from pytest_django.asserts import assertContains, assertNotContains

from webapp.conversations.models import Conversation
from webapp.runs import jobs
from webapp.runs.models import SelfPlayRun

pytestmark = pytest.mark.django_db


def test_a_matrix_is_asked_for_shown_and_read(staff: Client) -> None:
    plan = {"bots": ["eliza", "parrot"], "n_conversations": 2, "n_turns": 4, "seed": 1}
    page = staff.post(reverse("dashboard:runs"), {**plan, "bots": ["eliza"], "pairs": "all"})
    assertContains(page, "eliza alone makes no pair", status_code=400)
    assert staff.post(reverse("dashboard:runs"), {**plan, "pairs": "all"}).status_code == 302
    run = SelfPlayRun.objects.get()
    assert run.n_total == 8
    assertContains(staff.get(reverse("dashboard:run", args=[run.pk])), "Rows begin, columns answer")
    jobs.selfplay_slice(run.pk)
    page = staff.get(reverse("dashboard:run", args=[run.pk]))
    listed = reverse("dashboard:run_conversations", args=[run.pk])
    for first in ("eliza", "parrot"):
        for bot in ("eliza", "parrot"):
            assertContains(page, f'href="{listed}?bot={bot}&amp;first={first}">2</a>')
    assertContains(page, "Conversations per pair")

    mixed = staff.get(listed, {"bot": "parrot", "first": "eliza"})
    assertContains(mixed, "with eliza, who begins", count=2)
    alone = staff.get(listed, {"bot": "parrot", "first": "parrot"})
    assertContains(alone, "<code>", count=2)
    assertNotContains(alone, "who begins")

    one = Conversation.objects.filter(selfplay__partner_bot_id="eliza").first()
    reader = staff.get(reverse("dashboard:conversation", args=[one.pk]))
    assertContains(reader, "with Eliza (rules), version")
    assertNotContains(reader, "opener’s side")


def test_a_plain_run_has_its_table_of_bots(staff: Client) -> None:
    plan = {"bots": ["eliza"], "n_conversations": 2, "n_turns": 4, "seed": 1}
    assert staff.post(reverse("dashboard:runs"), plan).status_code == 302
    page = staff.get(reverse("dashboard:run", args=[SelfPlayRun.objects.get().pk]))
    assertContains(page, "Bots of the run")
    assertNotContains(page, "Rows begin")
