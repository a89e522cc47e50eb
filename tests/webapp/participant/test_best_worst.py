"""Best-worst scaling: four replies or whole chats of an item, of which the best and the worst are chosen."""

import random
import re
from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.core.management import call_command
from django.test import Client
from django.urls import reverse

from evaluation.analysis.pairs import judge_pairs
from tests.builders import exchange, make_conversation, make_items, make_participant, make_study, signed_in
from tests.webapp.participant.conftest import post, shown, started
from tests.webapp.studies.test_erasure_everywhere import tables
from webapp.bots.models import BotVersion
from webapp.conversations.imported_sets import imported_sets
from webapp.conversations.models import Conversation
from webapp.core.errors import Refused
from webapp.core.rights import Right
from webapp.insights.selectors import models_progress
from webapp.jobs.engine import run_job
from webapp.jobs.models import Job
from webapp.jobs.services.jobs import job_create
from webapp.ratings.models import Rating
from webapp.ratings.paired_comparisons import pairs_counted, study_judgements, study_pair_items
from webapp.ratings.rating_tasks import requested_ratings
from webapp.ratings.services import rating_add
from webapp.studies.assignment.counterbalance import replies_balanced
from webapp.studies.models import Item, Participant, Study, Task
from webapp.studies.privacy import participants_erase
from webapp.studies.privacy.retention import texts_counts, texts_erase
from webapp.studies.services import study_copy, task_open
from webapp.studies.versions import study_edit
from webapp.transfer.exporters.base import ExportOptions, table_of

pytestmark = pytest.mark.django_db


def make_best_worst(key: str = "a", *, models: str = "abcd", n_items: int = 3, **fields: Any) -> Study:
    """Make a collecting study whose items hold a reply of each of these models."""
    study = make_study(key, protocol="best_worst", bots=[], state=Study.State.DRAFT, n_items=n_items, **fields)
    make_items(study, n_items, responses=[{"model": model, "text": f"reply of {model}"} for model in models])
    return study_edit(study=study, state=Study.State.COLLECTING)


def order_on(page: str) -> list[str]:
    return re.findall(r"reply of ([a-h])", page.partition("<main")[2])


def choose(task: Task, wanted: Sequence[str] = "abcdefgh") -> None:
    """Choose everywhere in the task the best and the worst by this order of models."""
    for one in requested_ratings(task):
        numbers = sorted(
            task.payload["shown"][str(one.slots[0].item_id)],
            key=lambda n: wanted.index(one.slots[0].item.responses[n]["model"]),
        )
        names = ("best", "between_1", "between_2", "worst")
        rating_add(task=task, target=one.target, answers=dict(zip(names, numbers, strict=True)))


def test_the_best_and_the_worst_are_stored_by_their_place_in_the_item(browser: Client) -> None:
    make_best_worst(n_items=2)
    entry = browser.get("/s/a/")
    assert "2 questions about each text" in shown(entry)
    address = started(browser, "a")
    page = shown(browser.get(address))
    order = order_on(page)
    assert "Comparison 1 of 2" in page
    assert "Then choose the best and the worst: two different texts." in page
    assert sorted(order) == list("abcd")
    assert page.count('name="best"') == page.count('name="worst"') == 4
    assert 'name="quality"' not in page

    best, worst = (chr(ord("a") + order.index(model)) for model in "cb")
    assert post(browser, address, _n="1", best=best, worst=worst).status_code == 302

    rating = Rating.objects.get()
    assert rating.answers == {"best": 2, "worst": 1, "between_1": 0, "between_2": 3}
    again = shown(browser.get(f"{address}?n=1"))
    assert order_on(again) == order
    assert re.search(rf'id="best-{best}" value="{best}"[^>]* checked', again)
    assert re.search(rf'id="worst-{worst}" value="{worst}"[^>]* checked', again)
    assert post(browser, address, _n="2", best="a", worst="d").url.endswith("/done/")
    assert Task.objects.get().outcome == "rated"


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        ({}, ["2 answers are missing", "Please choose the best text.", "Please choose the worst text.", "#best-a"]),
        ({"best": "b"}, ["1 answer is missing", "Please choose the worst text.", "#worst-a"]),
        ({"best": "b", "worst": "b"}, ["1 answer is missing or invalid.", "You chose this text as the best one"]),
        ({"best": "b", "worst": "e"}, ["Please choose the worst text."]),
    ],
)
def test_what_is_missing_or_alike_is_said(browser: Client, sent: dict[str, str], words: list[str]) -> None:
    make_best_worst()
    address = started(browser, "a")
    page = shown(post(browser, address, _n="1", **sent))
    for each in words:
        assert each in page
    assert not Rating.objects.exists()


def test_answers_that_name_other_replies_are_refused() -> None:
    task = task_open(participant=make_participant(make_best_worst()))
    target = requested_ratings(task)[0].target
    for answers, wrong in (
        ({"best": 0, "worst": 0}, {"worst"}),
        ({"best": 8, "worst": 1}, {"best"}),
        ({"best": 1, "worst": 0, "quality": 1}, {"quality"}),
    ):
        with pytest.raises(Refused) as refused:
            rating_add(task=task, target=target, answers=answers)
        assert set(refused.value.details["errors"]) == wrong


def test_the_draw_of_replies_is_balanced() -> None:
    study = make_best_worst(models="abcdef", n_items=1)
    values = []
    for _person in range(30):
        task = task_open(participant=make_participant(study))
        [four] = task.payload["shown"].values()
        values.append(four)
        choose(task)
    times = Counter(number for four in values for number in four)
    assert set(times.values()) == {20}, "each of six in two thirds of 30 tasks"
    together = Counter(frozenset(pair) for four in values for pair in combinations(four, 2))
    assert len(together) == 15
    assert max(together.values()) - min(together.values()) <= 3
    places = Counter(place for four in values for place in enumerate(four))
    assert len(places) == 24
    assert max(places.values()) - min(places.values()) <= 2


def test_replies_that_were_shown_least_come_next_in_new_places() -> None:
    values = [[0, 1, 2, 3], [0, 1, 2, 4]]
    four = replies_balanced(6, values, 4, random.Random(1))
    assert {3, 4, 5} < set(four), "of the others each was shown twice"
    twice = replies_balanced(4, [[0, 1, 2, 3]] * 3, 4, random.Random(1))
    assert all(number != place for place, number in enumerate(twice))


def test_results_exports_and_package(client: Client, tmp_path: Path) -> None:
    study = make_best_worst(n_items=2)
    for expected in ("abcd", "acbd", "bacd", "abdc", "abcd"):
        choose(task_open(participant=make_participant(study)), expected)

    judged = study_judgements(study)
    assert (pairs_counted(study).count(), len(judged), len(set(judged.rater))) == (10, 50, 5)
    assert {item.id for item in study_pair_items(study)} >= set(judged.item)
    results = judge_pairs(judged)
    scores = {score.bot: (score.n_shown, score.n_best, score.n_worst) for score in results.choices.scores}
    assert scores == {"a": (10, 8, 0), "b": (10, 2, 0), "c": (10, 0, 2), "d": (10, 0, 8)}
    progress = {one.title: (one.n_items, one.n_ratings) for one in models_progress(study)}
    assert progress == dict.fromkeys("abcd", (2, 10))

    page = signed_in(*Right).get(reverse("dashboard:study_results", args=["a"]), {"part": "pairs"})
    assert page.status_code == 200
    words = shown(page)
    assert "5 people chose the best and the worst reply 10 times, which implies 50 judgements of" in words
    assert "Best and worst replies by bot" in words
    assert "split-half reliability of" in words

    ratings = table_of(study, "ratings", ExportOptions())
    names = [column.name for column in ratings.columns]
    first = dict(zip(names, next(iter(ratings.rows)), strict=True))
    assert [first[name] for name in ("item", "bot", "best", "between_1", "between_2", "worst")] == [
        *(first["item"], "a b c d", 0, 1, 2, 3)
    ]
    call_command("export", "--study", "a", "--what", "package", "--output", str(tmp_path / "a.zip"))
    call_command("import_conversations", str(tmp_path / "a.zip"), "--study", "b")
    back = study_judgements(Study.objects.get(key="b"))
    assert judge_pairs(back).choices.scores == results.choices.scores
    assert back.item.tolist() == judged.item.tolist()


@pytest.mark.parametrize("models", ["abc", "abcdefghi"])
def test_items_hold_four_to_eight_replies(models: str) -> None:
    with pytest.raises(ValidationError, match="do not have 4 to 8 replies each"):
        make_best_worst(models=models)


def test_items_with_other_replies_than_were_judged_are_left_out() -> None:
    study = make_best_worst(n_items=1)
    choose(task_open(participant=make_participant(study)))
    Item.objects.update(responses=[{"model": "a", "text": "x"}] * 3)
    assert len(study_judgements(study)) == 0


CHATTING = ("eliza", "parrot", "generic", "retrieval")


def make_chats(n: int, *, bots: tuple[str, ...] = CHATTING) -> list[Conversation]:
    """Make a study with completed chats, of the bots in turn; every text is another one."""
    study = make_study("s", bots=list(bots))
    chats = []
    for number in range(n):
        chat = make_conversation(study, entry_nonce=f"s{number}")
        exchange(chat, f"question {number}", f"**answer** {number}")
        exchange(chat, f"more of {number}", f"enough of {number}")
        chats.append(chat)
    Conversation.objects.update(state=Conversation.State.COMPLETED)
    assert len({chat.bot.bot_id for chat in chats}) == len(bots)
    return chats


def draw_chats(study: Study, **asked: object) -> Job:
    payload = {"study": study.key, "of_study": "s", **asked}
    job = job_create(kind="items", study=study, payload=payload, enqueue=False)
    run_job(job)
    job.refresh_from_db()
    return job


@pytest.fixture
def of_chats() -> Study:
    return make_study("a", protocol="best_worst", bots=[], state=Study.State.DRAFT, n_items=1)


def test_chats_of_four_bots_are_drawn_and_each_only_once(of_chats: Study) -> None:
    chats = {chat.pk: chat for chat in make_chats(10)}
    assert draw_chats(of_chats).result["items"] == 2, "of ten chats of four bots two have no third one of each bot"
    items = list(of_chats.items.all())
    assert len({chat.pk for item in items for chat in item.chats}) == 8
    for item in items:
        assert item.context == []
        assert sorted(reply["model"] for reply in item.responses) == sorted(CHATTING)
        for reply, chat in zip(item.responses, item.chats, strict=True):
            number = list(chats).index(chat.pk)
            assert reply == {
                "model": chat.bot.bot_id,
                "text": f"Person: question {number}\n\nChatbot: **answer** {number}\n\n"
                f"Person: more of {number}\n\nChatbot: enough of {number}",
            }
            assert item.origin["bots"][chat.bot.bot_id] == chat.bot.key
    again = draw_chats(of_chats).result
    assert (again["items"], again["unchanged"]) == (0, 2)
    assert draw_chats(of_chats, n_contexts=1, seed=5).result["items"] == 1


def test_chats_of_one_item_have_one_condition_and_bots_come_evenly(of_chats: Study) -> None:
    chats = make_chats(30)
    fifth = BotVersion.objects.create(key="fifth", bot_id="fifth", title="", kind="", version="")
    bots = [*BotVersion.objects.filter(bot_id__in=CHATTING), fifth]
    # Of each bot three chats under either tone, and of three bots one more under another.
    for number, chat in enumerate(chats):
        tone = "odd" if number < 3 else ("warm", "cold")[number // 5 % 2]
        Conversation.objects.filter(pk=chat.pk).update(bot=bots[number % 5], condition={"tone": tone})
    assert draw_chats(of_chats).result["items"] >= 5
    times = Counter(chat.bot.bot_id for item in of_chats.items.all() for chat in item.chats)
    assert max(times.values()) - min(times.values()) <= 2
    tones = [{chat.condition["tone"] for chat in item.chats} for item in of_chats.items.all()]
    assert all(len(tone) == 1 for tone in tones)
    assert {tone for one in tones for tone in one} == {"warm", "cold"}


def test_chats_of_three_bots_are_too_few(of_chats: Study) -> None:
    make_chats(6, bots=CHATTING[:3])
    job = draw_chats(of_chats)
    assert (job.state, of_chats.items.count()) == ("failed", 0)
    assert "No condition of this study has completed chats with 4 bots." in job.error


def test_the_builder_and_the_command_draw_chats(of_chats: Study, capsys: pytest.CaptureFixture[str]) -> None:
    make_chats(4)
    staff = signed_in(*Right)
    page = staff.get(reverse("dashboard:study_build_step", args=["a", "bots"]))
    assert page.status_code == 200
    assert "None: each item has 4 whole chats of different bots, in the same condition" in shown(page)
    params = {"n_contexts": "5", "n_utterances": "3", "more_than_tokens": "10", "source": "study:s"}
    sent = staff.post(reverse("dashboard:study_items", args=["a"]), params)
    job = Job.objects.get()
    assert sent["Location"] == reverse("dashboard:job", args=["items", job.pk])
    run_job(job)
    assert of_chats.items.count() == 1
    call_command("make_items", "--study", "a", "--from-study", "s", "--inline", "--json")
    assert '"unchanged": 1' in capsys.readouterr().out


def test_whole_chats_are_read_answered_and_analysed_by_bot(of_chats: Study, browser: Client) -> None:
    chats = make_chats(4)
    draw_chats(of_chats)
    study_edit(study=of_chats, state=Study.State.COLLECTING)
    address = started(browser, "a")
    response = browser.get(address)
    assert response.status_code == 200
    page = shown(response)
    [item] = of_chats.items.all()
    order = next(iter(Task.objects.get(participant__study=of_chats).payload["shown"].values()))
    on_page = [item.chats[number] for number in order]
    numbers = [re.findall(rf"(?:question|answer|more of|enough of)\W+{n}", page) for n in range(4)]
    assert [len(number) for number in numbers] == [4] * 4, "each chat as a whole"
    assert [int(n) for n in re.findall(r"question (\d)", page)] == [chats.index(chat) for chat in on_page]
    for letter in "ABCD":
        assert f'role="group" tabindex="0" aria-label="Conversation {letter}"' in page
        assert page.count(f'aria-label="Conversation {letter}">') >= 1
        assert f"Chatbot {letter}" in page
    assert not any(chat.bot.bot_id in page for chat in chats)

    assert post(browser, address, _n="1", best="b", worst="d").url.endswith("/done/")
    assert Rating.objects.get().answers == {
        "best": order[1],
        "worst": order[3],
        **dict(zip(("between_1", "between_2"), sorted((order[0], order[2])), strict=True)),
    }
    scores = {
        score.bot: (score.n_best, score.n_worst) for score in judge_pairs(study_judgements(of_chats)).choices.scores
    }
    bots = [chat.bot.bot_id for chat in on_page]
    assert scores == {bots[0]: (0, 0), bots[1]: (1, 0), bots[2]: (0, 0), bots[3]: (0, 1)}
    table = table_of(of_chats, "items", ExportOptions())
    [row] = [dict(zip([column.name for column in table.columns], row, strict=True)) for row in table.rows]
    assert row["bot"].split() == [chat.bot.bot_id for chat in item.chats]
    assert row["responses"] == [reply["text"] for reply in item.responses]
    assert row["item"].split("~") == [str(chat.pk) for chat in item.chats]


@pytest.mark.parametrize("place", [0, 3])
def test_an_item_goes_with_the_person_of_each_of_its_chats(of_chats: Study, place: int) -> None:
    make_chats(8)
    draw_chats(of_chats)
    copied = study_copy(study=of_chats)
    study_edit(study=of_chats, state=Study.State.COLLECTING)
    choose(task_open(participant=make_participant(of_chats)), CHATTING)
    item = of_chats.items.first()
    chat = item.chats[place]
    words = [turn.text for turn in chat.turns.all()]
    assert words[0] in tables()["studies_item"]
    participants_erase(participants=Participant.objects.filter(pk=chat.participant_id))
    assert [of_chats.items.count(), copied.items.count()] == [1, 1]
    assert not of_chats.items.filter(key=item.key).exists()
    left = tables()
    assert not [(name, text) for name in left for text in words if text in left[name]]
    task = task_open(participant=make_participant(of_chats))
    assert task.slots.get().item == of_chats.items.get()


def test_texts_of_items_are_blanked_by_the_retention_of_any_chat(of_chats: Study) -> None:
    chats = make_chats(4)
    draw_chats(of_chats)
    other = make_study("later", bots=list(CHATTING))
    # Only the last of its chats is of the study whose texts are due.
    item = of_chats.items.get()
    Conversation.objects.exclude(pk=item.fourth_chat_id).update(study=other)
    source = Study.objects.get(key="s")
    assert texts_counts(source)["items"] == 1
    texts_erase(study=source)
    item.refresh_from_db()
    assert [reply["text"] for reply in item.responses] == [""] * 4
    assert texts_counts(source)["items"] == 0
    assert len(chats) == Conversation.objects.count()


def test_conversations_with_an_item_stay_in_their_set(of_chats: Study) -> None:
    chats = make_chats(4)
    Conversation.objects.update(source=Conversation.Source.IMPORT, participant=None)
    draw_chats(of_chats)
    [result] = imported_sets(Study.objects.get(key="s"))
    assert (result.n, result.n_given) == (len(chats), len(chats))
