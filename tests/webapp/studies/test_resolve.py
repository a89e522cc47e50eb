"""The rule `resolve`: by a stored state that a job refreshes, with a floor, sooner than balancing and never less right."""

from __future__ import annotations

import random
from collections import Counter
from datetime import timedelta

import numpy as np
import pandas as pd
import pytest
from django.test import Client
from django.utils import timezone

from evaluation.analysis.settling import MOST_NEEDED, settling
from evaluation.ratings import Ratings
from tests.builders import make_conversation, make_participant, make_rating, make_study
from webapp.results.order import NOT_SOONER_THAN, order_refresh
from webapp.runs.engine import job_do
from webapp.runs.models import Job
from webapp.studies.models import OrderState, Study
from webapp.studies.rules.base import rules
from webapp.studies.rules.resolve import FLOOR
from webapp.studies.selectors import participant_token
from webapp.studies.services import order_state_store, task_open

BOTS = ["eliza", "parrot", "generic"]


def state(study: Study, **needs: int) -> OrderState:
    return order_state_store(study=study, found={"needs": needs}, n_ratings=60)


@pytest.mark.django_db
def test_people_go_where_most_is_needed_and_some_go_anywhere() -> None:
    study = make_study(bots=BOTS, rule="resolve")
    state(study, eliza=30, parrot=10, generic=0)
    tasks = [task_open(participant=make_participant(study)) for _ in range(300)]
    given = Counter(task.bot_ids[0] for task in tasks)
    shares = {"eliza": FLOOR / 3 + (1 - FLOOR) * 0.75, "parrot": FLOOR / 3 + (1 - FLOOR) * 0.25}
    for bot_id, share in {**shares, "generic": FLOOR / 3}.items():
        error = 3.5 * (300 * share * (1 - share)) ** 0.5
        assert abs(given[bot_id] - 300 * share) < error
    drawn_by = tasks[0].drawn_by
    assert drawn_by["rule"]["name"] == "resolve"
    assert drawn_by["rule"]["params"] == {"floor": FLOOR}
    assert drawn_by["order"]["n_ratings"] == 60
    assert drawn_by["order"]["needs"] == {"eliza": 30, "parrot": 10, "generic": 0}


@pytest.mark.django_db
def test_without_a_state_or_with_all_settled_it_balances() -> None:
    study = make_study(bots=BOTS, rule="resolve")
    given = Counter(task_open(participant=make_participant(study)).bot_ids[0] for _ in range(9))
    assert given == dict.fromkeys(BOTS, 3)
    state(study, eliza=0, parrot=0, generic=0)
    given += Counter(task_open(participant=make_participant(study)).bot_ids[0] for _ in range(9))
    assert given == dict.fromkeys(BOTS, 6)


@pytest.mark.django_db
def test_a_bot_that_nobody_has_rated_is_needed_as_much_as_any() -> None:
    study = make_study(bots=BOTS, rule="resolve")
    state(study, eliza=0, parrot=40)
    given = Counter(task_open(participant=make_participant(study)).bot_ids[0] for _ in range(100))
    assert given["generic"] > 25
    assert given["eliza"] < 20


@pytest.mark.django_db
def test_a_rating_asks_a_worker_to_look_again_and_no_request_does_so_itself(client: Client) -> None:
    study = make_study(bots=BOTS, rule="resolve")
    plain = make_study("plain", bots=BOTS)
    answers = dict.fromkeys(["quality", "fluency", "diversity", "contingency", "empathy"], "4")

    def rate(of: Study) -> None:
        chat = make_conversation(of, n_exchanges=3)
        token = participant_token(chat.participant)
        page = client.post(f"/chat/{chat.pk}/rate/?t={token}", {**answers, "_t": token})
        assert "/done/" in page["Location"]

    rate(plain)
    assert not Job.objects.exists()
    rate(study)
    rate(study)
    job = Job.objects.get()
    assert not OrderState.objects.exists()
    job_do(job)
    found = OrderState.objects.get(study=study)
    assert found.n_ratings == 2
    assert set(found.needs.values()) == {MOST_NEEDED}
    rate(study)
    assert Job.objects.filter(kind="order").count() == 1, "it has just been looked at"
    OrderState.objects.update(made_at=timezone.now() - NOT_SOONER_THAN - timedelta(seconds=1))
    rate(study)
    job_do(Job.objects.latest("pk"))
    assert Job.objects.filter(kind="order").count() == 1, "earlier ones are gone"
    assert OrderState.objects.get(study=study).n_ratings == 4
    assert order_refresh(study) is None


@pytest.mark.django_db
def test_what_is_stored_says_all_that_a_page_needs() -> None:
    study = make_study(bots=BOTS)
    for number in range(6):
        make_rating(make_conversation(study, n_exchanges=3), quality=1 + number)
    job = order_refresh(study)
    assert job is not None
    job_do(job)
    found = OrderState.objects.get(study=study).found
    assert found["test"] == "always"
    assert {"a", "b", "verdict", "low", "high", "raters_more"} <= found["pairs"][0].keys()
    assert set(found["means"]) == set(BOTS)
    assert found["means"]["eliza"]["low"] <= found["means"]["eliza"]["mean"]


TRUTH = {"a": 5.6, "b": 4.9, "c": 3.4, "d": 2.0}
ORDERS = {("a", "b"), ("a", "c"), ("a", "d"), ("b", "c"), ("b", "d"), ("c", "d")}


def until_settled(rule_name: str, seed: int, most: int = 900) -> tuple[int, bool]:
    """Play a study with looks every 12 ratings. Returns the ratings until all is settled, and if an order was wrong."""
    rule, rng, noise = rules.get(rule_name), random.Random(seed), np.random.default_rng(seed)
    rows: list[dict[str, object]] = []
    needs: dict[str, int] = {}
    while len(rows) < most:
        counts = Counter(str(row["bot"]) for row in rows)
        bots = sorted(TRUTH, key=lambda bot: counts[bot])
        at = rule.choose(
            [counts[bot] for bot in bots],
            rng,
            [float(needs[bot]) for bot in bots] if needs and rule.reads_needs else None,
        )
        bot = bots[at]
        quality = float(np.clip(round(TRUTH[bot] + noise.normal(0, 1.3)), 1, 7))
        rows.append({"conversation": str(len(rows)), "bot": bot, "rater": None, "quality": quality})
        if len(rows) % 12 or len(rows) < 36:
            continue
        found = settling(Ratings.from_frame(pd.DataFrame(rows), ["quality"], scale=(1, 7)))
        needs = {one: found.needs.get(one, MOST_NEEDED) for one in TRUTH}
        for pair in found.compared.pairs:
            if pair.ordered and (pair.difference or 0) < 0:  # sorted by name, best first
                return len(rows), True
        if found.compared.told_apart == ORDERS:
            return len(rows), False
    return most, False


@pytest.mark.slow
def test_orders_are_resolved_sooner_than_by_balancing_and_no_more_of_them_wrongly() -> None:
    n_studies = 40
    runs = {
        name: [until_settled(name, seed) for seed in range(n_studies)]
        for name in ("balanced", "resolve")
    }
    needed = {name: np.mean([n for n, _wrong in found]) for name, found in runs.items()}
    assert needed["resolve"] < 0.9 * needed["balanced"], needed
    most = 0.1 + 2 * (0.1 * 0.9 / n_studies) ** 0.5
    for found in runs.values():
        assert np.mean([wrong for _n, wrong in found]) <= most
