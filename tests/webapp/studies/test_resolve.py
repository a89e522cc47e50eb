"""The rule `resolve`: a stored state that a job refreshes, with a floor; faster than balancing, no more errors."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from evaluation.analysis.leaderboard import MOST_NEEDED
from tests.builders import make_conversation, make_participant, make_study
from webapp.jobs.engine import run_job
from webapp.jobs.models import Job
from webapp.results.refresh import RANKING_NOT_SOONER_THAN, order_refresh
from webapp.studies.assignment.rules.base import FLOOR
from webapp.studies.models import OrderState, Study
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
    run_job(job)
    found = OrderState.objects.get(study=study)
    assert found.n_ratings == 2
    assert set(found.needs.values()) == {MOST_NEEDED}
    rate(study)
    assert Job.objects.filter(kind="order").count() == 1, "it has just been looked at"
    OrderState.objects.update(made_at=timezone.now() - RANKING_NOT_SOONER_THAN - timedelta(seconds=1))
    rate(study)
    run_job(Job.objects.latest("pk"))
    assert Job.objects.filter(kind="order").count() == 1, "earlier ones are gone"
    assert OrderState.objects.get(study=study).n_ratings == 4
    assert order_refresh(study) is None
