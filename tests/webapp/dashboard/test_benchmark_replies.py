"""Single replies of a benchmark: the order of disagreements, one reply with all its scores, and explanations."""

import json
import re

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from evaluation.agreement.reply_scores import score_replies
from tests.builders import make_conversation, make_rating, make_staff, make_study
from tests.markup import flat
from tests.webapp.dashboard.test_benchmark import ADDRESS, judged, post
from webapp.conversations.services import vote_set
from webapp.core.rights import Right
from webapp.jobs.engine import run_job
from webapp.jobs.models import Job, State
from webapp.results.benchmark import benchmark_ask, benchmark_folder

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("api_afresh")]


@pytest.fixture
def staff(client: Client) -> Client:
    client.force_login(make_staff(Right.READ, Right.RUN))
    return client


def done(kind: str = "benchmark") -> Job:
    job = Job.objects.filter(kind=kind).latest("pk")
    run_job(job)
    job.refresh_from_db()
    assert job.state == State.DONE, job.error
    return job


def listed(staff: Client, job: Job, query: str) -> str:
    response = staff.get(f"{ADDRESS}replies/{job.pk}/?{query}")
    assert response.status_code == 200
    return flat(response.content.decode())


def test_replies_are_listed_by_disagreement_within_their_data_set(staff: Client) -> None:
    post(staff, judged())
    job = done()
    [file] = benchmark_folder().iterdir()
    scores = score_replies(file, ["words_bot"], target="good")
    expected = [row for row in scores.disagreements("words_bot") if scores.items[row.index].source == "set 0"]
    html = listed(staff, job, "metric=words_bot&target=good&source=set 0")
    numbers = [int(n) for n in re.findall(rf"/replies/{job.pk}/(\d+)/\?metric=words_bot", html)]
    assert numbers == [row.index for row in expected]
    assert f"{round(abs(expected[0].difference))} positions" in html
    assert "For half of the 12 replies, " in html
    of_x = listed(staff, job, "metric=words_bot&target=good&source=set 0&model=x")
    kept = [int(n) for n in re.findall(rf"/replies/{job.pk}/(\d+)/\?metric", of_x)]
    assert kept == [row.index for row in expected if scores.items[row.index].model == "x"]
    above = listed(staff, job, "metric=words_bot&target=good&source=set 0&side=above")
    kept = [int(n) for n in re.findall(rf"/replies/{job.pk}/(\d+)/\?metric", above)]
    assert kept == [row.index for row in expected if row.difference > 0]
    assert "No reply matches" in listed(staff, job, "metric=words_bot&target=good&source=set 0&model=z")
    cell = staff.get(f"{ADDRESS}{job.pk}/words_bot/?target=good&source=set 0").content.decode()
    assert "Show where they disagree" in cell


def test_a_reply_has_the_positions_of_the_list_though_others_have_no_score(staff: Client) -> None:
    rows = [json.loads(line) for line in judged().splitlines()]
    for row in rows[1::4]:
        row["reference"] = None
    post(staff, "".join(json.dumps(row) + "\n" for row in rows).encode())
    job = done()
    query = "target=good&source=set 1"
    case = staff.get(f"{ADDRESS}replies/{job.pk}/?metric=rouge_l&{query}").context["replies"].cases[0]
    page = staff.get(f"{ADDRESS}replies/{job.pk}/{case.number}/?{query}")
    [cells] = [row for row in page.context["reply"].tables[0].table.rows if row[0].text == "ROUGE-L"]
    assert [cell.raw[0] for cell in cells[3:]] == [
        case.row.metric_position,
        case.row.difference,
        case.row.human_position,
    ]


def test_missing_scores_are_counted_with_their_reason(staff: Client) -> None:
    rows = [json.loads(line) for line in judged().splitlines()]
    rows[1]["reference"] = None
    post(staff, "".join(json.dumps(row) + "\n" for row in rows).encode())
    job = done()
    assert "1 reply without a score: there is no reference." in listed(
        staff, job, "metric=rouge_l&target=good&source=set 1"
    )
    html = flat(staff.get(f"{ADDRESS}replies/{job.pk}/1/?target=good&source=set 1").content.decode())
    assert "there is no reference" in html


def test_one_reply_has_its_context_ratings_and_all_metrics(staff: Client) -> None:
    post(staff, judged())
    job = done()
    html = flat(staff.get(f"{ADDRESS}replies/{job.pk}/7/?target=good&source=set 1&metric=rouge_l").content.decode())
    for text in ("context 1", "word or so", "Reference", "so it is", "ROUGE-L", "Words in the reply", "Rater 1"):
        assert text in html, text
    assert "On people’s scale (1 to 5)" in html
    assert re.search(r"it places the reply at \d+ of 100, people at \d+", html)
    assert staff.get(f"{ADDRESS}replies/{job.pk}/24/").status_code == 404
    assert staff.get(f"{ADDRESS}replies/{job.pk}/1/?source=set 7").status_code == 404
    next(iter(benchmark_folder().iterdir())).unlink()
    assert "This reply no longer exists" in staff.get(f"{ADDRESS}replies/{job.pk}/7/").content.decode()
    assert "no longer exists in the data" in listed(staff, job, "target=good&source=set 1")


def test_a_worker_explains_the_scores_of_a_reply(staff: Client) -> None:
    post(staff, judged(), "mine.jsonl", "entailment_lite", "grade_lite", "pone_lite", "words_bot")
    job = done()
    here = f"{ADDRESS}replies/{job.pk}/3/?target=good&source=set 1"
    assert "Explain the scores" in staff.get(here).content.decode()
    assert staff.post(here).status_code == 302
    assert staff.post(here).status_code == 302
    assert Job.objects.filter(kind="explanation").count() == 1, "asked once"
    assert "data-live" in staff.get(here).content.decode()
    explained = done("explanation")
    html = flat(staff.get(here).content.decode())
    assert "Class for each premise" in html
    assert "Utterance −1" in html
    assert "Most similar replies of the data set" in html
    assert "Hops to the nearest keyword of the other side" in html
    assert "Explain the scores" not in html
    assert [row["metric"] for row in explained.result] == ["entailment_lite", "grade_lite", "pone_lite"]


def test_a_reply_of_a_chat_opens_its_conversation_and_goes_with_its_participant(staff: Client) -> None:
    study = make_study("talk")
    chat = make_conversation(study, n_exchanges=3)
    for turn, vote in ((1, 1), (3, -1), (5, 1)):
        vote_set(conversation_id=chat.pk, turn_index=turn, value=vote)
    make_rating(chat)
    benchmark_ask(study=study, metrics=["words_bot"])
    job = done()
    html = staff.get(f"{ADDRESS}replies/{job.pk}/1/").content.decode()
    assert f"/dashboard/conversations/{chat.pk}/?turn=3" in html
    staff.post(f"{ADDRESS}replies/{job.pk}/1/")
    assert "can explain its score of this reply" in (
        done("explanation") and staff.get(f"{ADDRESS}replies/{job.pk}/1/").content.decode()
    )
    from webapp.results.apps import _forget_results

    _forget_results([study.pk])
    assert not Job.objects.filter(kind="explanation").exists()


def test_a_comparison_of_an_earlier_version_can_be_repeated(staff: Client) -> None:
    post(staff, judged())
    job = done()
    del job.result["replies"]
    job.key = "earlier"
    job.save()
    assert "The replies were not stored" in listed(staff, job, "target=good&source=set 1")
    staff.post(f"{ADDRESS}{job.pk}/again/")
    assert "of 100 positions apart" in listed(staff, done(), "target=good&source=set 1")


def test_only_those_who_may_run_jobs_ask_for_explanations(client: Client, staff: Client) -> None:
    post(staff, judged())
    job = done()
    reader = Client()
    reader.force_login(make_staff(Right.READ, username="reader"))
    here = f"{ADDRESS}replies/{job.pk}/3/?target=good&source=set 1"
    assert "You need the right to run jobs" in reader.get(here).content.decode()
    assert reader.post(here).status_code == 403


def test_a_page_of_many_replies_has_neighbours(staff: Client) -> None:
    content = judged(120)
    staff.post(ADDRESS, {"file": SimpleUploadedFile("many.jsonl", content), "metrics": ["words_bot"]})
    job = done()
    query = "metric=words_bot&target=good&source=set 0"
    assert 'rel="next"' in listed(staff, job, query)
    last = listed(staff, job, f"{query}&page=99")
    assert "Page 3 of 3, 60 replies" in last
    assert '<ol class="reply-cases" start="51">' in last
