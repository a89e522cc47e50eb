"""The step `judge`: items, stored conversations, pairs, and the coherence survey, each answer stored at once."""

import re
from collections import Counter
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.test import Client
from django.urls import reverse
from pytest_django.fixtures import DjangoAssertNumQueries

from tests.builders import (
    make_annotated,
    make_conversation,
    make_items,
    make_pairwise,
    make_participant,
    make_rating,
    make_staff,
    make_study,
)
from tests.webapp.participant.conftest import KEYS, entry_field, opens_to_its_own_alone, post, shown, started
from tests.webapp.ratings.test_judging import Pairs
from webapp.bots.models import BotVersion
from webapp.conversations.models import Conversation, Turn
from webapp.core.errors import Refused
from webapp.core.rights import Right
from webapp.jobs.models import SelfPlayConversation, SelfPlayRun
from webapp.ratings.attention_results import excluded_work
from webapp.ratings.models import Rating
from webapp.ratings.paired_comparisons import study_judgements
from webapp.ratings.rating_tasks import requested_ratings
from webapp.ratings.selectors import ratings_counted, study_bots, study_ratings
from webapp.ratings.services import rating_add
from webapp.results.bot_means import bot_summary
from webapp.studies.models import Item, Slot, Study, Task, TaskCount
from webapp.studies.protocols.base import protocols
from webapp.studies.ready_made import DEFAULT_QUESTIONS
from webapp.studies.selectors import participant_token, rehearsal_token
from webapp.studies.services import task_close, task_open
from webapp.studies.versions import study_edit
from webapp.transfer.exporters.base import ExportOptions, exporter_get

pytestmark = pytest.mark.django_db


ANSWERS = dict.fromkeys(KEYS, "5")


def test_who_goes_back_may_change_an_answer_and_the_first_one_is_kept(browser: Client) -> None:
    make_annotated()
    address = started(browser, "a")
    for n in ("1", "2"):
        post(browser, address, _n=n, **ANSWERS)
    first = Rating.objects.order_by("pk")[0]
    changed = post(browser, address, _n="1", **{**ANSWERS, "quality": "2"})
    assert changed.url == f"{address}?n=2", "the next one, which is answered too"
    now = Rating.objects.get(pk=first.pk)
    [before] = now.revisions.all()
    assert (before.answers["quality"], now.answers["quality"]) == (5, 2)
    assert before.submitted_at == first.submitted_at < now.submitted_at
    page = post(browser, address, _n="1", **{**ANSWERS, "quality": "9"})
    assert "9 is not on the scale from 1 to 7" in shown(page)
    post(browser, address, _n="3", **ANSWERS)
    post(browser, address, _n="1", **ANSWERS)
    now.refresh_from_db()
    assert now.answers["quality"] == 2, "a finished task takes no changes"
    assert now.revisions.count() == 1


def test_what_is_missing_is_said_and_the_rest_kept(browser: Client) -> None:
    make_annotated()
    address = started(browser, "a")
    page = post(browser, address, _n="1", quality="6")
    assert page.status_code == 200
    text = shown(page)
    assert "4 answers are missing" in text
    assert re.search(r'name="quality"[^>]*value="6"[^>]* checked', text)
    assert not Rating.objects.exists()


def test_back_shows_what_was_saved_and_nothing_is_skipped(browser: Client) -> None:
    make_annotated()
    address = started(browser, "a")
    assert browser.get(f"{address}?n=2").url == address, "the first comes first"
    post(browser, address, _n="1", **ANSWERS)
    assert f"{address}?n=1" in shown(browser.get(address))
    page = shown(browser.get(f"{address}?n=1"))
    assert "Your answer is saved" in page
    assert page.count(" checked") == page.count("<fieldset") == 5
    assert "2 of 3" in shown(browser.get(f"{address}?n=three"))
    assert post(browser, address, _n="3", **ANSWERS).url == address
    assert Rating.objects.count() == 1


def test_only_who_took_the_task_on_opens_it(browser: Client) -> None:
    mine = opens_to_its_own_alone(browser, make_annotated(), "judge", {"_n": "1", **ANSWERS})
    assert Rating.objects.get().task == mine


def test_texts_are_shown_as_texts_and_say_nothing_of_where_they_are_from(browser: Client) -> None:
    study = make_study("a", protocol="annotate", bots=[], state="draft", n_items=1, show_reference=True)
    make_items(
        study,
        1,
        context=["<script>a()</script>"],
        responses=[{"model": "gpt-secret", "text": "<b>c</b>\u202e"}],
        reference="<i>d</i>",
    )
    study_edit(study=study, state=Study.State.COLLECTING)
    page = shown(browser.get(started(browser, "a")))
    for markup in ("<script>a()", "<b>c</b>", "<i>d</i>", "gpt-secret"):
        assert markup not in page
    # The item's key, as a word: the page's random tokens may hold the same two characters.
    assert not re.search(r"\bi0\b", page)
    for text in ("&lt;script&gt;a()", "&lt;b&gt;c&lt;/b&gt;", "&lt;i&gt;d&lt;/i&gt;"):
        assert text in page


def test_the_reference_is_shown_where_the_study_says_so(browser: Client) -> None:
    study = make_study("a", protocol="annotate", bots=[], state="draft", n_items=1)
    make_items(study, 1, reference="a known reply")
    study_edit(study=study, state=Study.State.COLLECTING)
    assert "a known reply" not in shown(browser.get(started(browser, "a")))


@pytest.fixture
def pairs(db: None) -> Study:
    """Make a study of three rated chats and an item, judged in pairs."""
    protocols.add(Pairs())
    study = make_study("a")
    for number in range(3):
        make_rating(make_conversation(study, n_exchanges=3, entry_nonce=f"n{number}"))
    make_items(study, 1)
    Study.objects.filter(pk=study.pk).update(protocol="pairs")
    yield study
    protocols.discard("pairs")


def test_a_pair_is_one_page_and_one_answer(pairs: Study, browser: Client) -> None:
    address = started(browser, "a")
    page = shown(browser.get(address))
    assert "1 of 2" in page
    assert "Conversation A" in page
    assert "Conversation B" in page
    assert page.count("message 0") == 2
    assert "eliza" not in page
    post(browser, address, _n="1", **ANSWERS)
    [left, right, alone] = Task.objects.order_by("pk").last().slots.order_by("order")
    rating = Rating.objects.get(first__isnull=False)
    assert (rating.first, rating.second) == (left, right)
    assert "reply 0" in shown(browser.get(address))
    assert post(browser, address, _n="2", **ANSWERS).url.endswith("/done/")
    assert Rating.objects.filter(item=alone.item).count() == 1


def test_a_task_that_is_closed_meanwhile_takes_nothing(browser: Client) -> None:
    make_annotated()
    address = started(browser, "a")
    task = Task.objects.get()
    task_close(task=task, state=Task.State.EXPIRED)
    assert browser.get(address).url == "/s/a/"
    assert post(browser, address, _n="1", **ANSWERS).url == "/s/a/"
    assert not Rating.objects.exists()
    assert browser.get(f"/task/{task.public_id}/done/").url == "/s/a/"


def test_who_comes_again_gets_other_items_and_then_is_told_that_there_are_no_more(browser: Client) -> None:
    make_annotated(n_items=4)
    address = started(browser, "a")
    assert address in shown(browser.get("/s/a/")), "the way back to what is open"
    for n in ("1", "2", "3"):
        done = post(browser, address, _n=n, **ANSWERS)
    page = browser.get(done.url)
    assert "Rate some more" in shown(page)
    again = {"consent": "on", "_entry": entry_field(page)}
    address = post(browser, "/s/a/start/", **again).url
    assert "1 of 1" in shown(browser.get(address))
    assert Task.objects.order_by("pk").last().slots.count() == 1
    done = post(browser, address, _n="1", **ANSWERS)
    assert "Rate some more" not in shown(browser.get(done.url))
    refused = post(browser, "/s/a/start/", **again)
    assert refused.status_code == 409
    assert "rated everything" in shown(refused)


def test_pages_take_the_same_queries_however_many_items_there_are(
    django_assert_max_num_queries: DjangoAssertNumQueries,
) -> None:
    study = make_annotated(n_items=40)
    study_edit(study=study, n_items=40)
    task = task_open(participant=make_participant(study))
    client = Client()
    token = participant_token(task.participant)
    with django_assert_max_num_queries(12):
        client.get(f"/task/{task.public_id}/judge/?t={token}")
    for slot in task.slots.select_related("item").order_by("order")[:39]:
        rating_add(task=task, target=slot.item, answers=dict.fromkeys(KEYS, 5))
    with django_assert_max_num_queries(35):
        client.post(f"/task/{task.public_id}/judge/", {"_n": "40", "_t": token, **ANSWERS})
    assert Task.objects.get().completion_code


def test_a_pair_of_replies_is_compared_and_stored_by_model_whatever_side_it_stood_on(browser: Client) -> None:
    make_pairwise("a", n_items=3)
    address = started(browser, "a")
    task = Task.objects.get()
    asked = ("quality", "fluency", "relatedness", "empathy")
    for n, slot in enumerate(task.slots.order_by("order"), start=1):
        page = shown(browser.get(address))
        assert f"Comparison {n} of 3" in page
        left, right = ("b", "a") if slot.is_flipped else ("a", "b")
        assert page.index(f"reply of {left}") < page.index(f"reply of {right}")
        side_of_a = "b" if slot.is_flipped else "a"
        values = {**dict.fromkeys(asked, "same"), "quality": side_of_a}
        if n == 3:
            incomplete = shown(post(browser, address, _n="3", quality=side_of_a))
            assert "3 answers are missing" in incomplete
            assert '<a href="#fluency-a">Go to question 2</a>' in incomplete
            assert "not on the scale" not in incomplete
            assert "Please select A, B" in shown(post(browser, address, _n="3", **{**values, "quality": "5"}))
        post(browser, address, _n=str(n), **values)
        if n < 3:
            again = shown(browser.get(f"{address}?n={n}"))
            assert f'id="quality-{side_of_a}" value="{side_of_a}"' in again
            assert re.search(rf'id="quality-{side_of_a}"[^>]* checked', again)
    ratings = Rating.objects.filter(task=task)
    stored = {"quality": 1, "fluency": 0, "relatedness": 0, "empathy": 0}
    assert [rating.answers for rating in ratings] == [stored] * 3
    assert ratings.count() == 3


REASON = "It asks me things"


def make_dialogues(n_chats: int = 4, **fields: Any) -> Study:
    """Make a study that compares the chats of another one with eliza and parrot."""
    talked = make_study("talked")
    for number in range(n_chats):
        make_rating(make_conversation(talked, n_exchanges=3, entry_nonce=f"n{number}"))
    return make_study("a", protocol="dialogues", bots=[], dialogues_of="talked", **fields)


def pairs_of(task: Task) -> list[tuple[Slot, ...]]:
    return [rating.slots for rating in requested_ratings(task)]


def judge_all(task: Task, answer: int) -> None:
    for one in requested_ratings(task):
        rating_add(task=task, target=one.target, answers={"preference": answer}, comment=REASON)


def test_pairs_are_read_and_one_is_chosen_with_a_reason(browser: Client) -> None:
    make_dialogues()
    assert "<strong>4 pairs</strong>" in shown(browser.get("/s/a/"))
    address = started(browser, "a")
    page = shown(browser.get(address))
    assert "Pair 1 of 2" in page
    assert page.count('role="group" tabindex="0"') == 2
    assert "Chatbot A" in page
    assert "Chatbot B" in page
    assert "not read yet" in page
    in_form = page.partition("<main")[2].partition("</main>")[0]
    assert in_form.count('type="radio"') == 2, "there is no tie"
    for name in ("eliza", "parrot", "talked"):
        assert name not in page.lower()
    refused = shown(post(browser, address, _n="1", comments="because yes"))
    assert "2 answers are missing" in refused
    assert "Please choose A or B." in refused
    assert refused.count("Please say why, in at least 3 words.") == 1
    assert "because yes" in refused
    assert "Please choose A or B." in shown(post(browser, address, _n="1", preference="same", comments=REASON))
    assert not Rating.objects.filter(first__isnull=False).exists()
    assert post(browser, address, _n="1", preference="b", comments=REASON).status_code == 302
    back = shown(browser.get(f"{address}?n=1"))
    assert 'value="b" checked' in back
    assert REASON in back
    assert 'data-opened="yes"' in back
    last = post(browser, address, _n="2", preference="a", comments=REASON)
    assert last.url.endswith("/done/")
    first, second = Rating.objects.filter(first__isnull=False).order_by("pk")
    assert (first.answers, second.answers) == ({"preference": -1}, {"preference": 1})
    assert (first.comment, first.first.side, first.second.side) == (REASON, "A", "B")


@pytest.mark.parametrize("reason", ["so so", "so so \u200b \u2800"])
def test_neither_a_tie_nor_a_short_reason_is_stored(reason: str) -> None:
    task = task_open(participant=make_participant(make_dialogues()))
    target = requested_ratings(task)[0].target
    with pytest.raises(Refused) as refused:
        rating_add(task=task, target=target, answers={"preference": 0}, comment=reason)
    assert set(refused.value.details["errors"]) == {"preference", "comments"}


def test_each_pair_has_two_bots_and_nobody_reads_a_conversation_twice() -> None:
    study = make_dialogues(8, n_dialogues=3)
    sides: Counter[tuple[str, str]] = Counter()
    for number in range(4):
        person = make_participant(study, entry_nonce=f"r{number}")
        task = task_open(participant=person)
        conversations = [slot.conversation for pair in pairs_of(task) for slot in pair]
        assert len({chat.pk for chat in conversations}) == len(conversations) == 6
        for a, b in pairs_of(task):
            assert (a.side, b.side) == ("A", "B")
            assert a.conversation.bot.bot_id != b.conversation.bot.bot_id
            sides[a.conversation.bot.bot_id, "A"] += 1
        judge_all(task, 1)
        assert len(pairs_of(task_open(participant=person))) == 1, "one of each bot is left"
        judge_all(person.tasks.get(state="open"), 1)
        with pytest.raises(Refused, match="already rated"):
            task_open(participant=person)
    assert sides.total() == 12
    loads = Counter(str(slot.conversation_id) for slot in Slot.objects.filter(side__in="AB"))
    assert set(loads.values()) == {4}, "every conversation is read as often"
    on_a = Counter(slot.conversation.bot.bot_id for slot in Slot.objects.filter(side="A"))
    assert on_a["eliza"] == on_a["parrot"] == 8


def test_a_pair_that_is_begun_is_given_to_as_many_people_as_are_wanted() -> None:
    study = make_dialogues(8, n_dialogues=1, raters_each_pair=2)
    values = []
    for number in range(4):
        task = task_open(participant=make_participant(study, entry_nonce=f"r{number}"))
        [(a, b)] = pairs_of(task)
        values.append((str(a.conversation_id), str(b.conversation_id)))
    counts = Counter(frozenset(pair) for pair in values)
    assert sorted(counts.values()) == [2, 2]
    assert len(set(values)) == 4, "each conversation of a pair was A once"


def test_conversations_of_a_self_play_run_are_compared() -> None:
    run = SelfPlayRun.objects.create(plan={})
    for name in ("left", "right"):
        bot = BotVersion.objects.create(key=name, bot_id=name, title="", kind="", version="")
        chat = Conversation.objects.create(source="selfplay", state="completed", bot=bot)
        Turn.objects.create(conversation=chat, index=0, speaker="human", text="hi")
        Turn.objects.create(conversation=chat, index=1, speaker="bot", text="hello")
        SelfPlayConversation.objects.create(run=run, bot_id=name, ordinal=0, conversation=chat)
    study = make_study("a", protocol="dialogues", bots=[], dialogues_run=run.pk)
    [(a, b)] = pairs_of(task_open(participant=make_participant(study)))
    assert {a.conversation.bot.bot_id, b.conversation.bot.bot_id} == {"left", "right"}
    with pytest.raises(ValidationError) as refused:
        make_study("b", protocol="dialogues", bots=[], dialogues_run=run.pk + 1)
    assert "no completed conversations" in refused.value.message_dict["dialogues_run"][0]


def test_a_draft_can_be_rehearsed_over_rehearsed_dialogues(browser: Client) -> None:
    talked = make_study("talked")
    for number in range(4):
        make_rating(make_conversation(talked, n_exchanges=3, entry_nonce=f"n{number}", is_synthetic=True))
    study = make_study("a", protocol="dialogues", bots=[], dialogues_of="talked", state="draft")
    page = shown(browser.get(started(browser, "a", f"?rehearsal={rehearsal_token(study)}")))
    assert "Pair 1 of 2" in page


@pytest.mark.parametrize("of", ["", "nothing", "one-bot"])
def test_a_study_opens_with_conversations_of_two_bots(of: str) -> None:
    study = make_study("one-bot", bots=["eliza"])
    make_rating(make_conversation(study, n_exchanges=3))
    with pytest.raises(ValidationError) as refused:
        make_study("b", protocol="dialogues", bots=[], dialogues_of=of)
    assert (of or "b") in refused.value.message_dict["dialogues_of"][0]


def test_choices_are_judgements_of_pairs_of_bots(client: Client) -> None:
    study = make_dialogues(4, n_dialogues=2)
    for number in range(2):
        task = task_open(participant=make_participant(study, entry_nonce=f"r{number}"))
        for one in requested_ratings(task):
            is_eliza = one.slots[0].conversation.bot.bot_id == "eliza"
            answers = {"preference": 1 if is_eliza else -1}
            rating_add(task=task, target=one.target, answers=answers, comment=REASON)
    result = study_judgements(study)
    assert len(result.item) == 4
    won = result.answers["preference"] * [1 if bot == "eliza" else -1 for bot in result.first]
    assert set(won) == {1.0}
    client.force_login(make_staff(Right.READ))
    for name in ("study", "study_results", "study_why"):
        assert client.get(reverse(f"dashboard:{name}", args=[study.key])).status_code == 200
    page = client.get(reverse("dashboard:study_results", args=[study.key])).content.decode()
    titles = [bot.title for bot in study_bots(study).values()]
    assert len(titles) == 2
    assert all(title in page for title in titles)


CHECK = {
    "context": ["I am thinking of painting my kitchen.", "Nice. Which colour?"],
    "response": "A soft yellow. This one checks that replies are being read: choose 2 below.",
    "expected": {"quality": [2]},
}


def make_survey(key: str = "a", *, n_items: int = 6, **fields: Any) -> Study:
    study = make_study(
        key,
        after=DEFAULT_QUESTIONS,
        protocol="survey",
        bots=[],
        state="draft",
        **{"attention_checks": [CHECK], **fields},
    )
    make_items(study, n_items)
    return study_edit(study=study, state=Study.State.COLLECTING)


def go_through(browser: Client, address: str, *, of_check: str) -> list[str]:
    """Answer every page, the check with `of_check`; the pages that were shown."""
    pages = []
    for n in range(1, 7):
        page = shown(browser.get(address))
        pages.append(page)
        given = of_check if "checks that replies" in page else "5"
        post(browser, address, _n=str(n), **dict.fromkeys(KEYS, given))
    return pages


def test_the_check_looks_like_any_other_and_counts_among_them(browser: Client) -> None:
    make_survey()
    pages = go_through(browser, started(browser, "a"), of_check="2")
    assert all(f"Reply {n} of 6" in page for n, page in enumerate(pages, start=1))
    [at] = [n for n, page in enumerate(pages) if "checks that replies" in page]
    texts = [*CHECK["context"], CHECK["response"], "hi", "hello, how are you?"]
    texts += [f"reply {n}" for n in range(6)]
    bare = []
    for page in pages:
        page = re.sub(r'name="csrfmiddlewaretoken" value="[^"]*"', "", page)
        for text in sorted(texts, key=len, reverse=True):
            page = page.replace(text, "…")
        bare.append(re.sub(r"\d+", "0", page).replace(' class="on"', ""))
    assert "check" not in re.sub(r'type="checkbox"|icon-check|#check\b', "", bare[at])
    middle = bare[1] if at != 1 else bare[2]
    last_button = ("Save and finish", "Next")
    back = re.compile(r'<a class="button" href="[^"]*">Back</a>')
    left = re.compile(r"about 0 minutes? left")
    for page in (bare[at], middle):
        assert page
    same = [" ".join(left.sub("", back.sub("", page.replace(*last_button))).split()) for page in (bare[at], middle)]
    assert same[0] == same[1]


def test_who_passes_is_paid_as_usual_and_the_check_rates_nobody(browser: Client) -> None:
    study = make_survey()
    address = started(browser, "a")
    go_through(browser, address, of_check="2")
    task = Task.objects.get()
    assert (task.state, task.outcome) == ("completed", "rated")
    assert Rating.objects.count() == 6
    assert ratings_counted(study).count() == len(study_ratings(study)) == 5
    assert [bot.bot.bot_id for bot in bot_summary(study).bots] == ["a", "b"]
    rows = list(exporter_get("ratings").rows(study, ExportOptions()))
    assert len(rows) == 5
    [row] = exporter_get("checks").rows(study, ExportOptions())
    columns = [column.name for column in exporter_get("checks").columns(study, ExportOptions())]
    said = dict(zip(columns, row, strict=True))
    assert (said["passed"], said["outcome"], said["expected"]) == (True, "rated", {"quality": [2]})
    items = list(exporter_get("items").rows(study, ExportOptions()))
    assert [row[0] for row in items] == [f"i{n}" for n in range(6)]


def test_who_misses_it_is_set_apart_and_the_places_reopen(browser: Client) -> None:
    study = make_survey()
    address = started(browser, "a")
    pages = go_through(browser, address, of_check="5")
    assert not any("missed" in page for page in pages), "told at the end alone"
    task = Task.objects.get()
    assert (task.state, task.outcome) == ("ended", "failed_check")
    assert not TaskCount.objects.filter(item__isnull=False, n_completed__gt=0).exists()
    assert ratings_counted(study).count() == len(study_ratings(study)) == 0
    assert ratings_counted(study, include_failed=True).count() == 5
    assert (excluded_work(study).n_tasks, excluded_work(study).n_ratings) == (1, 5)
    options = ExportOptions()
    assert not list(exporter_get("ratings").rows(study, options))
    assert len(list(exporter_get("ratings").rows(study, ExportOptions(include_failed=True)))) == 5
    [row] = exporter_get("checks").rows(study, options)
    assert "failed_check" in row
    again = task_open(participant=make_participant(study))
    judged = {slot.item.key for slot in again.slots.all() if slot.item.purpose == ""}
    assert len(judged) == 5


def test_whoever_comes_again_gets_another_check_first(django_assert_max_num_queries: DjangoAssertNumQueries) -> None:
    checks = [{**CHECK, "response": f"choose 2 below, please ({n})"} for n in range(3)]
    study = make_survey(n_items=40, attention_checks=checks)
    person = make_participant(study)
    drawn, places = [], set()
    for number in range(3):
        with django_assert_max_num_queries(26):
            task = task_open(participant=person)
        Task.objects.filter(pk=task.pk).update(state="expired")
        slots = list(task.slots.order_by("order"))
        [at] = [n for n, slot in enumerate(slots) if slot.item.purpose == Item.Purpose.CHECK]
        assert len(slots) == 6, number
        drawn.append(slots[at].item.pk)
        places.add(at)
    assert len(set(drawn)) == 3
    assert Item.objects.filter(purpose="check").count() == 3, "stored once"
    spread = set()
    for _person in range(100):  # one place is missed in 7 of 100 million runs
        slots = task_open(participant=make_participant(study)).slots.order_by("order")
        spread |= {n for n, slot in enumerate(slots) if slot.item.purpose == "check"}
        if len(spread) == 6:
            break
    assert spread == set(range(6)), "at every place"


def test_the_first_answer_to_a_check_may_be_mended_while_the_task_is_open(browser: Client) -> None:
    make_survey()
    address = started(browser, "a")
    for n in range(1, 6):
        post(browser, address, _n=str(n), **dict.fromkeys(KEYS, "5"))
    for rating in Rating.objects.filter(item__purpose="check"):
        n = rating.task.slots.get(item=rating.item).order + 1
        post(browser, f"{address}?n={n}", _n=str(n), **dict.fromkeys(KEYS, "2"))
    is_last = not Rating.objects.filter(item__purpose="check").exists()
    post(browser, address, _n="6", **dict.fromkeys(KEYS, "2" if is_last else "5"))
    assert Task.objects.get().outcome == "rated"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"attention_checks": []}, "needs an attention check"),
        ({"n_checks": 0}, "needs an attention check"),
        ({"attention_checks": [{**CHECK, "expected": {"wit": [1]}}]}, "the questions are quality"),
        ({"attention_checks": [{**CHECK, "expected": {"quality": [9]}}]}, "1 to 7"),
    ],
)
def test_checks_that_cannot_be_passed_are_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError) as refused:
        make_survey(**fields)
    assert words in " ".join(refused.value.message_dict["attention_checks"])


def test_other_protocols_of_items_may_have_checks_and_need_none() -> None:
    for protocol in ("annotate", "aspects", "majority"):
        study = make_study(protocol, protocol=protocol, bots=[], state="draft", after=DEFAULT_QUESTIONS)
        make_items(study, 6)
        study = study_edit(study=study, state=Study.State.COLLECTING)
        assert task_open(participant=make_participant(study)).slots.count() == 5
        study = study_edit(study=study, attention_checks=[CHECK])
        assert task_open(participant=make_participant(study)).slots.count() == 6
