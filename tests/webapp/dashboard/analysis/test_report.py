"""The report: one file with nothing from outside, clear refusals; and what unrated conversations add, told alike."""

import base64
import csv
import hashlib
import io
import json
import re
from html.parser import HTMLParser
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse

from evaluation.analysis.prediction_powered import powered_means
from evaluation.data.result_tables import Cell, Header, PageTable, number_cell, span_cell
from evaluation.hybrid.levels import predict_conversations
from evaluation.hybrid.results import KeptFit
from evaluation.number_format import figure, percent, share, span
from tests.builders import make_study
from tests.webapp.dashboard.analysis.conftest import TABLE
from tests.webapp.dashboard.analysis.test_one_result import text_of
from webapp.dashboard.render import table_csv
from webapp.jobs.models import HybridFit
from webapp.ratings.models import Rating
from webapp.results.cache import compute_part, made_dump, made_load
from webapp.results.compute import study_correlations, study_raters, study_trajectories
from webapp.results.study_data import StudyData, study_data
from webapp.studies.models import Study


class Page(HTMLParser):
    """What a page asks for from elsewhere, its texts and its downloads."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.outside: list[str] = []
        self.downloads: dict[str, str] = {}
        self.policy = ""
        self.inline: dict[str, str] = {}
        self._open = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        results = {name: value or "" for name, value in attributes}
        for name in ("src", "href", "action", "srcset", "poster", "data"):
            value = results.get(name, "")
            if value and not value.startswith(("#", "data:")):
                self.outside.append(f"{tag} {name}={value}")
        if tag == "link" or "style" in results or any(name.startswith("on") for name in results):
            self.outside.append(f"{tag} {results}")
        if "download" in results:
            self.downloads[results["download"]] = results["href"]
        if results.get("http-equiv") == "Content-Security-Policy":
            self.policy = results["content"]
        self._open = tag if tag in ("style", "script") else ""

    def handle_endtag(self, tag: str) -> None:
        self._open = ""

    def handle_data(self, data: str) -> None:
        if self._open:
            self.inline[self._open] = self.inline.get(self._open, "") + data


@pytest.fixture
def page(study: Study, tmp_path: Path) -> tuple[str, Page]:
    output = tmp_path / "r.html"
    printed = io.StringIO()
    call_command("report", "--study=analysed", f"--output={output}", "--json", stdout=printed)
    assert json.loads(printed.getvalue()) == {"file": str(output)}
    html = output.read_text(encoding="utf-8")
    return html, Page(html)


def test_one_file_with_every_part(page: tuple[str, Page], data: StudyData) -> None:
    html, result = page
    assert result.outside == []
    assert not re.search(r"url\(|@import|https?://(?!www\.w3\.org/2000/svg)", html)
    for kind in ("style", "script"):
        digest = base64.b64encode(hashlib.sha256(result.inline[kind].encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in result.policy
    assert "default-src 'none'" in result.policy
    parts = re.findall(r'<section id="([a-z]+)"', html)
    assert parts == [
        *("ratings", "comparisons", "models", "raters"),
        *("hybrid", "replacement", "trajectories", "correlations", "methods"),
    ]
    assert html.count("<h1 ") == 1
    assert "16 people rated 64 conversations with 4 bots on 2 dimensions." in html
    assert "Krippendorff’s α" in html
    assert 'tabindex="0"' not in re.sub(r'<div class="table-scroll"[^>]*>', "", html)
    # Everything drawn has a table, and every table can be taken away in three forms.
    assert html.count("<figure ") == html.count("<table ") == len(result.downloads) / 3
    labels = re.findall(r'report-label">(Figure|Table) (\d+)\.', html)
    for kind in ("Figure", "Table"):
        numbers = [int(number) for found_kind, number in labels if found_kind == kind]
        assert numbers == list(range(1, len(numbers) + 1))
    # Agreement and left early have intervals; a count needs none; what is missing says why.
    numbers = re.search(r'<dl class="report-numbers">.*?</dl>', html, re.S)
    assert numbers
    text = " ".join(re.sub(r"<[^>]+>", " ", numbers[0]).split())
    bots = study_raters(data).agreement.reliability_of_bots
    assert text == (
        "conversations rated 64 reliability of the bots’ means, ICC(k) "
        f"{share(bots.value)} 95 %: {span(bots.low, bots.high, shares=True)} "
        "hybrid metric – not fitted raters 16"
    )


def test_without_a_page_all_results_are_printed(study: Study, data: StudyData) -> None:
    printed = io.StringIO()
    call_command("report", "--study=analysed", "--json", stdout=printed)
    document = json.loads(printed.getvalue())
    assert document["study"] == "analysed"
    assert document["hybrid"] == []
    assert len(document["comparisons"]["pairs"]) == 6
    assert document["correlations"] == study_correlations(data).to_json()
    for kind in ("best-worst", "by-trait"):
        assert document["trajectories"][kind] == study_trajectories(data).to_json()[kind]
    with pytest.raises(CommandError, match="use --output") as error:
        call_command("report", "--study=analysed")
    assert error.value.returncode == 2


def test_every_csv_reads_back(page: tuple[str, Page]) -> None:
    _html, result = page
    tables = {}
    csvs = {name: href for name, href in result.downloads.items() if name.endswith(".csv")}
    assert len(csvs) == len(result.downloads) / 3
    for name, href in csvs.items():
        head, _comma, body = href.partition(",")
        assert head == "data:text/csv;charset=utf-8;base64"
        rows = list(csv.reader(io.StringIO(base64.b64decode(body).decode("utf-8-sig"))))
        assert len({len(row) for row in rows}) == 1, name
        tables[name] = rows
    header, *rows = tables["analysed-differences.csv"]
    assert header[:4] == ["Pair", "Difference", "95 % low", "95 % high"]
    assert len(rows) == 6
    assert all(float(low) <= float(gap) <= float(high) for _pair, gap, low, high, *_rest in rows)


def test_csv_has_all_digits_reasons_and_no_formula() -> None:
    table = PageTable(
        [Header("Bot"), Header("r", numeric=True), Header("95 %", numeric=True)],
        [
            [Cell("=1+1"), number_cell(1 / 3), span_cell(-0.25, 0.5)],
            [Cell("b"), number_cell(None, reason="constant"), span_cell(None, None, reason="constant")],
        ],
    )
    rows = list(csv.reader(io.StringIO(table_csv(table))))
    assert rows == [
        ["Bot", "r", "r reason", "95 % low", "95 % high", "95 % reason"],
        ["'=1+1", repr(1 / 3), "", "-0.25", "0.5", ""],
        ["b", "", "constant", "", "", "constant"],
    ]


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"study": "ratet"}, "there is no study 'ratet'; did you mean rated?"),
        ({"output": "/nowhere/r.html"}, "there is no folder /nowhere"),
        ({"output": "/tmp"}, "/tmp is a folder; specify a file"),
        ({"run": 9}, "there is no self-play run 9"),
        ({"bots": "/nowhere.csv"}, "No such file or directory"),
        ({"turned": "dull"}, "the study has no dimension 'dull'"),
        ({}, "study rated has no ratings yet, so there is nothing to report"),
    ],
)
def test_refusals(options: dict, message: str, tmp_path: Path) -> None:
    make_study("rated")
    values = {"study": "rated", "output": str(tmp_path / "r.html"), **options}
    with pytest.raises(CommandError, match=re.escape(message)):
        call_command("report", *(f"--{name}={value}" for name, value in values.items()))


def test_a_bad_table_of_bots_is_refused_with_its_line(study: Study, tmp_path: Path) -> None:
    table = tmp_path / "bots.csv"
    table.write_bytes(TABLE + b"delta,1,x,y,no\n")
    with pytest.raises(CommandError, match="line 6: the study has no bot 'delta'"):
        call_command("report", "--study=analysed", f"--output={tmp_path}/r.html", f"--bots={table}")


def test_the_page_holds_the_sections_that_are_asked_for(study: Study, tmp_path: Path) -> None:
    output = tmp_path / "r.html"
    call_command("report", "--study=analysed", f"--output={output}", "--sections=hybrid, raters", stdout=io.StringIO())
    assert re.findall(r'<section id="([a-z]+)"', output.read_text()) == ["raters", "hybrid"]
    with pytest.raises(CommandError, match="no section 'rater'; it has ratings, comparisons, mod"):
        call_command("report", "--study=analysed", f"--output={output}", "--sections=rater")


@pytest.fixture
def half_rated(study: Study) -> Study:
    """Return the study with every second conversation's ratings gone."""
    rated = Rating.objects.filter(conversation__study=study)
    names = rated.order_by("conversation__bot__bot_id", "pk").values_list("pk", flat=True)
    Rating.objects.filter(pk__in=list(names)[::2]).delete()
    call_command("fit_hybrid", "--study", study.key, "--features", "words_user", stdout=StringIO())
    return study


def told(html: str, section: str) -> str:
    return text_of(html.partition(f'id="{section}"')[2] or html)


def test_every_reader_is_told_the_same(staff: Client, half_rated: Study, tmp_path: Path) -> None:
    out, path = StringIO(), tmp_path / "report.html"
    call_command("report", "--study", half_rated.key, "--json", stdout=out)
    document = json.loads(out.getvalue())["powered"]
    assert (document["first"], document["n_unrated"]) == ("hybrid", 32)
    data = study_data(half_rated)
    part = compute_part("powered", data)
    kept_document = json.loads(json.dumps(made_dump("powered", part), allow_nan=False))
    assert made_load("powered", kept_document) == part
    frame = data.metrics
    stored_fit = KeptFit.from_json(HybridFit.objects.get().kept)
    notebook = {
        "hybrid": predict_conversations(stored_fit, frame),
        "words_user": frame["words_user"].to_numpy(),
        "question_bot": np.ones(len(frame)),
    }
    url = reverse("dashboard:study_why", args=[half_rated.key])
    call_command("report", "--study", half_rated.key, "--output", str(path), stdout=StringIO())
    for by, predicted in notebook.items():
        result = powered_means(data.ratings, frame.index.tolist(), frame["bot"].tolist(), predicted, predictor=by)
        assert document["by"][by] == result.to_json()
        page = text_of(staff.get(url, {"part": "powered", "by": by}).content.decode())
        if by == "question_bot":
            assert "cannot be used: the predictions do not vary." in page
            continue
        assert result.gains
        pages = [page]
        if by == "hybrid":
            pages += [text_of(staff.get(url, {"part": "powered"}).content.decode()), told(path.read_text(), "powered")]
        for shown in pages:
            assert f"reduces the variance of the bots’ means by {percent(result.saved)}, as much as" in shown
            for bot, one in result.bots.items():
                alone = f"{bot} {one.n} {one.n_unrated} {figure(one.ratings)}"
                cells = [alone, span(one.ratings_low, one.ratings_high)]
                if one.reason is None:
                    cells += [figure(one.mean), span(one.low, one.high), share(one.saved)]
                assert " ".join(cells) in shown


def test_where_everything_is_rated_there_is_nothing_to_add(staff: Client, study: Study, tmp_path: Path) -> None:
    where = reverse("dashboard:study_why", args=[study.key]) + "?part=powered"
    assert "All finished conversations are rated." in staff.get(where).content.decode()
    path = tmp_path / "report.html"
    call_command("report", "--study", study.key, "--output", str(path), stdout=StringIO())
    assert 'id="powered"' not in path.read_text()
