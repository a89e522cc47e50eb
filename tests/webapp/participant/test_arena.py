"""The arena: two chats side by side, a choice for each pair, and the ways on when a chatbot fails."""

import uuid

import pytest
from django.core.exceptions import ValidationError
from django.test import Client

from tests.builders import exchange, fail_reply, make_arena, make_participant
from tests.webapp.participant.conftest import post, started
from webapp.conversations.models import Conversation
from webapp.core.errors import Refused
from webapp.jobs.engine import run_job
from webapp.jobs.models import Job
from webapp.ratings.attention_results import checks_by_task
from webapp.ratings.models import Rating
from webapp.ratings.paired_comparisons import pairs_counted
from webapp.ratings.rating_tasks import check_place, requested_ratings
from webapp.studies.models import OrderState, Outcome, Task
from webapp.studies.services import task_complete, task_open

pytestmark = pytest.mark.django_db
BOTS = ("eliza", "parrot", "generic")


@pytest.fixture
def address(browser: Client) -> str:
    """Return where somebody is led who has agreed."""
    make_arena()
    return started(browser, "a")


def open_chats() -> list[Conversation]:
    return list(Conversation.objects.filter(state="open").order_by("slot__order"))


def talk(n: int = 1) -> None:
    for number in range(n):
        for chat in open_chats():
            exchange(chat, f"message {number}", f"reply {number} of {chat.slot.side}")


def test_one_pair_is_open_at_a_time_and_its_page_names_no_bot(browser: Client, address: str) -> None:
    task = Task.objects.get()
    assert address == f"/task/{task.public_id}/arena/"
    assert [slot.side for slot in task.slots.order_by("order")] == ["A", "B", "A", "B"]
    chats = open_chats()
    assert [chat.slot.order for chat in chats] == [0, 1]
    page = browser.get(address).content.decode()
    assert "Comparison 1 of 2" in page
    for chat in chats:
        assert f'data-ws="/ws/chat/{chat.pk}/"' in page
    for bot in BOTS:
        assert bot not in page.lower()


@pytest.mark.parametrize(
    ("choice", "stored"),
    [
        ("a", {"better": 1, "both_bad": 0}),
        ("equal", {"better": 0, "both_bad": 0}),
        ("bad", {"better": 0, "both_bad": 1}),
        ("b", {"better": -1, "both_bad": 0}),
    ],
)
def test_a_choice_closes_both_chats_and_opens_the_next_pair(
    browser: Client, address: str, choice: str, stored: dict[str, int]
) -> None:
    talk()
    first = {chat.pk for chat in open_chats()}
    assert post(browser, address, _n="1", choice=choice).url == address
    rating = Rating.objects.get()
    assert rating.answers == stored
    assert (rating.first.side, rating.second.side) == ("A", "B")
    assert set(Conversation.objects.filter(state="completed").values_list("pk", flat=True)) == first
    assert [chat.slot.order for chat in open_chats()] == [2, 3]
    assert "Comparison 2 of 2" in browser.get(address).content.decode()


def test_a_choice_waits_for_both(browser: Client, address: str) -> None:
    first, second = open_chats()
    assert "note=too_early" in post(browser, address, _n="1", choice="a").url
    exchange(first, "hello", "hi")
    assert "note=too_early" in post(browser, address, _n="1", choice="a").url
    exchange(second, "hello", "hi")
    exchange(second, "more", "well")
    answered = post(browser, address, _n="1", choice="a").url
    assert "note=waiting_for_reply" in answered
    assert "You can choose once both have answered." in browser.get(answered).content.decode()
    assert not Rating.objects.exists()


def test_no_choice_and_a_wrong_one_are_not_stored(browser: Client, address: str) -> None:
    talk()
    for sent in ({}, {"choice": "7"}, {"choice": ""}):
        answered = post(browser, address, _n="1", **sent).url
        assert "note=bad_answers" in answered
        assert "Choose one of the four answers." in browser.get(answered).content.decode()
    assert not Rating.objects.exists()


def test_the_pages_of_a_single_chat_lead_to_the_arena(browser: Client, address: str) -> None:
    talk()
    for chat in open_chats():
        assert browser.get(f"/chat/{chat.pk}/").url == address
        assert browser.get(f"/chat/{chat.pk}/rate/").url == address
        assert post(browser, f"/chat/{chat.pk}/rate/", better="1").url == address
    assert browser.get(address.replace("arena", "judge")).url == address
    assert not Rating.objects.exists()


def test_another_pair_stands_in_for_one_in_which_a_chatbot_failed(browser: Client, address: str) -> None:
    first, second = open_chats()
    refused = post(browser, f"/chat/{first.pk}/swap/").url
    assert refused == f"{address}?note=not_failed"
    exchange(first, "hello", "hi")
    fail_reply(second)
    failed = second.bot.bot_id
    assert post(browser, f"/chat/{first.pk}/swap/").url == address
    first.refresh_from_db()
    second.refresh_from_db()
    assert (first.state, second.state) == ("ended", "failed")
    assert "Comparison 1 of" in browser.get(address).content.decode()
    # Of three bots one pair is left without the one that failed, and it is the last.
    assert failed not in {chat.bot.bot_id for chat in open_chats()}
    talk()
    assert post(browser, address, _n="1", choice="bad").url.endswith("/done/")
    assert Rating.objects.count() == 1


def test_withdrawing_deletes_both_chats_and_what_was_chosen(browser: Client, address: str) -> None:
    talk()
    post(browser, address, _n="1", choice="a")
    talk()
    chat = open_chats()[0]
    post(browser, f"/chat/{chat.pk}/withdraw/")
    assert not Rating.objects.exists()
    assert set(Conversation.objects.values_list("state", "n_exchanges")) == {("withdrawn", 0)}


def test_only_whom_it_was_given_to_opens_it(address: str) -> None:
    assert Client().get(address).status_code == 404


def test_which_chatbots_they_were_is_told_at_the_end_where_the_study_says_so(browser: Client) -> None:
    make_arena(n_comparisons=1, reveals_bots=True, rule="resolve")
    address = started(browser, "a")
    bots = [chat.bot.bot_id for chat in open_chats()]
    talk()
    assert not any(bot in browser.get(address).content.decode().lower() for bot in BOTS)
    done = browser.get(post(browser, address, _n="1", choice="a").url).content.decode().lower()
    assert done.index(bots[0]) < done.index(bots[1])
    # The rule draws by what is settled, so a worker is asked to look.
    run_job(Job.objects.get(kind="order"))
    assert set(OrderState.objects.get().needs) == set(bots)


def test_an_arena_has_one_question_with_a_side_for_each_chatbot() -> None:
    better = {"key": "better", "title": "Which one?", "kind": "scale", "low": -1, "high": 1}
    assert make_arena().rubric.dimensions.get().scale == (-1, 1)
    for after, wrong in (
        ([better, {**better, "key": "nicer"}], "needs 1 scale"),
        ([{**better, "low": 1, "high": 7}], "a scale from -1 to 1"),
    ):
        with pytest.raises(ValidationError, match=wrong):
            make_arena("b", after=after)


def test_the_researchers_question_and_what_is_asked_beside_the_choice_come_first(browser: Client) -> None:
    better = {"key": "better", "title": "Which one?", "kind": "scale", "low": -1, "high": 1}
    colours = {"kind": "choice", "options": ["Red", "Blue"], "expected": ["Blue"]}
    make_arena(
        chat_checks=[{"after": 2, "question": "Please write yes.", "expected": ["yes"]}],
        min_exchanges=2,
        after=[
            better,
            {"key": "why", "title": "Why?", "kind": "text"},
            {"key": "colour", "title": "Please choose blue.", **colours},
        ],
        counts_typing=True,
    )
    address = started(browser, "a")
    talk(1)
    page = browser.get(address).content.decode()
    assert 'data-asks="2"' in page
    assert " data-counts-typing" in page
    assert "Please write yes." not in page
    # Due is what both have answered.
    exchange(open_chats()[0], "more", "well")
    assert "Please write yes." not in browser.get(address).content.decode()
    exchange(open_chats()[1], "more", "well")
    page = browser.get(address).content.decode()
    first = open_chats()[0]
    answer = f"/chat/{first.pk}/answer/"
    assert "Please write yes." in page
    assert f'action="{answer}"' in page
    assert "data-asks" not in page
    sent = {"_n": "1", "choice": "a", "why": "it listened", "colour": "Red"}
    early = post(browser, address, **sent).url
    assert early == f"{address}?note=check_due"
    assert "One question first." in browser.get(early).content.decode()
    [check] = Task.objects.get().version.values.checking.chat_checks
    assert post(browser, answer, _check=check.digest, answer="no").url == address
    # What is missing beside the choice is said with the choice kept; the check stands at one pair alone.
    task = Task.objects.get()
    at = check_place(task, requested_ratings(task)) + 1
    for n in (1, 2):
        page = browser.get(address).content.decode()
        assert ("Please choose blue." in page) == (n == at)
        if n == 2:
            talk(2)
            chat = open_chats()[0]
            post(browser, f"/chat/{chat.pk}/answer/", _check=check.digest, answer="yes")
        again = post(browser, address, _n=str(n), choice="a", why=" ")
        assert again.status_code == 200
        assert 'value="a" aria-disabled="true" checked' in again.content.decode()
        ended = post(browser, address, **{**sent, "_n": str(n)}).url
    assert ended.endswith("/done/")
    assert [rating.other_answers["why"] for rating in Rating.objects.order_by("pk")] == ["it listened"] * 2
    task = Task.objects.get()
    assert task.outcome == Outcome.FAILED_CHECK
    results = {(one.kind, one.passed) for one in checks_by_task(Task.objects.all())[task.pk]}
    assert results == {("chat", False), ("chat", True), ("after", False)}
    assert not pairs_counted(task.participant.study).exists()


@pytest.mark.parametrize("answered_first", [True, False])
def test_the_check_beside_the_choice_is_asked_once_whatever_pairs_go(browser: Client, answered_first: bool) -> None:
    """A pair that failed takes others with it; the place stays where it was answered, or is one still to come."""
    check = {"kind": "choice", "options": ["Red", "Blue"], "expected": ["Blue"]}
    make_arena(
        bots=[*BOTS, "retrieval"],
        n_comparisons=4,
        after=[
            {"key": "better", "title": "Which one?", "kind": "scale", "low": -1, "high": 1},
            {"key": "colour", "title": "Please choose blue.", **check},
        ],
    )
    task = Task.objects.get(public_id=started(browser, "a").split("/")[2])
    n_asked, n = 0, 0
    # The place moves with the number of pairs, which falls when one fails.
    while check_place(task, requested_ratings(task)) != (0 if answered_first else 3):
        Task.objects.filter(pk=task.pk).update(public_id=uuid.uuid4())
        task.refresh_from_db()
    address = f"/task/{task.public_id}/arena/"
    while task.state == Task.State.OPEN:
        n += 1
        if n == 2:
            first, second = open_chats()
            exchange(second, "hello", "hi")
            fail_reply(first)
            post(browser, f"/chat/{first.pk}/swap/")
        talk()
        is_asked = "Please choose blue." in browser.get(address).content.decode()
        n_asked += is_asked
        post(browser, address, _n=str(n), choice="a", **({"colour": "Blue"} if is_asked else {}))
        task.refresh_from_db()
    assert (n_asked, task.outcome) == (1, Outcome.RATED)
    assert 1 < n < 4


def test_pairs_are_new_balanced_and_end() -> None:
    study = make_arena(bots=["eliza", "parrot", "generic", "retrieval"], n_comparisons=4)
    values: dict[str, int] = {}
    sides: dict[str, int] = {}
    for _person in range(12):
        task = task_open(participant=make_participant(study))
        slots = list(task.slots.order_by("order"))
        pairs = [frozenset((a.bot_id, b.bot_id)) for a, b in zip(slots[::2], slots[1::2], strict=True)]
        assert len(set(pairs)) == 4
        assert all(len(pair) == 2 for pair in pairs)
        for slot in slots:
            values[slot.bot_id] = values.get(slot.bot_id, 0) + 1
            sides[slot.bot_id] = sides.get(slot.bot_id, 0) + (slot.side == "A")
    assert max(values.values()) - min(values.values()) <= 4, values
    assert all(4 <= n <= 20 for n in sides.values()), sides


def test_with_few_bots_people_get_all_their_pairs_and_no_more() -> None:
    study = make_arena(bots=["eliza", "parrot"], n_comparisons=4)
    person = make_participant(study)
    task = task_open(participant=person)
    assert task.slots.count() == 2
    assert "1 pair" in Client().get(f"/s/{study.key}/").content.decode(), "the first page knows"
    task_complete(task=task)
    with pytest.raises(Refused) as refused:
        task_open(participant=person)
    assert refused.value.code == "all_rated"
