"""Two replies to each message, one of which is picked: pages, picks, failures, context, results, exports."""

import json
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from django.core.exceptions import ValidationError
from django.core.management import call_command
from django.db import connection
from django.test import Client
from django.urls import reverse

from evaluation.analysis.pairs import judge_pairs
from tests.builders import answer, exchange, fail_reply, make_study, signed_in
from tests.webapp.participant.conftest import post, started
from webapp.conversations import frames
from webapp.conversations.models import Conversation, Turn
from webapp.conversations.reply_pipeline import reply_begin
from webapp.conversations.selectors import history
from webapp.conversations.services import turn_add_human
from webapp.core.errors import Refused
from webapp.core.rights import Right
from webapp.ratings.models import Rating
from webapp.ratings.paired_comparisons import study_judgements
from webapp.ratings.reply_picks import reply_pick, shown_first
from webapp.studies.models import Slot, Study, Task
from webapp.transfer.exporters.base import ExportOptions, table_of

pytestmark = pytest.mark.django_db


def make_picks(key: str = "k", **fields: object) -> Study:
    settings = {"protocol": "picks", "bots": ["eliza", "parrot"], "n_comparisons": 1, "min_exchanges": 2}
    return make_study(key, **{**settings, **fields})


def chats() -> list[Conversation]:
    return list(Conversation.objects.filter(state="open").order_by("slot__order"))


def talk(number: int) -> None:
    for chat in chats():
        exchange(chat, f"message {number}", f"reply {number} of {chat.slot.side}")


def pick(side: int, turn: int, *, is_equal: bool = False) -> None:
    reply_pick(conversation_id=chats()[side].pk, turn_index=turn, is_equal=is_equal)


@pytest.fixture
def address(browser: Client) -> str:
    """Return the page of somebody who has agreed."""
    make_picks()
    return started(browser, "k")


def test_the_page_draws_an_order_and_names_no_bot(browser: Client, address: str) -> None:
    task = Task.objects.get()
    assert (address, task.kind) == (f"/task/{task.public_id}/picks/", "picks")
    page = browser.get(address).content.decode()
    pair = tuple(Slot.objects.order_by("order"))
    drawn = [str(shown_first(pair, turn)) for turn in range(1, 11, 2)]
    assert f'data-firsts="{" ".join(drawn)}"' in page
    assert "eliza" not in page.lower()
    assert {shown_first(pair, turn) for turn in range(1, 60, 2)} == {0, 1}


def test_the_chat_goes_on_with_the_reply_that_was_picked(browser: Client, address: str) -> None:
    talk(0)
    first, second = chats()
    with pytest.raises(Refused) as refused:
        turn_add_human(conversation_id=second.pk, client_id=uuid.uuid4(), text="next")
    assert refused.value.code == "pick_due"
    pick(1, 1)
    pick(0, 1)  # another page, too late: the first pick stays
    rating = Rating.objects.get()
    assert rating.at_turn == 1
    shown = {rating.first.chat.pk: rating.answers["better"], rating.second.chat.pk: -rating.answers["better"]}
    assert shown == {second.pk: 1, first.pk: -1}
    assert rating.first == tuple(Slot.objects.order_by("order"))[shown_first((first.slot, second.slot), 1)]
    for chat in (first, second):
        turn_add_human(conversation_id=chat.pk, client_id=uuid.uuid4(), text="next")
        due = reply_begin(chat.pk, uuid.uuid4())
        assert [turn.text for turn in due.context.turns] == ["message 0", "reply 0 of B", "next"]
    own = Turn.objects.get(conversation=first, index=1)
    assert (own.text, own.goes_on) == ("reply 0 of A", False)
    assert [turn.get("goes_on") for turn in history(second.pk).turns] == [None, True, None]


def test_two_replies_may_be_equal_where_the_study_says_so(browser: Client, address: str) -> None:
    talk(0)
    pick(0, 1, is_equal=True)
    assert Rating.objects.get().answers == {"better": 0}
    assert sorted(Turn.objects.filter(index=1).values_list("goes_on", flat=True)) == [False, True]
    make_picks("strict", allows_equal=False)
    Conversation.objects.filter(state="open").update(state="ended")
    page = browser.get(started(Client(enforce_csrf_checks=True), "strict"))
    assert page.status_code == 404  # another person's
    talk(0)
    with pytest.raises(Refused) as refused:
        pick(0, 1, is_equal=True)
    assert refused.value.code == "bad_frame"


def test_where_one_bot_fails_the_chat_goes_on_with_the_other_and_nothing_is_compared(address: str) -> None:
    first, second = chats()
    exchange(first, "hello", "hi")
    turn_add_human(conversation_id=second.pk, client_id=uuid.uuid4(), text="hello")
    with pytest.raises(Refused) as refused:
        pick(0, 1)
    assert refused.value.code == "waiting_for_reply"
    answer(second, "well")
    pick(1, 1)
    fail_reply(first)
    turn_add_human(conversation_id=second.pk, client_id=uuid.uuid4(), text="hello")
    answer(second, "alone")
    picked = reply_pick(conversation_id=second.pk, turn_index=3)
    assert picked.copied is not None
    copied = Turn.objects.get(conversation=first, index=3)
    assert (copied.text, copied.answered_by, copied.goes_on) == ("alone", second.bot.bot_id, False)
    assert [chat.n_exchanges for chat in chats()] == [2, 2]
    assert Rating.objects.count() == 1
    talk(2)


@pytest.mark.parametrize(("turn", "code"), [(0, "bad_frame"), (2, "bad_frame"), (99, "bad_frame")])
def test_what_is_no_reply_is_not_picked(address: str, turn: int, code: str) -> None:
    talk(0)
    with pytest.raises(Refused) as refused:
        pick(0, turn)
    assert refused.value.code == code
    assert not Rating.objects.exists()


@pytest.mark.parametrize("frame", [{}, {"turn": -1}, {"turn": "1"}, {"turn": 1, "equal": "yes"}, {"turn": 10**9}])
def test_a_pick_that_is_no_frame_is_refused(frame: dict) -> None:
    with pytest.raises(Refused) as refused:
        frames.frame_parse(json.dumps({"type": "pick", **frame}))
    assert refused.value.code == "bad_frame"


def test_the_end_asks_the_rest_and_gives_the_code(browser: Client, address: str) -> None:
    talk(0)
    pick(0, 1)
    assert "note=too_early" in post(browser, address, _n="1").url
    talk(1)
    early = post(browser, address, _n="1").url
    assert "note=pick_due" in early
    assert "Pick a reply first." in browser.get(early).content.decode()
    pick(1, 3)
    assert post(browser, address, _n="1").url.endswith("/done/")
    assert list(Rating.objects.order_by("pk").values_list("at_turn", flat=True)) == [1, 3, None]
    assert set(Conversation.objects.values_list("state", flat=True)) == {"completed"}
    with pytest.raises(Refused) as refused:
        reply_pick(conversation_id=Conversation.objects.first().pk, turn_index=5)
    assert refused.value.code == "closed"


def test_results_exports_reader_and_package(browser: Client, address: str, tmp_path: Path) -> None:
    study = Study.objects.get()
    for number, side in enumerate([0, 1, 1]):
        talk(number)
        pick(side, 2 * number + 1)
    bots = [chat.bot.bot_id for chat in chats()]
    assert post(browser, address, _n="1").url.endswith("/done/")
    judged = study_judgements(study)
    assert (len(judged), judged.exchange.tolist(), len(set(judged.item))) == (3, [1, 2, 3], 3)
    by = {(pick.bot, pick.exchange): pick.share.mean for pick in judge_pairs(judged).picks}
    assert by == {
        (bots[0], None): pytest.approx(1 / 3),
        (bots[0], 1): 1,
        (bots[0], 2): 0,
        (bots[0], 3): 0,
        (bots[1], None): pytest.approx(2 / 3),
        (bots[1], 1): 0,
        (bots[1], 2): 1,
        (bots[1], 3): 1,
    }
    messages = table_of(study, "messages", ExportOptions())
    at = [column.name for column in messages.columns].index("goes_on")
    assert [row[at] for row in messages.rows].count(True) == 3
    ratings = table_of(study, "ratings", ExportOptions())
    at = [column.name for column in ratings.columns].index("turn")
    assert [row[at] for row in ratings.rows] == [1, 3, 5, None]
    staff = signed_in(*Right)
    page = staff.get(reverse("dashboard:study_results", args=["k"]), {"part": "pairs"})
    assert page.status_code == 200
    assert "Share of picked replies by exchange" in page.content.decode()
    chat = Conversation.objects.order_by("slot__order").first()
    read = staff.get(reverse("dashboard:conversation", args=[chat.pk]), follow=True)
    assert read.status_code == 200
    assert "The reply that was picked" in read.content.decode()
    call_command("export", "--study", "k", "--what", "package", "--output", str(tmp_path / "k.zip"))
    call_command("import_conversations", str(tmp_path / "k.zip"), "--study", "k2")
    back = study_judgements(Study.objects.get(key="k2"))
    assert back.exchange.tolist() == judged.exchange.tolist()
    assert judge_pairs(back).picks == judge_pairs(judged).picks
    imported = Turn.objects.filter(conversation__study__key="k2", goes_on=True)
    assert imported.count() == 3


def test_one_bot_is_too_few() -> None:
    with pytest.raises(ValidationError, match="compares chatbots; the study has one"):
        make_picks(bots=["eliza"])


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_of_picks_at_once_one_is_stored(browser: Client) -> None:
    make_picks()
    started(browser, "k")
    talk(0)
    ready, sides = threading.Barrier(8), chats()

    def one(number: int) -> object:
        ready.wait(timeout=30)
        try:
            return reply_pick(conversation_id=sides[number % 2].pk, turn_index=1).goes_on
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as pool:
        told = list(pool.map(one, range(8)))
    assert all(one == told[0] for one in told)
    assert Rating.objects.count() == 1
    assert sorted(Turn.objects.filter(index=1).values_list("goes_on", flat=True)) == [False, True]
