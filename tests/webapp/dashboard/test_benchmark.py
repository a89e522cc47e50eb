"""The benchmark's page: what a worker computed of a study and of a file, in every state, and the plot of a cell."""

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import call_command
from django.test import Client

from evaluation.agreement.metric_agreement import judge
from tests.builders import make_conversation, make_participant, make_rating, make_staff, make_study
from tests.markup import flat
from webapp.conversations.services import vote_set
from webapp.core.rights import Right
from webapp.dashboard.render import table_latex, table_markdown
from webapp.insights.benchmark_grid import grid_of
from webapp.insights.benchmark_tables import systems_table
from webapp.jobs.engine import run_job
from webapp.jobs.models import Job, State
from webapp.jobs.services.jobs import jobs_forget
from webapp.ratings.services import rating_add
from webapp.results.benchmark import benchmark_ask, benchmark_folder
from webapp.studies.items import item_add
from webapp.studies.models import Study
from webapp.studies.services import task_open
from webapp.studies.versions import study_edit

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("api_afresh")]
ADDRESS = "/dashboard/benchmark/"


@pytest.fixture
def staff(client: Client) -> Client:
    client.force_login(make_staff(Right.READ, Right.RUN))
    return client


def judged(n: int = 24) -> bytes:
    """Write a file of two sources: long replies are good in one of them but for one, and beside a reference."""
    rows = [
        {
            "id": k,
            "source": f"set {k % 2}",
            "model": "xy"[k // 2 % 2],
            "context": [f"context {k // 4}"],
            "response": " ".join(["word", "or", "so", "it", "is"][: 1 + k % 5]),
            "reference": "so it is" if k % 2 else None,
            "ratings": [{"good": 1 + (k % 5 if k % 2 and k != 7 else k * 7 % 5), "fluent": 1 + k % 3}],
            "scale": [1, 5],
        }
        for k in range(n)
    ]
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def post(staff: Client, content: bytes, name: str = "mine.jsonl", *metrics: str) -> Any:
    return staff.post(
        ADDRESS, {"file": SimpleUploadedFile(name, content), "metrics": metrics or ["rouge_l", "words_bot"]}
    )


def test_a_file_is_compared_by_a_worker_and_shown_with_intervals_and_reasons(staff: Client) -> None:
    assert "Nothing has been compared yet" in staff.get(ADDRESS).content.decode()
    assert post(staff, judged()).status_code == 302
    assert post(staff, judged()).status_code == 302
    [job] = Job.objects.filter(kind="benchmark")  # the same data and versions: the same job
    assert "data-live" in staff.get(ADDRESS).content.decode(), "its progress is shown"
    run_job(job)
    job.refresh_from_db()
    assert job.state == State.DONE, job.error
    [file] = benchmark_folder().iterdir()
    expected = judge(file, ["words_bot"], target="good")["words_bot"].to_json()
    html = staff.get(f"{ADDRESS}?target=good&by=pearson").content.decode()
    pearson = expected["sources"]["set 1"]["pearson"]
    assert f"<b>{pearson['r']:.2f}".replace("0.", ".") in html
    assert "no reference" in html, "of the source without one"
    rows = re.findall(r'<th scope="row">([^<]+)<', html.partition("<tfoot>")[0])
    assert rows[-1] == "Words in the reply"
    assert 'class="bench-baseline"' in html
    heads = html.partition("<tbody>")[0].count('<th scope="col">')
    assert heads == 5, "the metric, two data sets, the held-out median, the mean rank"
    table = list(
        csv.DictReader(io.StringIO(staff.get(f"{ADDRESS}benchmark.csv?target=good&by=pearson").content.decode()))
    )
    mine = next(row for row in table if row["Metric"] == rows[-1] and row["Data"] == "set 1")
    assert float(mine["r"]) == pytest.approx(pearson["r"])
    assert float(mine["95 % low"]) == pytest.approx(pearson["ci95"][0])
    whole = expected["sources"]["set 1"]
    assert (int(mine["Contexts"]), int(mine["Different replies"])) == (whole["n_contexts"], whole["n_responses"])
    [of_model] = [
        row for row in table if (row["Metric"], row["Data"], row["Dialogue model"]) == (rows[-1], "set 1", "y")
    ]
    assert float(of_model["r"]) == pytest.approx(whole["models"]["y"]["pearson"]["r"])
    assert int(of_model["n"]) == whole["models"]["y"]["n"]
    assert "not rated on this dimension" in staff.get(f"{ADDRESS}?target=kind").content.decode()


def test_a_cell_draws_its_replies_and_counts_what_was_left_out(staff: Client) -> None:
    post(staff, judged())
    job = Job.objects.get(kind="benchmark")
    run_job(job)
    here = f"{ADDRESS}{job.pk}/rouge_l/?source=set 1&target=good"
    html = staff.get(here).content.decode()
    assert html.count('class="item-point"') == 2 * 12, "wide and narrow"
    assert "By dialogue model" in html
    assert html.count("Mean good") == 1, "the plot's table, by fifths of the scores"
    html = staff.get(f"{ADDRESS}{job.pk}/rouge_l/?source=set 0&target=good").content.decode()
    assert "12 × there is no reference" in html
    assert staff.get(f"{ADDRESS}{job.pk}/rouge_l/?source=set 7").status_code == 404
    assert staff.get(f"{ADDRESS}{job.pk}/bleu/?source=set 1").status_code == 404


def test_benchmarks_fill_the_layout_of_a_paper_on_the_page_and_in_a_file(staff: Client, tmp_path: Path) -> None:
    post(staff, judged())
    run_job(Job.objects.get(kind="benchmark"))
    assert f"{ADDRESS}papers/grade2020/" in staff.get(f"{ADDRESS}published/").content.decode()
    html = flat(staff.get(f"{ADDRESS}papers/grade2020/").content.decode())
    assert "Correlations on three data sets: set 1" in html
    assert "2 data sets" not in html, "one file, with two sources"
    assert "1 data set with 24 rated replies" in html
    assert html.count("not computed here") <= html.count("<table"), "once for each table"
    output = tmp_path / "grade.html"
    call_command("report", "--like", "grade2020", "--output", str(output), stdout=io.StringIO())
    assert "Correlations on three data sets: set 1" in flat(output.read_text())
    sent = staff.get(f"{ADDRESS}papers/grade2020/?file")
    assert 'filename="grade2020.html"' in sent["Content-Disposition"]
    assert staff.get(f"{ADDRESS}papers/gp2020/").status_code == 404


def test_a_layout_without_data_is_empty_and_a_deleted_file_is_named(staff: Client) -> None:
    html = flat(staff.get(f"{ADDRESS}papers/rade2023/").content.decode())
    assert "No data set has been compared yet" in html
    post(staff, judged())
    run_job(Job.objects.get(kind="benchmark"))
    for path in benchmark_folder().iterdir():
        path.unlink()
    html = flat(staff.get(f"{ADDRESS}papers/rade2023/").content.decode())
    assert "mine.jsonl: statistics of its replies are missing" in html


def test_a_study_is_computed_anew_when_its_people_said_more_and_forgotten_with_them(staff: Client) -> None:
    study = make_study("talk")
    chats = [make_conversation(study, n_exchanges=3) for _ in range(2)]
    for number, chat in enumerate(chats):
        for turn in (1, 3):
            vote_set(conversation_id=chat.pk, turn_index=turn, value=1 if number else -1)
        make_rating(chat)
    first = benchmark_ask(study=study, metrics=["words_bot"])
    run_job(first)
    assert benchmark_ask(study=study, metrics=["words_bot"]) == first
    html = flat(staff.get(ADDRESS).content.decode())
    assert ">n 4 · vote<" in html
    assert "one side is constant" in html or "the same" in html
    assert "Ratings have been added or changed" not in html
    chats[0].turns.filter(index=3).update(vote=1)
    html = staff.get(ADDRESS).content.decode()
    assert "Ratings have been added or changed" in html
    assert "These metrics have changed" not in html
    first.refresh_from_db()
    first.result["metrics"][0]["identity"] = "an earlier one"
    first.save()
    assert "These metrics have changed since then: Words in the reply" in staff.get(ADDRESS).content.decode()
    staff.post(f"{ADDRESS}{first.pk}/again/")
    again = Job.objects.exclude(pk=first.pk).get()
    run_job(again)
    assert "Compute again" not in staff.get(ADDRESS).content.decode()
    assert benchmark_ask(study=study, metrics=["words_bot"]) != first
    jobs_forget(["benchmark"], [study.pk])
    assert not Job.objects.filter(kind="benchmark", state=State.DONE).exists()


def test_published_figures_stand_beside_ours_of_the_same_set_and_dimension(staff: Client) -> None:
    content = judged().replace(b"set 1", b"grade/convai2").replace(b"good", b"coherence")
    post(staff, content, "mine.jsonl", "rouge_l", "words_bot")
    run_job(Job.objects.get(kind="benchmark"))
    html = flat(staff.get(f"{ADDRESS}?target=coherence").content.decode())
    assert html.count("<span>published .14</span>") == 1, "ROUGE-L of the survey on ConvAI2"
    assert "12 of 600 replies are included." in html
    assert "the tiny test checkpoint" in html
    assert "Upper limit for metrics" in html
    assert "<span>published" not in staff.get(f"{ADDRESS}?target=fluent").content.decode()
    [job] = Job.objects.filter(kind="benchmark")
    cell = staff.get(f"{ADDRESS}{job.pk}/rouge_l/?source=grade/convai2&target=coherence")
    assert "dialogGPT" in cell.content.decode(), "its table by dialogue model"
    everything = staff.get(f"{ADDRESS}published/").content.decode()
    assert "best of three raters" in everything
    assert ".86 [.84, .88]" in everything, "RADE on its empathetic set, with an interval"


def of_systems(n_contexts: int = 12) -> bytes:
    """Write a file of five systems on a held-out set and three on GRADE's: who takes up words is better."""
    words = ["town", "bread", "sister", "walk", "river", "song", "train", "garden"]
    rows = [
        {
            "id": f"{source}-{k}-{model}",
            "source": source,
            "model": model,
            "context": [f"I like the {words[k % 8]} and the {words[(k + 3) % 8]} number {k}."],
            "response": ["Yes.", "A walk is fine.", f"The {words[k % 8]} is fine.", f"I like the {words[k % 8]} too."][
                min(number, 3)
            ]
            + " So" * (k % 3),
            "ratings": [{"good": 1 + number - (k % 5 == number % 5)}],
            "scale": [0, 6],
        }
        for source, models in (("mine", "abcde"), ("grade/convai2", "xyz"))
        for k in range(n_contexts)
        for number, model in enumerate(models)
    ]
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def test_systems_are_ordered_and_tested_against_the_cosine(staff: Client) -> None:
    post(staff, of_systems(), "mine.jsonl", "semantic_similarity", "grade_lite", "words_bot")
    run_job(job := Job.objects.get(kind="benchmark"))
    job.refresh_from_db()
    assert job.state == State.DONE, job.error
    assert job.result["system_bar"] == "semantic_similarity"
    [file] = benchmark_folder().iterdir()
    grade_lite = judge(file, ["grade_lite"], target="good", against="semantic_similarity")["grade_lite"]
    expected = grade_lite.to_json()["sources"]["mine"]
    assert expected["system_test"]["n_systems"] == 5
    response = staff.get(f"{ADDRESS}?by=kendall")
    html = flat(response.content.decode())
    assert response.status_code == 200
    assert "System ranking by metric" in html
    table = staff.get(f"{ADDRESS}benchmark.csv?by=kendall&table=systems")
    assert table.status_code == 200
    rows = list(csv.DictReader(io.StringIO(table.content.decode())))
    [mine] = [row for row in rows if (row["Metric"], row["Data"]) == ("GRADE-lite", "mine")]
    level = expected["system_level"]
    assert int(mine["Systems"]) == 5
    assert float(mine["Kendall"]) == pytest.approx(level["kendall"]["value"])
    assert float(mine["Pairwise accuracy"]) == pytest.approx(level["pairwise_accuracy"]["value"])
    assert float(mine["Soft pairwise accuracy"]) == pytest.approx(level["soft_pairwise_accuracy"]["value"])
    assert float(mine["p against baseline"]) == pytest.approx(expected["system_test"]["p"], abs=0.02), (
        "scores have 5 digits"
    )
    few = [row for row in rows if row["Data"] == "convai2"]
    assert {row["Order of systems"] for row in few} == {"not known"}
    systems = systems_table(grid_of([job], method="kendall", target="good"), "kendall")
    assert systems is not None
    assert table_latex(systems.table, caption="c", label="l").count("GRADE-lite") == 2
    assert "| mine | GRADE-lite | 5 |" in table_markdown(systems.table, caption="c")


def test_rows_stand_by_held_out_data_and_those_below_the_cosine_say_so(staff: Client) -> None:
    post(staff, of_systems(), "mine.jsonl", "semantic_similarity", "grade_lite", "words_bot")
    run_job(job := Job.objects.get(kind="benchmark"))
    job.refresh_from_db()
    result = job.result
    for row, (mine, grade) in zip(result["metrics"], ((0.3, 0.1), (0.2, 0.9), (0.1, 0.1)), strict=True):
        for source, r in (("mine", mine), ("grade/convai2", grade)):
            row["agreement"]["good"]["sources"][source]["spearman"]["r"] = r
    job.save()
    response = staff.get(ADDRESS)
    assert response.status_code == 200
    html = flat(response.content.decode())
    body = html.partition("<tbody>")[2].partition("<tfoot>")[0]
    names = re.findall(r'<th scope="row">([^<]+)<', body)
    assert names == ["GRADE-lite", "Semantic similarity", "Words in the reply"], (
        "the cosine has .2 of both sets, GRADE-lite .2 of the one that it was not made by"
    )
    assert "<b>.20</b><span>1 held-out set</span>" in body
    assert "<b>.20</b><span>2 held-out sets</span>" in body
    assert body.count("does not beat the cosine of sentence vectors on held-out data") == 2
    names = re.findall(r'<th scope="row">([^<]+)<', flat(staff.get(f"{ADDRESS}?sort=mean").content.decode()))
    assert names[:2] == ["GRADE-lite", "Semantic similarity"]


GERMAN = "Ich gehe heute mit meiner Schwester in die Stadt und kaufe dort frisches Brot und Gemüse. "
ENGLISH = "My sister and I are walking into the town today, where we would like to buy some fresh bread. "


def test_data_sets_are_chosen_by_language_and_rows_sorted(staff: Client) -> None:
    rows = [json.loads(line) for line in judged().decode().splitlines()]
    for row in rows:
        row["context"] = [f"{(GERMAN, ENGLISH)[row['id'] % 2]}{row['id'] // 4}"]
        row["reference"] = "so it is"
    content = "".join(json.dumps(row) + "\n" for row in rows).encode()
    post(staff, content, "mine.jsonl", "rouge_l", "bleu", "words_bot")
    run_job(job := Job.objects.get(kind="benchmark"))
    job.refresh_from_db()
    assert job.result["languages"] == {"set 0": "de", "set 1": "en"}

    def shown(query: str) -> tuple[list[str], list[str], str]:
        html = flat(staff.get(f"{ADDRESS}?target=good&{query}").content.decode())
        head, _, body = html.partition("<tbody>")
        sets = re.findall(r'<th scope="col">([^<]+)<span>n ', head)
        return sets, re.findall(r'<th scope="row">([^<]+)<', body.partition("<tfoot>")[0]), html

    sets, names, html = shown("")
    assert sets == ["set 0", "set 1"]
    assert "do not apply to other languages" not in html
    sets, _names, html = shown("language=de")
    assert sets == ["set 0"]
    assert '<option value="de" selected>German</option>' in html
    assert "by=spearman&amp;target=good&amp;language=de" in html, "other menus keep the language"
    assert shown("language=fi")[0] == ["set 0", "set 1"], "of a data set that is gone"
    table = list(
        csv.DictReader(io.StringIO(staff.get(f"{ADDRESS}benchmark.csv?target=good&language=en").content.decode()))
    )
    table = [row for row in table if not row["Dialogue model"]]
    r = {row["Metric"]: float(row["r"]) for row in table}
    assert {row["Language"] for row in table} == {"en"}
    _sets, names, _html = shown(f"sort={job.pk}-set 1")
    assert names == [*sorted(list(r)[:2], key=lambda name: -r[name]), "Words in the reply"]
    assert shown("sort=name")[1] == [*sorted(names[:2]), "Words in the reply"]
    ranked = sorted(table, key=lambda row: (row["Metric"] == names[-1], float(row["Mean rank"])))
    assert [row["Metric"] for row in ranked] == shown("language=en&sort=rank")[1]


def compared() -> Study:
    """Make a study in which two people compared two replies, three times each."""
    study = make_study("compared", protocol="pairwise", bots=[], state="draft", n_items=3)
    for key, texts in zip("abc", (("cats", "dogs, cats"), ("no no no", "yes"), ("hi", "ho")), strict=True):  # fmt: skip
        two = [{"model": bot, "text": text} for bot, text in zip("pq", texts, strict=True)]
        item_add(study=study, key=key, context=["hi"], responses=two)
    study = study_edit(study=study, state=Study.State.COLLECTING)
    for said in ({"a": -1, "b": 1, "c": 0}, {"a": -1, "b": 0, "c": 0}):
        task = task_open(participant=make_participant(study))
        for slot in task.slots.select_related("item"):
            answers = dict.fromkeys(("fluency", "relatedness", "empathy"), 0)
            rating_add(task=task, target=slot.item, answers={**answers, "quality": said[slot.item.key]})  # fmt: skip
    return study


JUDGED = """item,context,first,second,preferred,judged_by,preference,first_place,words_first,words_second,judge
a,hi,p,q,second,fair,0.2,0.5,1,2,0123
b,hi,p,q,first,fair,0.9,0.5,3,1,0123
"""


def ask_pairs(staff: Client, judge: str, study: str = "compared", name: str = "judged.csv") -> Any:
    file = SimpleUploadedFile(name, judge.encode())
    return staff.post(ADDRESS, {"study": study, "judged": file, "metrics": ["bleu", "words_bot"]})


def test_a_judge_is_held_to_the_same_people_as_metrics_from_the_result_of_the_command(
    staff: Client, tmp_path: Path
) -> None:
    compared()
    assert ask_pairs(staff, JUDGED).status_code == 302
    [job] = Job.objects.filter(kind="benchmark")
    run_job(job)
    job.refresh_from_db()
    assert job.state == State.DONE, job.error
    file, out = tmp_path / "judged.csv", io.StringIO()
    file.write_text(JUDGED)
    asked = ["--study", "compared", "--metrics", "bleu,words_bot", "--judged", str(file), "--json"]
    call_command("evaluate_metrics", *asked, stdout=out, stderr=io.StringIO())
    of_command = json.loads(out.getvalue())
    assert job.result["judge"]["choices"]["quality"] == of_command["fair (pairs)"]
    for metric in job.result["metrics"]:
        assert metric["choices"]["quality"] == of_command[metric["metric"]]
    html = staff.get(ADDRESS).content.decode()
    assert "Pairwise choices" in html
    assert job.result["judge"]["biases"]["n"] == 2
    assert "Position bias of fair: .00 " in html, "both pairs as likely in either place"
    assert "Length bias: undefined" in html, "two pairs are too few"
    rows = re.findall(r"<tr><th scope=\"row\">(.*?)</tr>", html, re.S)
    first = re.sub(r"<[^>]+>", " ", rows[0]).split()
    assert first[:2] == ["fair", "(judge)"]
    low, high = of_command["fair (pairs)"]["agreed"]["ci95"]
    assert first[2:5] == ["1.00", f"[{low:.2f},".replace("0.", "."), f"{high:.2f}]"]
    assert "1 pair excluded: there is no choice for the pair (fair (judge))." in html
    assert "Nothing has been compared yet" not in html
    assert staff.get(f"{ADDRESS}{job.pk}/words_bot/").status_code == 404
    again = staff.post(f"{ADDRESS}{job.pk}/again/")
    assert again.status_code == 302
    assert Job.objects.filter(kind="benchmark").count() == 1, "the same data, versions and judge"
    name = job.payload["judged"]
    assert f'value="{name}"' in html
    staff.post(f"{ADDRESS}files/remove/", {"file": name})
    assert not Job.objects.filter(kind="benchmark").exists()


def test_a_judge_s_file_that_does_not_belong_says_why(staff: Client) -> None:
    compared()
    make_study("chats")
    for content, study, name, told in (
        (JUDGED, "", "judged.csv", "Choose the study"),
        (JUDGED, "chats", "judged.csv", "do not compare replies or chats"),
        (JUDGED, "compared", "judged.txt", "“judged.txt” is not a .csv file."),
        ("a,b\n", "compared", "judged.csv", "the file is not a file of judged pairs from judge_pairs --output"),
        (
            JUDGED.partition("\n")[0] + "\n",
            "compared",
            "judged.csv",
            "The file contains no pairs with a choice of the judge.",
        ),
    ):
        answer = ask_pairs(staff, content, study, name)
        assert answer.status_code == 400
        assert told in answer.content.decode()
    assert not Job.objects.filter(kind="benchmark").exists()


def test_a_file_is_removed_with_all_that_was_computed_of_it_and_the_log_says_by_whom(
    staff: Client, django_capture_on_commit_callbacks: Any
) -> None:
    post(staff, judged())
    study = make_study("talk")
    kept = benchmark_ask(study=study, metrics=["words_bot"])
    [file] = benchmark_folder().iterdir()
    run_job(Job.objects.get(kind="benchmark", payload__file=file.name))
    assert f'value="{file.name}"' in staff.get(ADDRESS).content.decode()
    for name in ("", "../bots.yaml", "0" * 32 + ".jsonl"):
        answer = staff.post(f"{ADDRESS}files/remove/", {"file": name}, follow=True)
        assert "The file does not exist" in answer.content.decode()
    with django_capture_on_commit_callbacks(execute=True):
        answer = staff.post(f"{ADDRESS}files/remove/", {"file": file.name}, follow=True)
    assert "The file and its results have been removed" in answer.content.decode()
    assert not file.exists()
    assert list(Job.objects.filter(kind="benchmark")) == [kept]
    [entry] = LogEntry.objects.all()
    assert (entry.object_id, entry.object_repr) == (file.name, "mine.jsonl")
    assert entry.user.has_perm("core.run")


def test_what_cannot_be_compared_says_why(staff: Client) -> None:
    for content, name, told in (
        (b"{}\n", "mine.jsonl", "line 1: "),
        (b'{"id": 1, "response": "x"}\n', "mine.jsonl", "The first lines contain no rated reply."),
        (judged(), "mine.csv", "not a .jsonl or .jsonl.gz"),
    ):
        answer = post(staff, content, name)
        assert answer.status_code == 400
        assert told in answer.content.decode()
    answer = staff.post(ADDRESS, {"metrics": ["words_bot"]})
    assert answer.status_code == 400
    assert "Choose either a study or a file" in answer.content.decode()
    make_study("empty")
    staff.post(ADDRESS, {"study": "empty", "metrics": ["words_bot"]})
    run_job(Job.objects.get(kind="benchmark"))
    html = staff.get(ADDRESS).content.decode()
    assert "could not be computed: This study has no rated replies." in html
    assert "Resume" in html


def test_an_example_with_made_up_ratings_is_compared_at_a_press(staff: Client) -> None:
    assert 'name="example"' in staff.get(ADDRESS).content.decode()
    assert staff.post(ADDRESS, {"example": "1"}).status_code == 302
    assert staff.post(ADDRESS, {"example": "1"}).status_code == 302
    job = Job.objects.get()
    assert "made-up ratings" in job.payload["title"]
    (file,) = benchmark_folder().glob("*.jsonl")
    items = [json.loads(line) for line in file.read_text().splitlines()]
    assert len(items) == 120
    assert {len(item["ratings"]) for item in items} == {3}
