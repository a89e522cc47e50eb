"""Who gets which bot: none that is set aside, by `resolve` where most is needed; and what filters of replies find."""

import random
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from django.core.exceptions import ValidationError
from django.test import Client
from django.utils import timezone

from evaluation.analysis.leaderboard import MOST_NEEDED, ranking_progress
from evaluation.data.ratings import Ratings
from tests.builders import (
    exchange,
    make_arena,
    make_conversation,
    make_participant,
    make_participants,
    make_rating,
    make_study,
)
from tests.tiny_models import save_classifier
from webapp.bots.services import bot_failed, bot_put_back
from webapp.conversations.models import Conversation
from webapp.core.errors import Refused
from webapp.jobs.engine import run_job
from webapp.jobs.models import Job
from webapp.ratings.services import comparison_submit
from webapp.results.refresh import RANKING_NOT_SOONER_THAN, order_refresh
from webapp.studies.assignment.rules.base import FLOOR, rules
from webapp.studies.models import OrderState, Slot, Study
from webapp.studies.reply_filters.base import FilterInput, reply_filters
from webapp.studies.selectors import participant_token
from webapp.studies.services import task_open
from webapp.studies.settings import StudyValues
from webapp.studies.versions import study_edit

pytestmark = pytest.mark.django_db


BOTS = ["eliza", "parrot", "generic"]


def set_aside(*bot_ids: str) -> None:
    for bot_id in bot_ids:
        for chat in "abc":
            bot_failed(bot_id=bot_id, reason="broken", chat=chat)


def given(study: Any) -> set[str]:
    return {*task_open(participant=make_participant(study)).bot_ids}


@pytest.mark.parametrize("rule", [rule.name for rule in rules])
def test_nobody_new_is_given_it(rule: str) -> None:
    set_aside("parrot")
    chat = make_study("c", bots=BOTS, rule=rule)
    row = make_study("r", bots=BOTS, rule=rule, bots_in_a_row=2)
    arena = make_arena("a", bots=BOTS, rule=rule)
    for _ in range(6):
        for study in (chat, row, arena):
            assert "parrot" not in given(study)
    set_aside("eliza")
    with pytest.raises(Refused) as refused:
        given(arena)
    assert refused.value.code == "no_bot"
    assert given(chat) == {"generic"}
    bot_put_back(bot_id="parrot")
    assert given(arena) == {"parrot", "generic"}


def test_a_chat_to_come_with_it_makes_way() -> None:
    study = make_study("r", bots=BOTS, bots_in_a_row=2)
    first = make_conversation(study, n_exchanges=3)
    coming = first.task.slots.get(order=1).bot_id
    set_aside(coming)
    make_rating(first)
    second = Conversation.objects.get(state=Conversation.State.OPEN)
    assert {first.bot.bot_id, coming, second.bot.bot_id} == {*BOTS}
    assert not Slot.objects.filter(bot_id=coming).exists()


def test_without_another_bot_the_task_ends_early_with_pay() -> None:
    study = make_study("r", bots=BOTS[:2], bots_in_a_row=2)
    first = make_conversation(study, n_exchanges=3)
    set_aside(first.task.slots.get(order=1).bot_id)
    task = make_rating(first).task
    assert (task.outcome, bool(task.completion_code)) == ("bot_failed", True)


def test_pairs_to_come_with_it_make_way_and_without_any_the_task_ends_early() -> None:
    study = make_arena("a", bots=[*BOTS, "retrieval"])
    conversation = make_conversation(study)
    task = conversation.task
    slots = list(task.slots.order_by("order"))
    away = ({slots[2].bot_id, slots[3].bot_id} - {slots[0].bot_id, slots[1].bot_id}).pop()
    set_aside(away)
    for chat in Conversation.objects.all():
        exchange(chat, "hello", "hi")
    comparison_submit(task=task, slots=(slots[0], slots[1]), choice="a")
    coming = set(Conversation.objects.filter(state="open").values_list("bot__bot_id", flat=True))
    assert len(coming) == 2
    assert away not in coming
    task.refresh_from_db()
    assert task.state == "open"


def test_without_another_pair_the_task_ends_early_with_pay() -> None:
    study = make_arena("a", bots=BOTS)
    task = make_conversation(study).task
    slots = list(task.slots.order_by("order"))
    set_aside(*{slots[2].bot_id, slots[3].bot_id})
    for chat in Conversation.objects.all():
        exchange(chat, "hello", "hi")
    ended = comparison_submit(task=task, slots=(slots[0], slots[1]), choice="a").task
    assert (ended.outcome, bool(ended.completion_code)) == ("bot_failed", True)


NAMES = ("gpt2-small", "GPT-2 small", "openai-community/gpt2", "parrot", "ELIZA")


def found(name: str, text: str, **settings: Any) -> tuple[str, ...] | None:
    values = StudyValues.model_validate({"filtering": settings})
    got = reply_filters.get(name).find(text, FilterInput(values, NAMES))
    return None if got is None else got.words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("As an AI language model, I cannot.", ("As an AI language model",)),
        ("I am ChatGPT, made by OpenAI.", ("ChatGPT", "made by OpenAI")),
        ("I’m a large language model trained by Google!", None),  # words checked below
        ("My name is Claude.", ("My name is Claude",)),
        ("Well, Llama 3 is what I run on.", ("Llama 3",)),
        ("I use GPT-4o for this.", ("GPT-4o",)),
        ("This is gpt2-small speaking.", ("gpt2-small",)),
        ("It is openai-community/gpt2.", ("openai-community/gpt2",)),
        ("I am Eliza, how do you do?", ("I am Eliza",)),
        ("i'm   parrot", ("i'm parrot",)),
    ],
)
def test_a_reply_that_names_its_model(text: str, words: tuple[str, ...] | None) -> None:
    got = found("names_model", text)
    assert got == words if words else got


@pytest.mark.parametrize(
    "text",
    [
        "I love my parrot, and the llama at the zoo.",
        "My friend Claude is a Gemini.",
        "Three palms, 3 falcons and an apple.",
        "I am a student of language models of the city.",
        "The mistral blew all day; a metaphor.",
    ],
)
def test_everyday_words_are_no_names_of_models(text: str) -> None:
    assert found("names_model", text) is None


def test_phrases_are_found_literally_as_whole_words() -> None:
    listed = ["damn it", "C++", "坏", "a.b"]
    for text, words in {
        "DAMN  it, Damn it!": ("DAMN  it", "Damn it"),
        "c++ rocks": ("c++",),
        "很坏的": ("坏",),
        "aXb, goddamn it, damn item": None,
    }.items():
        assert found("phrases", text, filter_phrases=listed) == words, text


def test_a_classifier_of_ones_own_finds_what_it_gives_its_label(tmp_path: Path) -> None:
    save_classifier(tmp_path / "model")
    settings = {"filter_model": str(tmp_path / "model"), "filter_label": "neutral"}
    one = reply_filters.get("classifier")
    values = StudyValues.model_validate({"filtering": {**settings, "filter_from": 0.0}})
    assert one.unavailable_reason(values) is None
    got = one.find("hello you", FilterInput(values))
    assert "“neutral” a probability of 0." in got.reason
    beyond = {**settings, "filter_from": 1.0}
    assert one.find("hello you", FilterInput(StudyValues.model_validate({"filtering": beyond}))) is None
    assert one.identity(values).key != one.identity(StudyValues()).key
    wrong = StudyValues.model_validate({"filtering": {**settings, "filter_label": "neutrl"}})
    assert "did you mean neutral?" in str(one.unavailable_reason(wrong))


@pytest.mark.django_db
def test_a_filter_that_is_not_there_or_lacks_something_is_refused() -> None:
    study = make_study(state=Study.State.DRAFT)
    for actions, field, said in (
        ({"phrase": "mark"}, "reply_filters", "did you mean phrases?"),
        ({"phrases": "hide"}, "reply_filters", "mark"),
    ):
        with pytest.raises(ValidationError) as refused:
            study_edit(study=study, reply_filters=actions)
        assert said in str(refused.value.message_dict[field])
    study = study_edit(study=study, reply_filters={"phrases": "mark", "classifier": "withhold"})
    with pytest.raises(ValidationError) as refused:
        study_edit(study=study, state=Study.State.COLLECTING)
    assert {"filter_phrases", "filter_model"} <= set(refused.value.message_dict)


def state(study: Study, **needs: int) -> None:
    fields = {"found": {"needs": needs}, "n_ratings": 60, "made_at": timezone.now()}
    OrderState.objects.update_or_create(study=study, defaults=fields)


@pytest.mark.django_db
def test_people_go_where_most_is_needed_and_some_go_anywhere() -> None:
    study = make_study(bots=BOTS, rule="resolve")
    state(study, eliza=30, parrot=10, generic=0)
    tasks = [task_open(participant=participant) for participant in make_participants(study, 300)]
    counts = Counter(task.bot_ids[0] for task in tasks)
    shares = {"eliza": FLOOR / 3 + (1 - FLOOR) * 0.75, "parrot": FLOOR / 3 + (1 - FLOOR) * 0.25}
    for bot_id, share in {**shares, "generic": FLOOR / 3}.items():
        error = 3.5 * (300 * share * (1 - share)) ** 0.5
        assert abs(counts[bot_id] - 300 * share) < error
    drawn_by = tasks[0].drawn_by
    assert drawn_by["rule"]["name"] == "resolve"
    assert drawn_by["rule"]["params"] == {"floor": FLOOR}
    assert drawn_by["order"]["n_ratings"] == 60
    assert drawn_by["order"]["needs"] == {"eliza": 30, "parrot": 10, "generic": 0}


@pytest.mark.django_db
def test_without_a_state_or_with_all_settled_it_balances() -> None:
    study = make_study(bots=BOTS, rule="resolve")
    counts = Counter(task_open(participant=participant).bot_ids[0] for participant in make_participants(study, 9))
    assert counts == dict.fromkeys(BOTS, 3)
    state(study, eliza=0, parrot=0, generic=0)
    counts += Counter(task_open(participant=participant).bot_ids[0] for participant in make_participants(study, 9))
    assert counts == dict.fromkeys(BOTS, 6)


@pytest.mark.django_db
def test_a_bot_that_nobody_has_rated_is_needed_as_much_as_any() -> None:
    study = make_study(bots=BOTS, rule="resolve")
    state(study, eliza=0, parrot=40)
    counts = Counter(task_open(participant=participant).bot_ids[0] for participant in make_participants(study, 100))
    assert counts["generic"] > 25
    assert counts["eliza"] < 20


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
    result = OrderState.objects.get(study=study)
    assert result.n_ratings == 2
    assert set(result.needs.values()) == {MOST_NEEDED}
    rate(study)
    assert Job.objects.filter(kind="order").count() == 1, "it has just been looked at"
    OrderState.objects.update(made_at=timezone.now() - RANKING_NOT_SOONER_THAN - timedelta(seconds=1))
    rate(study)
    run_job(Job.objects.latest("pk"))
    assert Job.objects.filter(kind="order").count() == 1, "earlier ones are gone"
    assert OrderState.objects.get(study=study).n_ratings == 4
    assert order_refresh(study) is None


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
        result = ranking_progress(Ratings.from_frame(pd.DataFrame(rows), ["quality"], scale=(1, 7)))
        needs = {one: result.needs.get(one, MOST_NEEDED) for one in TRUTH}
        for pair in result.compared.pairs:
            if pair.ordered and (pair.difference or 0) < 0:  # sorted by name, best first
                return len(rows), True
        if result.compared.told_apart == ORDERS:
            return len(rows), False
    return most, False


@pytest.mark.slow
def test_orders_are_resolved_sooner_than_by_balancing_and_no_more_of_them_wrongly() -> None:
    n_studies = 12
    runs = {name: [until_settled(name, seed) for seed in range(n_studies)] for name in ("balanced", "resolve")}
    needed = {name: np.mean([n for n, _wrong in run]) for name, run in runs.items()}
    assert needed["resolve"] < 0.9 * needed["balanced"], needed
    most = 0.1 + 2 * (0.1 * 0.9 / n_studies) ** 0.5
    for result in runs.values():
        assert np.mean([wrong for _n, wrong in result]) <= most
