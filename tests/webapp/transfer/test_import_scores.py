"""Scores from elsewhere: files of id, metric and value that become metrics."""

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

import confab
from tests.builders import make_annotated, make_staff, make_study, signed_in
from webapp.conversations.models import Conversation
from webapp.core.errors import Refused
from webapp.core.rights import Right
from webapp.jobs.models import HybridFit, ImportedMetric, MetricResult, MetricVersion
from webapp.jobs.selectors.analysis_tables import metric_frame
from webapp.jobs.selectors.metrics import metrics_all
from webapp.studies.models import Study
from webapp.transfer.import_file import import_conversations
from webapp.transfer.models import ImportedFile

pytestmark = pytest.mark.django_db

BOTS = ("alpha", "beta", "gamma")


@pytest.fixture
def chats(tmp_path: Path) -> Study:
    """Study of twelve rated chats of three bots, with a reply each in turns 1 and 3."""
    lines = [
        {
            "dialogue_id": f"d{n}",
            "bot": BOTS[n % 3],
            "turns": [
                {"speaker": speaker, "text": f"{text} {n}", "vote": vote if speaker == "bot" else 0}
                for text, speaker, vote in (
                    ("hello", "human", 0),
                    ("good day", "bot", 1 if n % 2 else -1),
                    ("how are you", "human", 0),
                    ("fine", "bot", 1 if n > 5 else -1),
                )
            ],
            "ratings": [{"rater": f"r{n % 4}", "overall": 1 + n % 5}],
        }
        for n in range(12)
    ]
    path = tmp_path / "chats.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    import_conversations(path, study_key="chats", scale=(1, 5))
    return Study.objects.get(key="chats")


def write(path: Path, *rows: object, header: str = "id,metric,value") -> Path:
    path.write_text("\n".join([header, *map(str, rows)]) + "\n", encoding="utf-8")
    return path


def run(*args: object) -> dict[str, Any]:
    out = StringIO()
    call_command("import_scores", *map(str, args), "--json", stdout=out, stderr=StringIO())
    report: dict[str, Any] = json.loads(out.getvalue())
    return report


def values_of(metric: str) -> dict[str, float | None]:
    rows = MetricResult.objects.filter(metric__name=metric).select_related("conversation")
    return {row.conversation.external_id: row.values[metric] for row in rows}


def test_scores_become_a_metric_with_reasons_for_missing_values(chats: Study, tmp_path: Path) -> None:
    path = write(
        tmp_path / "maude.csv",
        *(f"d{n},MAUDE,{n / 10}" for n in range(10)),
        "d10,MAUDE,",
        "d0/1,USL-H,2.5",
        "d0/3,USL-H,1.5",
    )
    report = run(path, "--study", "chats", "--licence", "CC-BY-4.0", "--source", "doi:1", "--lower", "USL-H")
    counts = report["metrics"]["maude"]
    assert (counts["new"], counts["missing"], counts["without"]) == (10, 1, 2)
    assert report["n_skipped"] == 0
    values = values_of("maude")
    assert (values["d3"], values["d11"]) == (0.3, None)
    assert set(MetricResult.objects.get(conversation__external_id="d11", metric__name="maude").reasons) == {"maude"}
    assert values_of("usl_h")["d0"] == 2.0
    assert MetricResult.objects.get(conversation__external_id="d0", metric__name="usl_h").turns == {
        "usl_h": [None, 2.5, None, 1.5]
    }
    assert [m.title for m in metrics_all() if m.name in ("maude", "usl_h")] == ["MAUDE", "USL-H"]
    assert ImportedMetric.objects.get(name="usl_h").direction == "lower"
    frame = metric_frame(study=chats)
    assert frame["maude"].notna().sum() == 10
    origin = ImportedFile.objects.get(study=chats, name="maude.csv")
    assert (origin.licence, origin.source) == ("CC-BY-4.0", "doi:1")


def test_a_second_import_replaces_values_and_renews_the_identity(chats: Study, tmp_path: Path) -> None:
    first = write(tmp_path / "a.csv", *(f"d{n},maude,{n}" for n in range(12)))
    run(first, "--study", "chats")
    key = MetricVersion.objects.get(name="maude").key
    again = run(first, "--study", "chats")["metrics"]["maude"]
    assert (again["new"], again["replaced"], again["unchanged"]) == (0, 0, 12)
    assert MetricVersion.objects.get(name="maude").key == key

    report = run(write(tmp_path / "b.csv", "d0,maude,99", "d1,maude,1"), "--study", "chats")["metrics"]["maude"]
    assert (report["new"], report["replaced"], report["unchanged"]) == (0, 1, 1)
    assert (values_of("maude")["d0"], values_of("maude")["d2"]) == (99, 2)
    assert MetricResult.objects.filter(metric__name="maude").count() == 12
    current = next(metric for metric in metrics_all() if metric.name == "maude").identity
    assert (current.version, current.key) == ("2", MetricVersion.objects.get(name="maude").key)
    assert current.key != key


def test_replies_added_later_change_the_mean_but_not_a_score_of_the_file(chats: Study, tmp_path: Path) -> None:
    run(write(tmp_path / "a.csv", "d0/1,deb,2", "d1/1,deb,2", "d1,deb,9"), "--study", "chats")
    run(write(tmp_path / "b.csv", "d0/3,deb,4", "d1/3,deb,4"), "--study", "chats")
    assert (values_of("deb")["d0"], values_of("deb")["d1"]) == (3, 9)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("nobody,maude,1", "there is no conversation, reply or item 'nobody'"),
        ("d0,maude,inf", "must be finite"),
        ("d0,maude,-Infinity", "must be finite"),
        ("d0,maude,high", "must be a number"),
        ("d0,maude,1_0", "must be a number"),
        ("d0/0,maude,1", "turn 0 of 'd0/0' is not a reply of the bot"),
        ("d0/44,maude,1", "turn 44"),
        ("d0,bleu,1", "belongs to another metric, column or question"),
        ("d0,words_bot,1", "belongs to another metric, column or question"),
        ("d0,Overall,1", "belongs to another metric, column or question"),
        ("d0,votes,1", "belongs to another metric, column or question"),
        ("d0,ΩΩ,1", "begins with an unaccented letter"),
        (f"d0,{'m' * 61},1", "at most 60"),
        (f"{'i' * 201},maude,1", "longer than 200"),
        ("d0,maude,1e101", "between -1e+100 and 1e+100"),
        ("d0,,1", "metric is empty"),
        (",maude,1", "id is empty"),
        ("d5,maude,3", "in line 2 already"),
        ("d5,Maude,3", "have the same name maude"),
        ("d0\x00,maude,1", "U+0000"),
        ("d0,maude", "the row has 2 cells"),
    ],
)
def test_wrong_rows_are_rejected_by_name_and_line(chats: Study, tmp_path: Path, row: str, reason: str) -> None:
    report = run(write(tmp_path / "x.csv", "d5,maude,1", "d6,maude,2", row), "--study", "chats")
    assert [skipped["line"] for skipped in report["skipped"]] == [4]
    assert reason in report["skipped"][0]["reason"]
    assert list(report["metrics"]) == ["maude"]
    assert report["metrics"]["maude"]["new"] == 2


@pytest.mark.parametrize("ending", [".jsonl", ".parquet", ".semicolon.csv", ".turn.csv"])
def test_all_kinds_of_tables_are_read(chats: Study, tmp_path: Path, ending: str) -> None:
    chat = Conversation.objects.get(external_id="d1")
    path = tmp_path / f"scores{ending}"
    frame = pd.DataFrame({"id": ["d0", str(chat.pk)], "metric": ["deb", "deb"], "value": [0.25, float("nan")]})
    if ending == ".jsonl":
        path.write_text('{"metric": "deb", "id": "d0", "value": 0.25, "note": "x"}\n{"id": "d1", "metric": "deb"}\n')
    elif ending == ".parquet":
        frame.to_parquet(path)
    elif ending == ".turn.csv":
        write(path, "d0,1,deb,0.25", "d1,,deb,", header="Conversation,Turn,Metric,Score")
    else:
        frame.to_csv(path, sep=";", index=False)
    counts = run(path, "--study", "chats")["metrics"]["deb"]
    assert (counts["new"], counts["missing"]) == (1, 1)
    assert values_of("deb")["d0"] == 0.25


def test_ids_of_several_conversations_are_refused(chats: Study, tmp_path: Path) -> None:
    more = tmp_path / "more.jsonl"
    turns = [{"speaker": "human", "text": "hi"}, {"speaker": "bot", "text": "yes"}]
    more.write_text(json.dumps({"dialogue_id": "d0", "bot": "delta", "turns": turns}) + "\n")
    import_conversations(more, study_key="chats")
    report = run(write(tmp_path / "x.csv", "d0,maude,1", "d1,maude,1"), "--study", "chats")
    assert "several conversations have the id 'd0'" in report["skipped"][0]["reason"]


def test_nothing_usable_fails(chats: Study, tmp_path: Path) -> None:
    for rows in (("d0,bleu,1",), ("d0,maude,",)):
        with pytest.raises(CommandError, match="no score that can be used"):
            run(write(tmp_path / "x.csv", *rows), "--study", "chats")
    with pytest.raises(CommandError, match="no column value"):
        run(write(tmp_path / "y.csv", "d0,maude", header="id,metric"), "--study", "chats")
    with pytest.raises(CommandError, match="no study 'none'"):
        run(write(tmp_path / "z.csv", "d0,maude,1"), "--study", "none")
    assert not ImportedMetric.objects.exists()


def test_deletion_removes_the_metric_its_values_and_its_record(chats: Study, tmp_path: Path) -> None:
    run(write(tmp_path / "x.csv", "d0,maude,1", "d1,maude,2"), "--study", "chats")
    assert run("--remove", "maude") == {"removed": {"maude": 2}}
    assert not MetricVersion.objects.filter(name="maude").exists()
    assert not ImportedFile.objects.filter(name="x.csv").exists()
    assert "maude" not in [metric.name for metric in metrics_all()]
    with pytest.raises(CommandError, match="there is no imported metric 'maude'"):
        run("--remove", "maude")


def test_a_fit_uses_an_imported_metric_if_every_bot_has_it(chats: Study, tmp_path: Path) -> None:
    from webapp.jobs.selectors.analysis_tables import check_computed
    from webapp.jobs.selectors.metrics import imported_metrics

    run(write(tmp_path / "a.csv", *(f"d{n},maude,{n % 5 + n / 9}" for n in range(12) if n % 3)), "--study", "chats")
    with pytest.raises(Refused, match="has no values for alpha"):
        check_computed(imported_metrics(), study=chats)
    run(write(tmp_path / "b.csv", *(f"d{n},maude,{n % 5 + n / 9}" for n in range(12))), "--study", "chats")
    call_command("compute_metrics", study="chats", metrics="length", inline=True, stdout=StringIO())
    options = {"study": "chats", "target": "overall", "features": "maude"}
    call_command("fit_hybrid", stdout=StringIO(), stderr=StringIO(), **options)
    fit = HybridFit.objects.get()
    assert fit.result is not None
    assert fit.result["features"] == ["maude"]
    assert fit.identities["metrics"]["maude"]["params"] == {"imported": "default"}


def test_scores_of_voted_replies_are_compared_with_people(chats: Study, tmp_path: Path) -> None:
    from webapp.jobs.engine import run_job
    from webapp.results.benchmark import benchmark_ask

    rows = [f"d{n}/{turn},maude,{n + turn}" for n in range(12) for turn in (1, 3)]
    run(write(tmp_path / "a.csv", *rows), "--study", "chats")
    job = benchmark_ask(metrics=["maude", "words_bot"], study=chats)
    run_job(job)
    job.refresh_from_db()
    [maude] = [row for row in job.result["metrics"] if row["metric"] == "maude"]
    assert maude["agreement"]["vote"]["n"] == 24
    assert maude["agreement"]["vote"]["spearman"]["r"] > 0.3
    with pytest.raises(Refused, match="belong to rated replies of a study"):
        benchmark_ask(metrics=["maude"], file="0" * 32 + ".jsonl", title="x")


def test_scores_of_items_are_compared_with_their_ratings(tmp_path: Path) -> None:
    from webapp.jobs.selectors.metrics import metric_with_item_scores

    study = make_annotated("a", n_items=4)
    keys = list(study.items.values_list("key", flat=True))
    report = run(write(tmp_path / "i.csv", *(f"{key},maude,{n}" for n, key in enumerate(keys))), "--study", "a")
    assert report["metrics"]["maude"]["new"] == 4
    assert run(tmp_path / "i.csv", "--study", "a")["metrics"]["maude"]["unchanged"] == 4
    metric = metric_with_item_scores("maude", study)
    assert metric is not None
    assert metric.values == {(key, None): float(n) for n, key in enumerate(keys)}  # type: ignore[attr-defined]
    assert run("--remove", "maude") == {"removed": {"maude": 4}}


def upload(client: Client, path: Path, **fields: Any) -> Any:
    """Upload a file on the page Import and post its preview."""
    response = client.post("/dashboard/imports/", {"file": SimpleUploadedFile(path.name, path.read_bytes())})
    preview = client.get(response["Location"])
    assert "Preview of" in preview.content.decode()
    return client.post(response["Location"], fields, follow=True)


def test_the_page_imports_lists_and_deletes_scores(chats: Study, tmp_path: Path) -> None:
    client = signed_in(Right.RUN, Right.READ)
    path = write(tmp_path / "s.csv", *(f"d{n},MAUDE,{n}" for n in range(11)), "nobody,MAUDE,1")
    unchosen = upload(client, path)
    assert unchosen.status_code == 400
    assert "Choose one." in unchosen.content.decode()
    done = upload(client, path, target="study:chats", lower="maude", licence="CC0-1.0")
    text = done.content.decode()
    assert "MAUDE: 11 new, 0 replaced and 0 unchanged values." in text
    assert "MAUDE has no value for 1 conversation or item." in text
    assert "there is no conversation, reply or item &#x27;nobody&#x27;" in text
    assert ImportedMetric.objects.get().direction == "lower"

    catalogue = client.get("/dashboard/metrics/").content.decode()
    assert "MAUDE" in catalogue
    assert "CC0-1.0" in catalogue
    assert "MAUDE" in client.get(reverse("dashboard:study_prediction", args=["chats"])).content.decode()
    assert "MAUDE" in client.get("/dashboard/benchmark/").content.decode()
    chat = Conversation.objects.get(external_id="d3")
    assert client.get(reverse("dashboard:conversation", args=[chat.pk]), follow=True).status_code == 200
    form = {"targets": ["overall"], "preset": "paper", "intercept": "common", "imported": ["maude"]}
    fitted = client.post(reverse("dashboard:study_prediction", args=["chats"]), form)
    assert fitted.status_code == 302, fitted.content.decode()
    assert HybridFit.objects.get().request["features"][-1] == "maude"
    removed = client.post(reverse("dashboard:metric_delete", args=["maude"]), follow=True).content.decode()
    assert "The metric maude was deleted with 11 values." in removed
    assert not ImportedMetric.objects.exists()


def test_programs_import_and_delete_scores(chats: Study, tmp_path: Path) -> None:
    from webapp.core.authentication import token_make
    from webapp.jobs.engine import run_job
    from webapp.jobs.models import Job

    user = make_staff(Right.RUN, Right.READ, username="api")
    _, token = token_make(user=user, name="ci", rights=[Right.RUN, Right.READ], days=1)
    auth = {"HTTP_AUTHORIZATION": f"Bearer {token}"}
    client = Client()
    file = SimpleUploadedFile("s.csv", b"id,metric,value\nd0,deb,1\nd1,deb,0\n")
    response = client.post("/api/v1/studies/chats/scores", {"file": file, "source": "x"}, **auth)
    assert response.status_code == 202, response.content
    job = Job.objects.get(pk=response.json()["id"])
    run_job(job)
    assert client.get(f"/api/v1/jobs/import/{job.pk}", **auth).json()["result"]["metrics"]["deb"]["new"] == 2
    assert "deb" in [metric["name"] for metric in client.get("/api/v1/metrics", **auth).json()]
    assert client.delete("/api/v1/metrics/deb", **auth).json() == {"values": 2}
    assert client.delete("/api/v1/metrics/deb", **auth).status_code in (400, 404, 409, 422)


def test_the_report_correlates_an_imported_metric_with_ratings(chats: Study, tmp_path: Path) -> None:
    from webapp.results.cache import AnalysisKey, result_at_hand

    key = AnalysisKey(chats, "correlations")
    before = key.state.digest
    run(write(tmp_path / "s.csv", *(f"d{n},MAUDE,{1 + n % 5}" for n in range(12))), "--study", "chats")
    assert AnalysisKey(chats, "correlations").state.digest != before
    result = result_at_hand(AnalysisKey(chats, "correlations"))
    assert result is not None
    matrix = result.result.metrics
    [place] = [n for n, row in enumerate(matrix.rows) if row.name == "maude"]
    assert matrix.cells[(place, 0)].r == pytest.approx(1)


def test_notebooks_use_scores_of_a_file(tmp_path: Path) -> None:
    lines = [
        {
            "dialogue_id": f"d{n}",
            "bot": BOTS[n % 3],
            "turns": [
                {"speaker": "human", "text": f"hi {n}"},
                {"speaker": "bot", "text": "yes", "vote": n % 2 * 2 - 1},
            ],
            "ratings": [{"rater": "r", "overall": 1 + n % 5}],
        }
        for n in range(12)
    ]
    path = tmp_path / "c.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    rows = [f"d{n}/1,maude,{n % 2 + n / 100}" for n in range(11)]
    study = confab.read(path).with_scores(write(tmp_path / "s.csv", *rows, "d0,overall,1"))
    table = study.metrics(["maude"])
    assert table["maude"].notna().sum() == 11
    assert "belongs to another metric" in study.skipped[-1].reason
    agreement = confab.judge(study, [study.imported["maude"]])["maude"]
    assert agreement.to_json()["spearman"]["r"] > 0.8
    result = confab.hybrid(study, target="overall", features=["maude"])
    assert result.to_json()["features"] == ["maude"]


def test_other_projects_see_neither_metric_nor_values(chats: Study, tmp_path: Path) -> None:
    from webapp.core.models import Project
    from webapp.core.project_scope import in_project

    run(write(tmp_path / "a.csv", "d0,maude,1"), "--study", "chats")
    Project.objects.create(key="other", name="Other")
    with in_project("other"):
        make_study("theirs")
        assert "maude" not in [metric.name for metric in metrics_all()]


def test_scores_belong_to_the_project_of_their_study_and_move_with_it(chats: Study, tmp_path: Path) -> None:
    from webapp.core.models import Project
    from webapp.core.project_scope import in_project
    from webapp.studies.project_moves import study_accept, study_offer

    other = Project.objects.create(key="other", name="Other")
    path = tmp_path / "chats.jsonl"
    with in_project("other"):
        import_conversations(path, study_key="theirs", scale=(1, 5))
    scores = write(tmp_path / "a.csv", "d0,maude,1", "d1,maude,3", "d1/1,maude,2")
    run(scores, "--study", "theirs", "--lower", "maude")
    run(scores, "--study", "chats")
    assert {row.project_id for row in ImportedMetric.everywhere.all()} == {"default", "other"}
    for study in Study.objects.all():  # commands without a project see both metrics
        assert sorted(metric_frame(study=study)["maude"].dropna()) == [1, 3]
    with pytest.raises(CommandError, match="several projects have a metric 'maude'; name one of them: default, other"):
        run("--remove", "maude")
    # An imported file of another project is still recorded after the deletion in this one.
    assert run("--remove", "maude", "--project", "default") == {"removed": {"maude": 2}}
    assert [file.study.key for file in ImportedFile.objects.filter(mapping__has_key="metrics")] == ["theirs"]

    theirs = Study.objects.get(key="theirs")
    study_offer(study=theirs, key="default")
    with in_project("default"):
        study_accept(study=theirs)
        [metric] = ImportedMetric.objects.all()
        assert (metric.direction, metric.version.version) == ("lower", "1")
        frame = metric_frame(study=Study.objects.get(key="theirs"), metrics=metrics_all())
        assert sorted(frame["maude"].dropna()) == [1, 3]
        assert not run(scores, "--study", "theirs")["metrics"]["maude"]["new"]
    assert not ImportedMetric.everywhere.filter(project=other).exists()
    assert MetricVersion.objects.filter(name="maude").count() == 1


def test_a_score_that_equals_the_mean_of_the_replies_is_not_new_again(chats: Study, tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "d0,maude,2", "d0/1,maude,2")
    assert run(path, "--study", "chats")["metrics"]["maude"]["new"] == 2
    counts = run(path, "--study", "chats")["metrics"]["maude"]
    assert (counts["new"], counts["unchanged"]) == (0, 2)


def test_scores_do_not_replace_the_record_of_a_data_file(chats: Study, tmp_path: Path) -> None:
    path = write(tmp_path / "chats.jsonl.csv", "d0,maude,2").rename(tmp_path / "scores.csv")
    ImportedFile.objects.filter(study=chats).update(name="scores.csv", licence="research only")
    run(path, "--study", "chats", "--licence", "MIT")
    assert dict(chats.imported_files.values_list("name", "licence")) == {
        "scores.csv": "research only",
        "scores.csv (scores)": "MIT",
    }


def test_a_damaged_file_of_scores_is_refused_on_the_page(tmp_path: Path) -> None:
    path = tmp_path / "s.parquet"
    columns = {"id": [f"d{n}" for n in range(500)], "metric": "maude", "value": 1.0}
    pd.DataFrame(columns).to_parquet(path, compression=None)
    content = bytearray(path.read_bytes())
    content[4:60] = b"\xff" * 56
    page = signed_in(Right.RUN, Right.READ).post(
        reverse("dashboard:imports"), {"file": SimpleUploadedFile("s.parquet", bytes(content))}, follow=True
    )
    assert "s.parquet is a damaged Parquet file" in page.content.decode()


def test_pages_read_the_imported_metrics_once_for_all_columns(chats: Study, tmp_path: Path) -> None:
    from webapp.results.cache import AnalysisKey, result_at_hand

    path = write(tmp_path / "a.csv", *(f"d{n}/1,{name},{n}" for n in range(12) for name in ("maude", "usl", "fed")))
    run(path, "--study", "chats")
    address = reverse("dashboard:study_why", args=["chats"]) + "?part=trajectories"
    client = signed_in(*Right)
    assert result_at_hand(AnalysisKey(chats, "trajectories")) is not None
    client.get(address)  # computes the other parts
    with CaptureQueriesContext(connection) as queries:
        assert "Best and worst conversations by exchange" in client.get(address).content.decode()
    n_read = sum("runs_importedmetric" in query["sql"] for query in queries.captured_queries)
    assert n_read <= 6, "one for each part of the page"


def test_a_metric_without_any_value_is_reported(chats: Study, tmp_path: Path) -> None:
    counts = run(write(tmp_path / "a.csv", "d0,maude,2", "d0,usl,", "d1,usl,"), "--study", "chats")["metrics"]
    assert (counts["usl"]["new"], counts["usl"]["missing"]) == (0, 2)
    assert [row.name for row in ImportedMetric.objects.all()] == ["maude"]
