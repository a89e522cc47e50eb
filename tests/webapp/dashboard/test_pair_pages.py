"""Pages of pairs and of items, and their part of the report; a run of bots with each other and its reader."""

import io
import json
import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bs4 import BeautifulSoup
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse
from pytest_django.asserts import assertContains, assertNotContains
from pytest_django.fixtures import DjangoAssertNumQueries

from chatbots.registry import bots
from evaluation.published.papers import GapReason
from tests.builders import (
    exchange,
    make_arena,
    make_conversation,
    make_items,
    make_participant,
    make_rating,
    make_staff,
    make_study,
)
from tests.fakes import FakeWholeBot
from tests.markup import flat
from webapp.conversations.models import Conversation
from webapp.conversations.task_start import task_chats, task_start
from webapp.core.rights import Right
from webapp.insights.report_files import report_ask, report_newest, report_read, report_state
from webapp.jobs.engine import run_job
from webapp.jobs.models import SelfPlayRun
from webapp.ratings.models import Rating
from webapp.ratings.paired_comparisons import studies_beside, study_judgements
from webapp.ratings.rating_tasks import requested_ratings
from webapp.ratings.services import comparison_submit, rating_add
from webapp.results.compute import PARTS
from webapp.results.item_results import study_pairs
from webapp.results.study_data import study_data
from webapp.studies.bot_columns import bot_columns_read
from webapp.studies.items import item_add
from webapp.studies.models import Dimension, Study, Task
from webapp.studies.rubrics import rubric_create
from webapp.studies.services import bot_columns_store, task_open
from webapp.studies.versions import study_edit

pytestmark = pytest.mark.django_db


def make_compared(key: str = "one-turn", *, n_people: int = 6, n_items: int = 8) -> Study:
    """Make a study in which eliza's replies are preferred to parrot's by all but every sixth person."""
    study = make_study(key, name="One turn", protocol="pairwise", bots=[], state="draft", n_items=n_items)
    for number in range(n_items):
        order = ["eliza", "parrot"] if number % 2 else ["parrot", "eliza"]
        replies = [{"model": bot, "text": f"{bot} says {number}"} for bot in order]
        item_add(study=study, key=f"i{number}", context=["hi"], responses=replies)
    study = study_edit(study=study, state=Study.State.COLLECTING)
    for person in range(n_people):
        task = task_open(participant=make_participant(study))
        for slot in task.slots.select_related("item"):
            eliza = 1 if slot.item.responses[0]["model"] == "eliza" else -1
            said = -eliza if person % 6 == 5 else eliza
            answers = {"quality": said, "fluency": 0, "relatedness": said, "empathy": eliza}
            rating_add(task=task, target=slot.item, answers=answers)
    return study


def make_chats(key: str = "chats", *, n_people: int = 6) -> Study:
    """Make a study of chats in which eliza is rated higher than parrot."""
    study = make_study(key, name="Chats")
    for person in range(n_people):
        for _bot in range(2):
            chat = make_conversation(study, n_exchanges=3, platform="x", external_id=f"p{person}")
            quality = 6 - person % 2 if chat.bot.bot_id == "eliza" else 3 - person % 3
            make_rating(chat, quality=quality, contingency=quality)
    return study


def text_of(client: Client, study: Study, query: str = "") -> str:
    page = client.get(reverse("dashboard:study_results", args=[study.key]) + query)
    assert page.status_code == 200
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page.content.decode()))


def test_the_page_says_who_is_preferred_and_by_how_many(reader: Client) -> None:
    study = make_compared(n_people=12)
    text = text_of(reader, study)
    assert "12 people gave 96 judgements of 8 pairs." in text
    assert "Parrot (control) do not differ significantly, and the share for Eliza (rules) minus the share for" in text
    assert "An always-valid test decides which bot is preferred, corrected by Holm, p &lt; .05" in text
    page = reader.get(reverse("dashboard:study_results", args=[study.key]))
    assertContains(page, '<td class="table-name">Parrot (control)</td>')
    study_edit(study=study, state=Study.State.ENDED)
    text = text_of(reader, study)
    assert "Clearly different in “Quality”: 0 of 1 pair of bots." in text, "closing changes no verdict"
    Study.objects.filter(pk=study.pk).update(is_sequential=False)  # closed by an earlier version
    text = text_of(reader, study)
    assert "Eliza (rules) is preferred to Parrot (control): Eliza (rules) wins 83 %" in text
    assert "the live room" not in text
    assert "A fixed-sample test decides which bot is preferred, corrected by Holm" in text
    assert "Clearly different in “Quality”: 1 of 1 pair of bots. First: Eliza (rules), clearly better" in text
    text = text_of(reader, study, "?part=pairs")
    for title in ("Wins, ties and losses", "Bot strengths in quality", "Agreement on single pairs"):
        assert title in text


def test_both_ways_of_asking_stand_side_by_side_from_either_study(reader: Client) -> None:
    compared, chats = make_compared(n_people=12), make_chats()
    assert studies_beside(compared) == [chats]
    assert studies_beside(chats) == [compared]
    for study in (compared, chats):
        study_edit(study=study, state=Study.State.ENDED)
    Study.objects.update(is_sequential=False)  # closed by an earlier version
    for study in (compared, chats):
        text = text_of(reader, study, "?part=one-turn")
        assert "Single replies and chats with the same bots" in text
        assert "“One turn” compares single replies of 2 bots; in “Chats” people chatted with them." in text
        assert "Agreement by protocol" in text
        assert "both, same order" in text
    chats.refresh_from_db()
    result = study_pairs(chats).compared
    assert [(row.question, row.asked) for row in result.rows] == [
        ("quality", "quality"),
        ("fluency", "fluency"),
        ("relatedness", "contingency"),
        ("empathy", "empathy"),
    ]


def test_the_papers_layout_has_the_one_turn_comparisons_of_the_same_bots() -> None:
    make_compared(n_people=12)
    chats = make_chats()
    table = b"bot,architecture,corpus,EI\neliza,HRED,Cornell,EI\nparrot,HRED,Cornell,plain\n"
    bot_columns_store(study=chats, columns=bot_columns_read(table, ["eliza", "parrot"], "bots.csv"))
    run_job(report_ask(study=chats, like="ghandeharioun2019"))
    made = report_newest(chats, like="ghandeharioun2019")
    document = report_read(made)
    shares = {(row[0].text, row[1].text): row for row in document.table("table-6").table.rows}
    row = shares["HRED, Cornell: EI against baseline", "Quality"]
    results = study_pairs(chats).results
    outcome = results.get_outcome("quality", "eliza", "parrot")
    assert (row[2].raw, row[3].text) == ((0.408,), "[.359, .457]")
    assert (row[8].raw, row[10].raw) == ((outcome.wins.mean,), (outcome.losses.mean,))
    assert shares["VHCR, Reddit: EI against baseline", "Quality"][8].reason == GapReason.NO_DATA
    [ambiguous] = [
        row
        for row in document.table("table-7").table.rows
        if [cell.text for cell in row[:2]] == ["HRED, Cornell: EI against baseline", "Quality"]
    ]
    assert [cell.raw[0] for cell in ambiguous[2:]] == [12, outcome.n_ambiguous, 8]
    kappas = {row[0].text: row for row in document.table("table-7-kappa").table.rows}
    assert kappas["Cornell"][1].raw == (0.176,)
    assert kappas["Quality"][2].raw == (results.kappas[0].found.value,)
    forms = {row[0].text: row for row in document.table("table-1").table.rows}
    strength = next(bot for bot in results.strengths.bots if bot.bot == "eliza").strength
    eliza = next(row for name, row in forms.items() if name.startswith("Eliza"))
    assert (eliza[1].raw, eliza[3].raw[0]) == ((strength,), pytest.approx(5.5))
    assert eliza[5].reason == GapReason.NOT_COMPUTED
    assert next(chapter for chapter in document.chapters if chapter.id == "one-turn").parts
    assert not re.search(r"message \d|says \d", str(document)), "words of a chat in a report that may be shared"


def test_trained_bots_show_their_hyper_parameters_next_to_the_papers() -> None:
    study = make_study("trained", bots=["hred-demo", "hred-ei-demo"])
    for _ in range(2):
        make_rating(make_conversation(study, n_exchanges=3))
    table = b"bot,architecture,corpus,EI\nhred-demo,HRED,Reddit,plain\nhred-ei-demo,HRED,Reddit,EI\n"
    bot_columns_store(study=study, columns=bot_columns_read(table, ["hred-demo", "hred-ei-demo"], "bots.csv"))
    run_job(report_ask(study=study, like="ghandeharioun2019"))
    nine = report_read(report_newest(study, like="ghandeharioun2019")).table("table-9").table
    titles = [header.text for header in nine.headers]
    rows = {row[0].text: dict(zip(titles, row, strict=True)) for row in nine.rows}
    ei = rows["HRED, Reddit, EI"]
    assert (ei["embedding, published"].text, ei["embedding, here"].text) == ("500", "256")
    assert (ei["w_inf, published"].text, ei["w_inf, here"].text) == ("25000", "25000")
    assert rows["HRED, Reddit, baseline"]["w_emo, published"].reason == GapReason.NOT_PUBLISHED
    assert rows["VHCR, Cornell, EI"]["batch, here"].reason == GapReason.NO_DATA


def test_rehearsals_count_only_where_asked_for_and_nothing_is_no_error(reader: Client) -> None:
    study = make_compared(n_people=0)
    assert "No ratings yet" in text_of(reader, study)
    task = task_open(participant=make_participant(study, is_synthetic=True))
    for slot in task.slots.all():
        answers = dict.fromkeys(("quality", "fluency", "relatedness", "empathy"), 1)
        rating_add(task=task, target=slot.item, answers=answers)
    assert "No ratings yet" in text_of(reader, study)
    assert "1 person gave 8 judgements" in text_of(reader, study, "?synthetic=1")
    assert "No ratings yet" in text_of(reader, make_study("chat"))


def test_the_page_asks_as_many_queries_however_many_judgements_there_are(
    reader: Client, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    study = make_compared(n_people=2)
    with django_assert_max_num_queries(32) as few:
        text_of(reader, study)
    for _person in range(6):
        task = task_open(participant=make_participant(study))
        for slot in task.slots.all():
            answers = dict.fromkeys(("quality", "fluency", "relatedness", "empathy"), 0)
            rating_add(task=task, target=slot.item, answers=answers)
    make_compared("other")
    with django_assert_max_num_queries(len(few.captured_queries)):
        text_of(reader, study)


def test_an_arenas_choices_rank_its_bots_with_style_held_equal(reader: Client) -> None:
    study = make_arena("arena", bots=["eliza", "parrot", "generic"], n_comparisons=3)
    rng = random.Random(1)
    better = ["generic", "parrot", "eliza"]  # from the worst
    for person in range(12):
        task = task_start(participant=make_participant(study))
        while task.state == Task.State.OPEN:
            chats = task_chats(task=task)
            for chat in chats:
                words = "word " * rng.randint(2, 12)
                exchange(chat, "hello", f"{words}- of **{chat.pk}**")
            first, second = (chat.slot for chat in chats)
            ahead = better.index(first.bot_id) > better.index(second.bot_id)
            choice = "bad" if person == 0 else "ab"[ahead == (person % 5 == 4)]
            comparison_submit(task=task, slots=(first, second), choice=choice)
            task.refresh_from_db()
    judged = study_judgements(study)
    assert len(judged) == len(set(judged.item)) == 36  # every pair of chats is one of its own
    assert np.isfinite(judged.controls["length"]).all()
    assert judged.controls["length"].any()
    assert "log odds relative to the average bot" in text_of(reader, study)
    page = text_of(reader, study, "?part=pairs")
    assert "Bot strengths" in page
    assert "Rank, equal style" in page
    assert "twice the length adds" in page


def test_a_study_of_pairs_has_a_report_of_its_own(reader: Client, tmp_path: Path) -> None:
    study, output = make_compared(), tmp_path / "report.html"
    make_chats()
    call_command("report", "--study", study.key, "--output", str(output), stdout=io.StringIO())
    page = output.read_text()
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))
    assert "48 judgements" in text
    assert "Bot strengths" in text
    assert "Cohen’s κ" in text
    assert "Single replies compared with interactive chats" in text
    assert "Bradley–Terry model with ties" in text
    assert "<script src" not in page
    said = io.StringIO()
    call_command("report", "--study", study.key, "--json", stdout=said)
    document = json.loads(said.getvalue())
    assert (document["pairs"]["n"], document["beside"]) == (48, "chats")
    assert document["one_turn"] is not None
    page_of_it = reader.get(reverse("dashboard:study_report", args=[study.key]))
    assertContains(page_of_it, "48 ratings")
    job = report_ask(study=study)
    run_job(job)
    job.refresh_from_db()
    assert (job.state, job.result["n_ratings"]) == ("done", 48)
    before = report_state(study).digest
    Rating.objects.filter(item__study=study).order_by("pk")[0].save()
    assert report_state(study).digest != before


def test_a_study_of_pairs_without_a_judgement_says_so(tmp_path: Path) -> None:
    study = make_compared(n_people=0)
    with pytest.raises(CommandError, match="has no judgements yet"):
        call_command("report", "--study", study.key, "--output", str(tmp_path / "r.html"))


def test_a_matrix_is_asked_for_shown_and_read(staff: Client) -> None:
    plan = {"bots": ["eliza", "parrot"], "n_conversations": 2, "n_turns": 4, "seed": 1}
    page = staff.post(reverse("dashboard:runs"), {**plan, "bots": ["eliza"], "pairs": "all"})
    assertContains(page, "eliza alone is not a pair", status_code=400)
    assert staff.post(reverse("dashboard:runs"), {**plan, "pairs": "all"}).status_code == 302
    run = SelfPlayRun.objects.get()
    assert run.n_total == 8
    assertContains(
        staff.get(reverse("dashboard:run", args=[run.pk])),
        "Each row is the bot that begins, each column the bot that answers.",
    )
    run_job(run)
    page = staff.get(reverse("dashboard:run", args=[run.pk]))
    listed = reverse("dashboard:run_conversations", args=[run.pk])
    for first in ("eliza", "parrot"):
        for bot in ("eliza", "parrot"):
            link = f'href="{listed}?bot={bot}&amp;first={first}">2</a>'
            assert link in flat(page.content.decode())
    assertContains(page, "Conversations per pair")

    mixed = staff.get(listed, {"bot": "parrot", "first": "eliza"})
    assertContains(mixed, "with eliza, which begins", count=2)
    alone = staff.get(listed, {"bot": "parrot", "first": "parrot"})
    assert alone.context["page"].total == 2
    assertNotContains(alone, "which begins")

    conversation = Conversation.objects.filter(selfplay__partner_bot_id="eliza").first()
    reader = staff.get(reverse("dashboard:conversation", args=[conversation.pk]), follow=True)
    assertContains(reader, "with Eliza (rules), version")
    assertNotContains(reader, "Bot (opener)")


def test_a_run_says_how_many_failed_and_why(staff: Client) -> None:
    bots.add(FakeWholeBot(name="moody", fails=lambda context: context.seed % 2))
    try:
        plan = {"bots": ["eliza", "moody"], "n_conversations": 8, "n_turns": 4, "seed": 1}
        assert staff.post(reverse("dashboard:runs"), plan).status_code == 302
        run = SelfPlayRun.objects.get()
        run_job(run)
    finally:
        bots.discard("moody")
    failed = Conversation.objects.filter(selfplay__run=run, state="failed")
    n_failed = failed.count()
    assert 1 < n_failed < 8
    page = staff.get(reverse("dashboard:run", args=[run.pk]))
    assertContains(page, f"{n_failed} conversations failed.")
    assertContains(page, f"{n_failed} times: failed: RuntimeError: scripted failure")
    assertContains(page, f'<span class="big-count">{16 - n_failed}</span>', html=True)
    assertContains(page, "Partly failed")
    listed = staff.get(reverse("dashboard:runs"))
    assertContains(listed, f"{16 - n_failed} of 16")
    assertContains(listed, f"{n_failed} failed")
    reader = staff.get(reverse("dashboard:conversation", args=[failed.first().pk]), follow=True)
    assertContains(reader, "scripted failure")
    assert "This conversation is excluded" in flat(reader.content.decode())


def make_graded(n_people: int = 5) -> Study:
    """Make a study in which everybody grades six items from 0 to 3; of the model `a` higher."""
    rubric = rubric_create(
        name="grades", dimensions=[Dimension(key="overall", title="Overall", question="How good?")], low=0, high=3
    )
    study = make_study("g", protocol="majority", bots=[], state="draft", n_items=6, rubric=rubric)
    make_items(study, 6)
    study = study_edit(study=study, state=Study.State.COLLECTING)
    for person in range(n_people):
        task = task_open(participant=make_participant(study))
        for judgement in requested_ratings(task):
            item = judgement.slots[0].item
            number = int(item.key.removeprefix("i"))
            grade = 3 - (person + number) % 2 if number % 2 == 0 else (person * number) % 2
            rating_add(task=task, target=item, answers={"overall": grade})
    return study


@pytest.fixture
def reader_of_items(client: Client) -> Client:
    client.force_login(make_staff(Right.READ, Right.RUN))
    return client


def found(study: Study) -> Any:
    data = study_data(study)
    assert data is not None
    return PARTS["items"].make(data, None)


def words_of(client: Client, name: str, *args: str, **query: str) -> str:
    answer = client.get(reverse(f"dashboard:{name}", args=args), query)
    assert answer.status_code == 200
    return re.sub(r"\s+", " ", answer.content.decode())


def test_means_grades_and_labels_are_those_of_the_stored_ratings() -> None:
    result = found(make_graded())
    [overall] = result.means.dimensions
    assert (result.means.n_items, result.means.fewest, result.means.most) == (6, 5, 5)
    by_item = {item.item: item for item in overall.items}
    assert by_item["i0"].mean == pytest.approx((3 + 2 + 3 + 2 + 3) / 5)
    grades = {item.item: item for item in result.grades.items}
    assert (grades["i0"].grade, grades["i0"].counts) == (3, (0, 0, 2, 3))
    assert grades["i2"].by_majority == "entailment"
    assert grades["i1"].by_majority == "contradiction"


def test_its_page_tells_of_items_and_nothing_of_conversations(reader_of_items: Client) -> None:
    study = make_graded()
    page = words_of(reader_of_items, "study_why", study.key, part="items")
    for words in ("6 items, each rated by 5 people", "Item labels", "Entailment", "Item means of overall", "i4"):
        assert words in page, words
    assert "#trajectories" not in page, "items have no course"
    answer = reader_of_items.get(reverse("dashboard:study_why", args=[study.key]) + "?part=trajectories")
    assert answer.status_code == 404
    cards = words_of(reader_of_items, "study", study.key).split('<dl class="cards">')[1].split("</dl>")[0]
    assert "Conversations" not in cards
    assert "exchanges" not in cards
    assert "<strong>6</strong> of 6 rated" in cards
    assert "<strong>30</strong> none excluded" in cards
    raters = words_of(reader_of_items, "study_why", study.key, part="raters")
    assert "Raters of the same item agree" in raters
    assert "the same conversation" not in raters


def test_items_drawn_from_a_chat_link_to_it(reader_of_items: Client) -> None:
    study = make_graded()
    chat = make_conversation(make_study("source"), n_exchanges=1)
    study.items.filter(key="i2").update(conversation=chat)
    answer = reader_of_items.get(reverse("dashboard:study_why", args=[study.key]), {"part": "items"})
    links = {a.get_text(): a["href"] for a in BeautifulSoup(answer.content, "html.parser").select("tbody th a")}
    assert links == {"i2": reverse("dashboard:conversation", args=[chat.pk])}


def test_work_that_missed_a_check_is_counted_on_the_overview(reader_of_items: Client) -> None:
    check = {"response": "choose 2 below", "expected": {"overall": [2]}}
    study = study_edit(study=make_graded(2), attention_checks=[check], n_items=2)
    task = task_open(participant=make_participant(study))
    for judgement in requested_ratings(task):
        rating_add(task=task, target=judgement.target, answers={"overall": 0})
    cards = words_of(reader_of_items, "study", study.key)
    assert "and 2 of 1 task excluded because of a missed check" in cards
    bots = words_of(reader_of_items, "study_results", study.key)
    assert "Ratings of participants who missed a check are excluded." in bots
