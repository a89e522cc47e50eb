"""Flags that are stored, also of how messages were typed, and leaving people out by them: one result everywhere."""

import json
import re
import uuid
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bs4 import BeautifulSoup
from django.core.management import call_command
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

import confab
from tests.builders import (
    answer,
    exchange,
    make_annotated,
    make_arena,
    make_conversation,
    make_pairwise,
    make_participant,
    make_participants,
    make_rating,
    make_staff,
    make_study,
    signed_in,
)
from webapp.conversations.frames import KeystrokeCounts, MessageFrame, frame_parse
from webapp.conversations.models import Conversation, Typing
from webapp.conversations.services import turn_add_human
from webapp.conversations.task_start import task_chats
from webapp.core.errors import Refused
from webapp.core.rights import Right
from webapp.jobs.engine import run_job
from webapp.jobs.models import HybridFit, Job
from webapp.jobs.selectors.fits import FitTables, fit_leading, fits_newest
from webapp.jobs.services.fits import fit_create, metric_run_create
from webapp.ratings.flag_selectors import left_out_counts
from webapp.ratings.flag_store.models import FlagState, OriginMark, TaskFlag
from webapp.ratings.flags.base import flag_kinds
from webapp.ratings.models import Rating
from webapp.ratings.rating_tasks import requested_ratings
from webapp.ratings.selectors import study_ratings
from webapp.ratings.services import comparison_submit, flags_make, rating_add
from webapp.results import refresh as flags_module
from webapp.results.cache import AnalysisKey
from webapp.results.refresh import refresh_flags
from webapp.studies.items import gold_store, item_add
from webapp.studies.models import Dimension, Item, Participant, Study, Task
from webapp.studies.privacy import consent_texts, participants_erase
from webapp.studies.services import task_open

pytestmark = pytest.mark.django_db


ALIKE = {"quality": 2, "fluency": 2, "diversity": 2, "contingency": 2, "empathy": 2}
WITHOUT = ("same_answer",)
PAIR_QUESTIONS = ["quality", "fluency", "relatedness", "empathy"]


@pytest.fixture
def rated() -> Study:
    """Return a study that four people rated, the first of them all alike."""
    study = make_study("rated")
    for number, answers in enumerate([ALIKE, *({"quality": 5 + n, "empathy": 3} for n in range(3))]):
        chat = make_conversation(study, n_exchanges=3)
        make_rating(chat, **answers)
        if not number:
            Conversation.objects.filter(pk=chat.pk).update(external_id="alike")
    return study


def alike(study: Study) -> Participant:
    return Participant.objects.get(conversations__external_id="alike", study=study)


def test_flags_are_found_once_and_again_when_the_data_change(rated: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    state = refresh_flags(rated).state
    [flag] = TaskFlag.objects.all()
    assert (flag.name, flag.participant) == ("same_answer", alike(rated))
    assert (state.n_tasks, state.n_people) == (4, 4)
    assert state.get_kind_results("same_answer")["n"] == 1
    assert state.get_kind_results("fast")["why_none"] == "few"
    assert state.found["durations"]["n"] == 4
    assert state.found["checks"] == {"kinds": {}, "own": {}, "people": [], "n_people": 0}
    with CaptureQueriesContext(connection) as queries:
        assert refresh_flags(rated).state == state
    assert len(queries) == 2, "nothing is looked for again"
    monkeypatch.setattr(flags_module, "DIRECT_TASKS", 2)
    make_rating(make_conversation(rated, n_exchanges=3), **ALIKE)
    FlagState.objects.update(made_at="2020-01-01T00:00Z")
    now = refresh_flags(rated)
    assert not now.is_current
    assert now.job is not None
    assert refresh_flags(rated).job == now.job, "one job, whoever asks"
    assert TaskFlag.objects.count() == 1
    run_job(now.job)
    assert TaskFlag.objects.count() == 2
    assert refresh_flags(rated).is_current
    assert Job.objects.filter(kind="flags").count() == 1


def test_erasing_somebody_lets_flags_be_found_anew(rated: Study, django_capture_on_commit_callbacks: Any) -> None:
    flags_make(study=rated)
    with django_capture_on_commit_callbacks(execute=True):
        removed = participants_erase(participants=Participant.objects.filter(pk=alike(rated).pk))
    assert removed["flags"] == 1
    assert not FlagState.objects.exists()
    state = refresh_flags(rated).state
    assert state.get_kind_results("same_answer")["n"] == 0


def test_whoever_has_a_flag_is_left_out_of_all_results_alike(rated: Study, client: Client, tmp_path: Path) -> None:
    client.force_login(make_staff(Right.READ, Right.PAY))
    flags_make(study=rated)
    everybody, fewer = study_ratings(rated), study_ratings(rated, without=WITHOUT)
    assert (len(everybody), len(fewer)) == (4, 3)
    assert str(alike(rated).pk) in set(everybody.rater) - set(fewer.rater)
    assert left_out_counts(rated, WITHOUT).n_left_out == 1

    def printed(command: str, *arguments: str) -> Any:
        out = StringIO()
        call_command(command, "--study", "rated", *arguments, "--json", stdout=out)
        return json.loads(out.getvalue())

    assert printed("report", "--without", "same_answer")["raters"]["screening"]["n_raters"] == 3
    assert printed("report")["raters"]["screening"]["n_raters"] == 4

    def lines(what: str, *without: str) -> int:
        file = tmp_path / "table.jsonl"
        options = [] if not without else ["--without", ",".join(without)]
        call_command(
            "export",
            "--study",
            "rated",
            "--what",
            what,
            "--format",
            "jsonl",
            "--output",
            str(file),
            *options,
            stdout=StringIO(),
        )
        return len(file.read_text().splitlines())

    for what, n in (("ratings", 4), ("conversations", 4), ("participants", 4), ("messages", 24)):
        assert lines(what) == n
        assert lines(what, "same_answer") == n * 3 // 4
    assert lines("pay", "same_answer") == 4, "everybody is to be paid"
    lines("conversations")
    read = confab.read(tmp_path / "table.jsonl")
    assert read.flags == {"same_answer": 1}
    assert len(read.where(without="same_answer").ratings) == 3
    assert len(read.where(without=["fast"]).ratings) == 4
    assert (
        client.get(
            reverse("dashboard:study_export", args=["rated"]), {"what": "ratings", "format": "csv", "without": "fats"}
        ).status_code
        == 404
    )


def test_pages_say_who_is_left_out_and_put_them_in(rated: Study, client: Client) -> None:
    client.force_login(make_staff(Right.READ))
    flags_make(study=rated)
    for name in ("results", "why", "report", "conversations"):
        address = reverse(f"dashboard:study_{name}", args=["rated"])
        html = client.get(address, {"without": "same_answer"}).content.decode()
        assert "1 of 4 people are excluded: Identical answers (1)." in html
        assert 'href="?">Include them' in html
        assert "without=same_answer" in html, "the choice goes from page to page"
        assert "All participants are included." in client.get(address).content.decode()
    listed = reverse("dashboard:study_conversations", args=["rated"])
    assert client.get(listed, {"without": "same_answer"}).context["page"].total == 3
    assert client.get(listed, {"without": "none"}).status_code == 404
    assert AnalysisKey(rated, "raters", without=WITHOUT).state != AnalysisKey(rated, "raters").state


def test_flags_are_explained_in_a_constant_number_of_queries(rated: Study, client: Client) -> None:
    client.force_login(make_staff(Right.READ))
    address = reverse("dashboard:study_people", args=["rated"])

    def shown(**query: str) -> tuple[str, int]:
        client.get(address)
        with CaptureQueriesContext(connection) as queries:
            html = client.get(address, {"show": "flagged", **query}).content.decode()
        return html, len(queries)

    html, n = shown()
    assert "5 times 2. 25 % of tasks have this flag." in html
    assert "This check needs ten finished tasks to know the usual time." in html
    assert html.count('class="person-id"') == html.count(alike(rated).pk.hex[:4] + "…") == 1
    assert "No participant matches this filter." in shown(flag="short")[0]
    for _ in range(3):
        make_rating(make_conversation(rated, n_exchanges=3), **ALIKE)
    assert shown()[1] == n
    make_study("empty")
    html = client.get(reverse("dashboard:study_people", args=["empty"])).content.decode()
    assert "No flags yet." in html


def test_alike_means_as_given_by_side_and_without_checks(rated: Study) -> None:
    Dimension.objects.filter(rubric=rated.rubric, key="empathy").update(reversed=True)
    state = flags_make(study=rated)
    assert state.get_kind_results("same_answer")["n"] == 1, "the same number to a turned question is no other answer"
    assert TaskFlag.objects.get().figures == {"n": 5, "answer": 2, "reversed": 1}

    study = make_pairwise(n_items=8)
    task = task_open(participant=make_participant(study))
    asked = requested_ratings(task)
    assert {one.slots[0].is_flipped for one in asked} == {True, False}
    for judgement in asked:
        left = -1 if judgement.slots[0].is_flipped else 1
        rating_add(task=task, target=judgement.target, answers=dict.fromkeys(PAIR_QUESTIONS, left))
    Task.objects.filter(pk=task.pk).update(outcome="rated", ended_at=timezone.now())
    flags_make(study=study)
    [flag] = TaskFlag.objects.filter(task=task, name="same_answer")
    assert (flag.figures["n"], flag.figures["answer"]) == (8, 1), "always the left side"


def test_known_answers_and_items_shown_twice_have_flags_of_their_own() -> None:
    study = make_annotated(n_gold=1, n_repeated=1, gold_misses_allowed=1)
    item_add(study=study, key="known", context=["hi"], responses=[{"model": "a", "text": "well said"}])
    gold_store(item=study.items.get(key="known"), expected={"quality": [7]})
    for known, again in ((7, 6), (1, 1)):
        task = task_open(participant=make_participant(study))
        for judgement in requested_ratings(task):
            item = judgement.slots[0].item
            value = {Item.Purpose.GOLD: known, Item.Purpose.REPEAT: again}.get(Item.Purpose(item.purpose), 5)
            answers = dict.fromkeys(study.rubric.dimensions.values_list("key", flat=True), value)
            rating_add(task=task, target=item, answers=answers)
    state = flags_make(study=study)
    flags = {
        (flag.name, flag.task_id): flag_kinds.get(flag.name).explain(flag.figures, {})
        for flag in TaskFlag.objects.exclude(name="same_answer")
    }
    n = study.rubric.dimensions.count()
    assert flags == {
        ("missed_gold", task.pk): "1 of 1 items with a known answer were answered differently.",
        (
            "inconsistent",
            task.pk,
        ): f"{n} questions were answered twice; the two answers differ by 67 % of the scale on average.",
    }
    assert state.get_kind_results("missed_gold")["of"] == state.get_kind_results("inconsistent")["of"] == 2


def test_a_fit_of_the_hybrid_metric_leaves_people_out_too(rated: Study) -> None:
    run_job(metric_run_create(study=rated, metrics=["words"], enqueue=False))
    refresh_flags(rated)
    params: dict[str, Any] = {"targets": ["quality"], "features": ["words_user"], "enqueue": False}
    everybody = fit_create(study=rated, **params)
    fewer = fit_create(study=rated, **params, excluded_flags=WITHOUT)
    assert "without" not in everybody.request
    for fit, n in ((everybody, 4), (fewer, 3)):
        tables = FitTables(fit, ["words_user"])
        table, ratings = tables.rated(rated)
        assert (len(table), len(ratings)) == (n, n)
    HybridFit.objects.filter(pk=fewer.pk).update(state="done", result={"bots": {}})
    assert fit_leading(rated) is None
    assert fit_leading(rated, WITHOUT) == fewer
    assert fits_newest(rated, WITHOUT) == [fewer]
    assert fit_leading(rated, ("fast", *WITHOUT)) is None
    client = signed_in(Right.READ, Right.RUN)
    address = reverse("dashboard:study_prediction", args=[rated.key])
    HybridFit.objects.update(state="cancelled", result=None)
    page = client.get(address, {"without": "same_answer"}).content.decode()
    assert "1 of 4 people are excluded" in page
    assert "No fit without these participants yet" in page
    sent = {"targets": ["quality"], "preset": "paper", "intercept": "common"}
    response = client.post(f"{address}?without=same_answer", sent)
    assert response.headers["Location"] == f"{address}?without=same_answer"
    newest = HybridFit.objects.order_by("-pk")[0]
    assert newest.request["without"] == ["same_answer"]
    package = reverse("dashboard:study_package", args=[rated.key])
    shown = signed_in(Right.READ, Right.PAY, username="pays")
    text = shown.get(package, {"without": "same_answer"}, follow=True).content.decode()
    assert "rated.zip --without same_answer" in text


COUNTED = KeystrokeCounts(keystrokes=3, pastes=1, deletions=0, ms=900)


def written(study: Study) -> Conversation:
    """Make a rated chat of three messages, of which two were pasted."""
    chat = make_conversation(study)
    for number in range(3):
        text = f"Message {number}, with which somebody fills in more than sixty characters."
        exchange(chat, text, "I see.")
    return chat


@pytest.mark.parametrize(
    ("fields", "n_stored"), [({"counts_typing": True}, 1), ({}, 0), ({"counts_typing": True, "typing_notice": " "}, 0)]
)
def test_typing_is_stored_only_where_people_agreed_to_it(fields: dict[str, object], n_stored: int) -> None:
    study = make_study(**fields)
    chat = make_conversation(study)
    turn_add_human(conversation_id=chat.pk, client_id=uuid.uuid4(), text="Hello", typed=COUNTED)
    assert Typing.objects.count() == n_stored
    page = Client().get(f"/s/{study.key}/").content.decode()
    assert page.count("We never store which keys.") == n_stored
    typing_notice = consent_texts(study.values)["typing_notice"]
    assert ("We never store" in typing_notice) is bool(n_stored)


def test_frames_may_carry_it_and_need_not() -> None:
    sent = f'{{"type": "message", "client_id": "{uuid.uuid4()}", "text": "Hello"'
    plain = frame_parse(sent + "}")
    assert isinstance(plain, MessageFrame)
    assert plain.typing is None
    counted = frame_parse(sent + ', "typing": {"keystrokes": 3, "pastes": 1, "deletions": 0, "ms": 900}}')
    assert isinstance(counted, MessageFrame)
    assert counted.typing == COUNTED


def test_pasted_messages_are_flagged_by_it() -> None:
    study = make_study(counts_typing=True)
    chat = written(study)
    for turn in chat.turns.filter(speaker="human"):
        Typing.objects.create(turn=turn, **COUNTED.model_dump())
    make_rating(chat, quality=1)
    written(study)  # goes on
    state = flags_make(study=study)
    assert set(TaskFlag.objects.values_list("name", flat=True)) == {"pasted", "machine", "machine_score"}
    assert state.get_kind_results("machine")["of"] == 1
    kind = flag_kinds.get("pasted")
    flag = TaskFlag.objects.get(name="pasted")
    assert kind.explain(flag.figures, {}) == "3 of 3 messages were pasted."


def test_of_an_arena_what_was_written_to_both_counts_once() -> None:
    study = make_arena(counts_typing=True, n_comparisons=1)
    task = task_open(participant=make_participant(study))
    task_chats(task=task)
    first, second = Conversation.objects.order_by("slot__order")
    for number in range(3):
        text = f"Message {number}, with which somebody fills in more than sixty characters."
        for chat in (first, second):
            turn_add_human(conversation_id=chat.pk, client_id=uuid.uuid4(), text=text, typed=COUNTED)
            answer(chat, "I see.")
    slots = (first.slot, second.slot)
    assert comparison_submit(task=task, slots=slots, choice="a").task.outcome == "rated"
    flags_make(study=study)
    figures = dict(TaskFlag.objects.values_list("name", "figures"))
    assert figures["pasted"] == {"pasted": 3, "copied": 0, "messages": 3}
    assert figures["machine"]["long"] == 3


def test_of_an_arena_what_repeats_either_reply_is_copied() -> None:
    study = make_arena(n_comparisons=1)
    task = task_open(participant=make_participant(study))
    task_chats(task=task)
    first, second = Conversation.objects.order_by("slot__order")
    ours, theirs = "Well, that is a long story to tell.", "I went to the sea with my brother."
    for text in ("Hello you two, how was your week so far?", theirs, ours, "Good bye to both of you"):
        exchange(first, text, ours)
        exchange(second, text, theirs)
    assert comparison_submit(task=task, slots=(first.slot, second.slot), choice="b").created
    flags_make(study=study)
    flag = TaskFlag.objects.get(name="pasted")
    assert flag.figures == {"pasted": 0, "copied": 2, "messages": 4}


def test_raters_with_inaccurate_labels_are_flagged_listed_and_left_out_on_request() -> None:
    study = make_annotated("labels", n_items=100)
    Dimension.objects.filter(rubric=study.version.rubric, key="quality").update(low=0, high=1)
    people = make_participants(study, 6)
    now = timezone.now()
    tasks = Task.objects.bulk_create(
        Task(
            participant=person,
            version=study.version,
            kind="annotate",
            state=Task.State.COMPLETED,
            outcome="rated",
            completion_code=f"code{number}",
            ended_at=now,
        )
        for number, person in enumerate(people)
    )
    rng = np.random.default_rng(0)
    Rating.objects.bulk_create(
        Rating(
            task=task,
            participant=task.participant,
            item=item,
            rubric=study.version.rubric,
            answers={"quality": int((number % 2) ^ (rng.random() < (0.5 if task is tasks[0] else 0.05)))},
            submitted_at=now,
        )
        for task in tasks
        for number, item in enumerate(study.items.order_by("pk"))
    )
    state = flags_make(study=study)
    [flag] = TaskFlag.objects.filter(name="inaccurate_labels")
    assert (flag.participant, state.get_kind_results("inaccurate_labels")["of"]) == (people[0], 6)
    explained = flag_kinds.get("inaccurate_labels").explain(flag.figures, {})
    assert explained.startswith("Accuracy of 100 labels of “quality”: .5")
    reader = signed_in(Right.READ)
    address = reverse("dashboard:study_why", args=[study.key])
    reader.get(address, {"part": "raters"})
    run_job(Job.objects.get(payload__part="raters"))
    page = reader.get(address, {"part": "raters"}).content.decode()
    assert "1 of 6 raters gave inaccurate labels. No result excludes them." in " ".join(page.split())
    assert reverse("dashboard:study_person", args=[study.key, people[0].pk]) in page
    assert len(study_ratings(study)) == 600
    assert len(study_ratings(study, without=("inaccurate_labels",))) == 500


def test_detection_is_of_rehearsals_and_false_alarms_of_participants_decided_to_be_people() -> None:
    study = make_study("signals", counts_typing=True)
    for is_synthetic in (True, False):
        chat = make_conversation(study, is_synthetic=is_synthetic)
        for number in range(3):
            exchange(chat, f"Message {number}, which is like that of nobody else.", "I see.")
        make_rating(chat, quality=1)
    [person] = Participant.objects.filter(is_synthetic=False)
    admin = signed_in(Right.READ, Right.ADMINISTER)
    people, origin = (
        reverse(f"dashboard:study_{name}", args=[study.key, *ids])
        for name, ids in (("people", []), ("person_origin", [person.pk]))
    )

    def cells() -> dict[str, list[str]]:
        table = BeautifulSoup(admin.get(people).content, "html.parser").find(
            "caption", string=re.compile("Signals of programs")
        )
        rows = table.find_parent("table").select("tbody tr")
        return {next(row.th.stripped_strings): [cell.get_text(strip=True) for cell in row.select("td")] for row in rows}

    before = cells()
    assert before["Identical messages"][:2] == ["0 of 1 [.00, .73]", "not known"], "a script is no sign of a program"
    assert before["Typing speed"][:3] == ["not known"] * 3
    assert before["No typing counts"][:3] == ["1 of 1 [.27, 1.00]", "1 of 1 [.27, 1.00]", "not known"]
    [flag] = TaskFlag.objects.filter(name="machine_score")
    assert flag.figures == {"signals": {"identical": [0, 3], "uncounted": [3, 3]}}
    admin.post(origin, {"verdict": "human"})
    assert cells()["No typing counts"][2] == "1 of 1 [.27, 1.00]"
    page = admin.get(reverse("dashboard:study_person", args=[study.key, person.pk])).content.decode()
    assert "3 of 3 messages came without the typing counts of the page" in page
    assert "that this participant is a person." in " ".join(page.split())
    assert admin.post(origin, {"verdict": "x" * 99}, follow=True).status_code == 200
    assert OriginMark.objects.get().is_human
    admin.post(origin, {"verdict": "none"})
    assert cells()["No typing counts"][2] == "not known"
    assert signed_in(Right.READ, username="reads").post(origin, {"verdict": "human"}).status_code == 403
    assert not OriginMark.objects.exists()
    admin.post(origin, {"verdict": "machine"})
    assert participants_erase(participants=Participant.objects.filter(pk=person.pk))["origin_marks"] == 1


@pytest.mark.parametrize(
    ("fields", "stored"), [({"counts_focus": True}, 2), ({}, None), ({"counts_focus": True, "focus_notice": " "}, None)]
)
def test_leaving_the_page_is_stored_only_with_a_consent_point_of_its_own(
    fields: dict[str, object], stored: int | None
) -> None:
    study = make_study(counts_typing=True, **fields)
    chat = make_conversation(study)
    left = COUNTED.model_copy(update={"focus_losses": 2})
    turn_add_human(conversation_id=chat.pk, client_id=uuid.uuid4(), text="Hello", typed=left)
    assert Typing.objects.get().focus_losses == stored
    assert ("We never see where you go." in consent_texts(study.values)["typing_notice"]) is (stored is not None)


@pytest.mark.parametrize("losses", [-1, 10_000_001, "2", 1.5])
def test_wrong_counts_of_leaving_the_page_are_refused(losses: object) -> None:
    typing = json.dumps({"keystrokes": 3, "pastes": 1, "deletions": 0, "ms": 900, "focus_losses": losses})
    sent = f'{{"type": "message", "client_id": "{uuid.uuid4()}", "text": "Hello", "typing": {typing}}}'
    with pytest.raises(Refused, match=r"."):
        frame_parse(sent)
