"""The live part of People: who is where, how bots answer, what is settled, pause and close; asked for again."""

import re
from datetime import timedelta
from typing import Any

import pytest
from bs4 import BeautifulSoup
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from tests.builders import (
    BY_PROLIFIC,
    fail_reply,
    make_annotated,
    make_arena,
    make_conversation,
    make_pairwise,
    make_rating,
    make_study,
    signed_in,
)
from tests.markup import flat
from tests.webapp.dashboard.conftest import rate_some
from tests.webapp.insights.test_live_numbers import at, room
from webapp.bots.models import BotAside
from webapp.conversations import services as conversation_services
from webapp.conversations.models import Conversation, ReplyFailure, ReplyMark, Turn
from webapp.core.rights import Right
from webapp.insights.live_progress import now_rounded, participant_progress
from webapp.jobs.engine import run_job
from webapp.jobs.models import Job
from webapp.ratings.selectors import study_bots
from webapp.studies.lifecycle import study_import
from webapp.studies.models import Study, Task
from webapp.studies.recruitment.links import link_opened, task_decline
from webapp.studies.services import participant_enter
from webapp.studies.study_file import study_example
from webapp.studies.versions import study_edit

pytestmark = pytest.mark.django_db


def address(study: Study, name: str = "study_people") -> str:
    return reverse(f"dashboard:{name}", args=[study.key])


def test_stages_count_who_got_there_who_is_there_and_who_left(staff: Client) -> None:
    study = make_study("s", pay_each=2.0, fee_share=0.5, max_per_bot=10)
    for _ in range(9):
        link_opened(study=study, is_synthetic=False)
    link_opened(study=study, is_synthetic=False, refused="paused")
    task_decline(participant=participant_enter(study=study), version=study.version)
    for _ in range(2):  # done
        make_rating(at(at(make_conversation(study, n_exchanges=3), "chat"), "form"))
    at(make_conversation(study), "chat")  # chats now
    at(at(make_conversation(study, n_exchanges=3), "form"), "chat")  # has looked at the form
    gone = at(make_conversation(study), "chat")
    lost = at(make_conversation(study), "chat")
    old = timezone.now() - timedelta(minutes=20)
    for table in (Task.objects.filter(slots__chat=gone), Conversation.objects.filter(pk=gone.pk)):
        table.update(updated_at=old)
    gone.task.whereabouts.__class__.objects.filter(task=gone.task).update(seen_at=old)
    fail_reply(lost)
    conversation_services.conversation_finish_failed(conversation=lost)
    make_conversation(study, is_synthetic=True)
    result = participant_progress(study, include_synthetic=False, now=now_rounded())
    stages = {stage.name: (stage.n, stage.now, stage.ended, stage.n_left) for stage in result.stages}
    assert stages == {
        # Openings, of which one led to nothing; one person declined, and who left is not counted.
        "opened": (10, 0, 1, None),
        "agreed": (6, 0, 0, 0),
        "chat": (6, 2, 1, 1),
        # Whoever has gone back to the chat is on the way, and has not left.
        "form": (3, 0, 0, 0),
        "done": (2, 0, 0, None),
    }
    assert result.n_inside == 2
    chat = result.stages[2]
    assert chat.share == pytest.approx(1 / 4), "of those who went on or left"
    assert 0 < chat.low < chat.share < chat.high < 1
    money = room(study).money
    assert money.people == pytest.approx(3 * 2.0 * 1.5), "two ratings, and one that broke"
    assert money.planned.in_all == 60
    html = flat(staff.get(address(study)).content.decode())
    for said in ("of 20", "£9.00", "2 here now", "Other endings", "the study is paused 1", "1 declined"):
        assert said in html, said


def test_every_region_of_the_room_has_a_name_of_its_own(staff: Client) -> None:
    study = make_study("s")
    make_rating(make_conversation(study, n_exchanges=3))
    fail_reply(make_conversation(study))
    page = BeautifulSoup(staff.get(address(study)).content, "html.parser")

    def name(region: Any) -> str:
        titles = [page.find(id=one) for one in region.get("aria-labelledby", "").split()]
        return region.get("aria-label") or " ".join(title.get_text() for title in titles)

    regions = page.select("section[aria-labelledby], section[aria-label], [role=region]")
    names = [name(region) for region in regions]
    assert {"Bots", "Bots, as a table"} <= set(names)
    assert len(names) == len(set(names)), names
    assert all(names)


def test_a_bots_replies_failures_and_who_waits(staff: Client) -> None:
    study = make_study("s", bots=["eliza"])
    chats = [make_conversation(study, n_exchanges=3) for _ in range(7)]
    Turn.objects.filter(speaker="bot").update(latency_ms=1000)
    Turn.objects.filter(conversation=chats[0], speaker="bot").update(latency_ms=12_000)
    old = Turn.objects.filter(conversation=chats[1])
    old.update(created_at=timezone.now() - timedelta(hours=2))
    for chat in chats[:3]:
        fail_reply(chat)
    result = room(study)
    [bot] = result.bots
    assert (bot.n_replies, bot.n_failed, bot.median_s, bot.most_s) == (18, 3, 1.0, None)
    assert (bot.words, bot.tone) == ("Disabled", "warn"), "three in a row"
    assert result.aside == [bot]
    assert [one.has_failed for one in result.waiting] == [True, True, True]
    html = flat(staff.get(address(study)).content.decode())
    assert f"{bot.info.title} has been disabled since" in html
    assert "It failed 3 times in a row" in html
    assert f"{bot.info.title} is disabled." in html.split('data-alarm="')[1].split('"')[0]
    assert "3 waiting for a reply" in html
    assert "3 waiting, 3 failed replies" in html
    assert [(one.bot, one.chat) for one in result.failed] == [(bot.info.title, chat.pk) for chat in reversed(chats[:3])]
    assert result.failed[0].reason in html
    assert reverse("dashboard:conversation", args=[chats[2].pk]) in html.split('data-part="failed"')[1]
    Turn.objects.filter(conversation=chats[1]).update(created_at=timezone.now())
    [bot] = room(study).bots
    assert (bot.n_replies, bot.most_s) == (21, 12.0), "the slowest but one of twenty-one"


def test_scripted_people_are_shown_by_a_switch_and_count_in_a_bots_health(staff: Client) -> None:
    study, slow = make_study("s", bots=["eliza"]), make_study("t", bots=["parrot"])
    chats = [make_conversation(study, n_exchanges=n, is_synthetic=True) for n in (4, 4, 3)]
    Turn.objects.filter(speaker="bot").update(latency_ms=900)
    for chat in (*chats, chats[0]):
        ReplyFailure.objects.create(conversation=chat, bot_id="eliza", reason="broken")
    make_conversation(slow, n_exchanges=4, is_synthetic=True)
    Turn.objects.filter(conversation__study=slow, speaker="bot").update(latency_ms=51_000)
    [bot], [late] = room(study).bots, room(slow).bots
    assert (bot.n_asked, bot.words, bot.tone) == (0, "Failing", "warn"), "to anybody"
    assert bot.reason.startswith("4 of 15 replies failed")
    assert (late.median_s, late.words, late.tone) == (None, "Slow", "warn")
    assert late.reason.startswith("half of its replies took 51 s or longer")
    [bot] = room(study, include_synthetic=True).bots
    assert (bot.n_asked, bot.n_failed, bot.words) == (15, 4, "Failing")

    soup = BeautifulSoup(flat(staff.get(address(study)).content.decode()), "html.parser")
    assert "Scripted participants are excluded." in soup.find(role="note").get_text()
    switch = soup.find("a", string="Include them")
    shown = flat(staff.get(address(study) + switch["href"]).content.decode())
    with_scripts = BeautifulSoup(shown, "html.parser")
    assert "Scripted participants are included." in with_scripts.find(role="note").get_text()
    assert "4 of 15" in with_scripts.find(attrs={"data-part": "bots"}).get_text()
    assert "synthetic=1" in with_scripts.find(attrs={"data-live-room": True})["data-live-room"]
    assert "synthetic" not in with_scripts.find("a", string="Exclude them")["href"]
    # The banner says whom the page counts before anybody scripted comes, too.
    empty = staff.get(address(make_study("e")) + "?synthetic=1").content.decode()
    assert "Scripted participants are included." in empty


def test_late_replies_and_replies_that_name_their_model_are_counted(staff: Client) -> None:
    study = make_study("s", bots=["eliza"], paces_alike=True)
    said = Turn.objects.filter(conversation=make_conversation(study, n_exchanges=3), speaker="bot").order_by("index")
    for turn, late_ms in zip(said, (0, 500, 501), strict=True):
        Turn.objects.filter(pk=turn.pk).update(late_ms=late_ms, latency_ms=100)
    mark = {"identity": {}, "reason": "It reveals its model."}
    ReplyMark.objects.create(turn=said[1], filter="names_model", **mark)
    ReplyMark.objects.create(turn=said[2], filter="phrases", **mark)
    [bot] = room(study).bots
    assert (bot.n_paced, bot.n_late, bot.n_naming) == (3, 1, 1)
    html = staff.get(address(study)).content.decode()
    assert "1 of 3" in html
    plain = staff.get(address(make_study("p", reply_filters={}))).content.decode()
    assert ">Late<" in html
    assert ">Late<" not in plain
    assert "Reveals its identity" in html
    assert "Reveals its identity" not in plain


def test_a_bot_is_put_back_from_the_room(staff: Client) -> None:
    study = make_study("s", bots=["eliza"])
    for _ in range(3):
        fail_reply(make_conversation(study))
    back = reverse("dashboard:bot_back", args=["eliza"])
    assert staff.post(back, {"study": "s"})["Location"] == address(study)
    aside = BotAside.objects.get()
    assert (aside.ended_by, aside.put_back_by.username) == ("person", "r")
    html = staff.get(address(study)).content.decode()
    assert "has been disabled since" not in html
    assert "Eliza (rules) is enabled again" in html
    staff.post(back)
    assert "was already enabled" in staff.get("/dashboard/bots/eliza/").content.decode()


def test_several_things_that_need_somebody_are_one_list(staff: Client) -> None:
    study = make_study("s", bots=["eliza"], **BY_PROLIFIC)
    link = {"platform": "prolific", "external_id": "p1", "recruitment": {"SESSION_ID": "s1"}}
    lost = make_conversation(study, **link)
    for chat in (lost, make_conversation(study), make_conversation(study)):
        fail_reply(chat)
    conversation_services.conversation_finish_failed(conversation=lost)
    html = " ".join(staff.get(address(study)).content.decode().split())
    assert "2 things need attention" in html
    assert "lost a chat to a bot failure and should be paid." in html
    assert f"{reverse('dashboard:study_people', args=['s'])}?show=ours" in html
    front = " ".join(staff.get("/dashboard/").content.decode().split())
    assert "things need attention" in front
    assert "Decide about pay" in front
    reader = signed_in(Right.READ, username="reader")
    assert "state=failed" in reader.get(address(study)).content.decode()


def test_what_is_settled_beside_the_plan(staff: Client) -> None:
    study = make_study("s", max_per_bot=24)
    rate_some(study, 2)
    assert room(study).orders == []
    run_job(Job.objects.get(kind="order"))
    for n in range(24):
        conversation = make_conversation(study, n_exchanges=3)
        is_eliza = conversation.bot.bot_id == "eliza"
        make_rating(conversation, quality=(6 if is_eliza else 2) + n // 2 % 2)
    [result, *_others] = room(study).orders
    assert result.n_ratings == 2, "a worker has not looked again"
    study.order_state.delete()
    room(study)
    run_job(Job.objects.filter(kind="order").latest("pk"))
    study.refresh_from_db()
    order, *others = room(study := Study.objects.get()).orders
    assert order.key == "quality"
    assert [one.key for one in others] == [
        dimension.key for dimension in study.rubric.dimensions.all() if dimension.key != "quality"
    ]
    assert others[0].n_told_apart == 0, "each question has a verdict of its own"
    assert (order.n_told_apart, order.n_pairs) == (1, 1)
    [sentence] = order.sentences
    title = study_bots(study)["eliza"].title
    assert sentence.lead.startswith(f"{title} and ")
    assert sentence.rest == f"are clearly different; {title} is better."
    html = staff.get(address(study)).content.decode()
    assert "1 of 1 pairs are significantly different" in html
    assert html.count("pairs are significantly different") == 1 + len(others)
    # Half of the plan is there, so the rest makes the interval narrower.
    now, then = re.findall(r"± (\d?\.\d+)", order.precision)
    assert ("13 of 24 ratings" in order.precision, float(then) < float(now)) == (True, True)
    assert order.precision in html
    Study.objects.update(state="ended")
    assert "this test no longer applies" in staff.get(address(study)).content.decode()


def test_an_empty_room_and_other_protocols(staff: Client) -> None:
    empty = staff.get(address(make_study("s"))).content.decode()
    assert "No participants yet" in empty
    assert "The link was opened 0 times." in flat(empty)
    assert 'data-copy="http://testserver/s/s/"' in empty
    draft = make_study("d", state="draft")
    assert "Open the study first" in staff.get(address(draft)).content.decode()
    arena = make_arena("a")
    make_conversation(arena)
    for study in (arena, make_pairwise("p"), make_annotated("n")):
        html = staff.get(address(study)).content.decode()
        assert "Not available yet. This needs ratings of two bots" in html
        assert ('aria-labelledby="bots" hidden' in html) == (study != arena)
    study_edit(study=arena, state=Study.State.ENDED)
    html = staff.get(address(arena)).content.decode()
    assert reverse("dashboard:study_results", args=["a"]) in html.split('data-part="order"')[1]
    choices = study_import(file=study_example("choose"), opens=True).study
    assert 'data-part="order" hidden' in staff.get(address(choices)).content.decode()
    imported = make_study("i")
    Study.objects.filter(pk=imported.pk).update(is_imported=True)
    assert staff.get(address(imported))["Location"] == address(imported, "study")
    assert staff.get(address(imported, "study_people_now")).status_code == 404


def test_asking_again_costs_little_and_says_when_nothing_changed(
    staff: Client, django_assert_max_num_queries: Any
) -> None:
    rated = make_study("rated")
    rate_some(rated, 8)
    first = staff.get(address(rated, "study_people_now"))
    digest = first["ETag"]
    again = staff.get(address(rated, "study_people_now"), headers={"if-none-match": digest})
    assert (again.status_code, again.content) == (304, b"")
    assert "private" in first["Cache-Control"]
    make_conversation(rated)
    changed = staff.get(address(rated, "study_people_now"), headers={"if-none-match": digest})
    assert changed.status_code == 200
    with CaptureQueriesContext(connection) as before:
        staff.get(address(rated, "study_people_now"))
    rate_some(rated, 6)
    for _ in range(2):
        make_conversation(rated, n_exchanges=2)
    with django_assert_max_num_queries(len(before)):
        staff.get(address(rated, "study_people_now"))
    assert len(before) < 40


def test_pause_resume_and_close_with_what_people_read_then(staff: Client, caplog: pytest.LogCaptureFixture) -> None:
    study = make_study("s")
    inside = Client()
    inside.get("/s/s/")
    chat = inside.post("/s/s/start/", {"consent": "on"})["Location"]
    state = address(study, "study_people_state")
    html = staff.get(address(study)).content.decode()
    assert "1 active participant can finish. No new ones can start." in html
    caplog.set_level("INFO")
    assert staff.post(state, {"_state": "paused"})["Location"] == address(study)
    assert "study s is paused, by r" in caplog.text
    stranger = Client().get("/s/s/").content.decode()
    assert "This study is paused" in stranger
    assert "study s refused somebody new: paused" in caplog.text
    assert inside.get(chat).status_code == 200, "whoever is inside may finish"
    assert f'href="{chat}"' in inside.get("/s/s/").content.decode(), "and the link leads them back"
    html = staff.get(address(study)).content.decode()
    assert "Rejected visits: the study is paused 1" in " ".join(html.split())
    assert 'value="collecting"' in html
    staff.post(state, {"_state": "ended"})
    assert "has ended" in Client().get("/s/s/").content.decode()
    assert Study.objects.get().state == "ended"
    staff.post(state, {"_state": "paused"})
    assert Study.objects.get().state == "ended"
    reader = signed_in(Right.READ, username="reader")
    assert "study_people_state" not in reader.get(address(study)).content.decode()
    assert reader.post(state, {"_state": "collecting"}).status_code == 403
