"""Cost, caps and public checkpoints on the pages, and parameters in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from pytest_django.asserts import assertContains, assertNotContains

from chatbots.bots.endpoint import EndpointBot
from chatbots.endpoints.metering import ReplyCost
from chatbots.registry import bots
from tests.builders import make_study
from tests.markup import flat
from webapp.bots.models import DeclaredBot, Spending
from webapp.bots.services import Purse, spending_reserve, spending_settle


@pytest.fixture
def paid() -> Iterator[EndpointBot]:
    bot = EndpointBot(name="gpt", title="GPT", model="m", price_in=0.0, price_out=1e6, max_new_tokens=5, max_cost=90)
    bots.add(bot)
    yield bot
    bots.discard("gpt")


def spend(cost: float, study: Any = None) -> None:
    purses = [Purse("bot", "gpt", None, "")]
    if study is not None:
        purses.append(Purse("study", str(study.pk), None, ""))
    receipt = spending_reserve(purses=purses, bound=ReplyCost(cost=cost))
    spending_settle(reservation=receipt, cost=ReplyCost(1200, 34, cost, True))


def test_pages_tell_what_was_spent_and_which_cap_is_reached(staff: Client, paid: EndpointBot) -> None:
    study = make_study("dear", bots=["eliza", "gpt"], max_cost=15)
    overview, needs = reverse("dashboard:study", args=["dear"]), reverse("dashboard:home")
    assert "0.00 of 15.00" in flat(staff.get(overview).content.decode())
    assertNotContains(staff.get(needs), "cap on cost is reached")
    spend(12.5, study)
    page = staff.get(overview)
    assert "12.50 of 15.00" in flat(page.content.decode())
    assertContains(page, "1 call; 1,200 tokens in, 34 out; tokens of 1 estimated")
    # 2.5 is left, and a reply may cost 5.
    assertContains(page, "cap reached")
    assertContains(page, "the study&#x27;s cap of 15 is reached: 12.5 is spent")
    assertContains(staff.get(needs), "cannot go on in dear: its cap on cost is reached.")
    listed = staff.get(reverse("dashboard:bots"))
    assert "12.50</strong> of 90.00" in flat(listed.content.decode())
    assertNotContains(listed, "Cap reached")
    spend(75)
    assertContains(staff.get(reverse("dashboard:bots")), "Cap reached")
    one = staff.get(reverse("dashboard:bot", args=["gpt"]))
    assertContains(one, "its cap of 90 is reached: 87.5 is spent")
    assert Spending.objects.get(of="bot").spent == 87.5


def test_without_paid_bots_nobody_reads_of_cost(staff: Client) -> None:
    make_study("free")
    assertNotContains(staff.get(reverse("dashboard:study", args=["free"])), "<h2>Cost</h2>")
    assertNotContains(staff.get(reverse("dashboard:bots")), ">Cost</th>")


def test_a_public_checkpoint_is_added(staff: Client, stranger: Client) -> None:
    add = reverse("dashboard:bot_add", args=["dialogpt-small"])
    assertContains(staff.get(reverse("dashboard:bots")), f'action="{add}"')
    assert stranger.post(add).status_code == 403
    assert staff.get(add).status_code == 405
    assert staff.post(reverse("dashboard:bot_add", args=["nothing"])).status_code == 404
    assert not DeclaredBot.objects.exists()
    page = staff.post(add, follow=True)
    assertContains(page, "Its 353 MB are downloaded when it is first loaded.")
    assertContains(page, reverse("dashboard:bot", args=["dialogpt-small"]))
    assertNotContains(page, f'action="{add}"')
    assertContains(staff.post(add, follow=True), "DialoGPT small was not added")
