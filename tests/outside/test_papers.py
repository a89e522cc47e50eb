"""`make papers`: the 53 tables and figures of the five papers, from small data; every empty cell has its reason."""

import html
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import call_command
from django.test import Client

from evaluation.agreement.paper_tables import BENCHMARK_PAPERS
from evaluation.data.result_tables import NamedTable, PageTable
from evaluation.published.papers import GapReason, papers
from tests.builders import signed_in
from tests.webapp.dashboard.analysis.conftest import measure, records
from tests.webapp.dashboard.test_pair_pages import make_compared
from webapp.core.rights import Right
from webapp.insights.report_benchmark import benchmark_report
from webapp.insights.report_document import Document
from webapp.insights.report_files import report_ask, report_newest, report_read
from webapp.jobs.engine import run_job
from webapp.jobs.models import Job, SelfPlayRun
from webapp.results.benchmark import benchmark_ask
from webapp.results.benchmark_data import benchmark_upload_keep
from webapp.results.kinds.explanations import EXPLANATION_KIND
from webapp.studies.bot_columns import bot_columns_read
from webapp.studies.models import Study
from webapp.studies.services import bot_columns_store
from webapp.transfer.import_file import import_conversations

pytestmark = pytest.mark.django_db
BOTS = {"alpha": "eliza", "beta": "parrot", "gamma": "retrieval", "bad": "generic"}
FACTORS = (
    b"bot,ppl,architecture,corpus,EI\neliza,20,HRED,Cornell,EI\nparrot,25,HRED,Cornell,plain\n"
    b"retrieval,40,VHRED,Reddit,EI\ngeneric,60,VHRED,Reddit,plain\n"
)


def make_rated_study(folder: Path) -> Study:
    """Make a study of four bots with ratings, metrics, a self-play run and a fit, beside one of pairs."""
    path = folder / "chats.jsonl"
    path.write_text("".join(json.dumps({**record, "bot": BOTS[record["bot"]]}) + "\n" for record in records()))
    import_conversations(path, study_key="rated", scale=(1, 7))
    study = Study.objects.get(key="rated")
    measure(study)
    bot_columns_store(study=study, columns=bot_columns_read(FACTORS, list(BOTS.values()), "bots.csv"))
    make_compared(n_people=6, n_items=6)
    names = ",".join(BOTS.values())
    options = {"stdout": io.StringIO(), "stderr": io.StringIO()}
    call_command(
        *("selfplay", "--bots", names, "--conversations", "2", "--turns", "4", "--inline"),
        *("--metrics", "words,question"),
        **options,
    )
    run = SelfPlayRun.objects.get()
    call_command("compute_metrics", "--run", str(run.pk), "--metrics", "words,question", "--inline", **options)
    call_command(
        *("fit_hybrid", "--study", "rated", "--run", str(run.pk), "--target", "quality"),
        *("--features", "words_user,question_bot"),
        **options,
    )
    return study


def make_rated_replies() -> Iterator[dict[str, Any]]:
    rng = np.random.default_rng(5)
    words = ["so", "it", "is", "a", "long", "and", "a", "short", "day", "for", "all", "of", "us", "at", "home"]
    for source in ("grade/dailydialog", "own data"):
        for model in ("transformer_ranker", "transformer_generator"):
            for k in range(8):
                yield {
                    "id": f"{model}{k}",
                    "source": source,
                    "model": model,
                    "context": [f"how was day {k}", "it was fine"],
                    "response": " ".join(words[: 2 + int(rng.integers(0, 9))]),
                    "reference": " ".join(words[1:7]),
                    "ratings": [{"rater": r, "coherence": int(rng.integers(1, 6))} for r in "abc"],
                    "scale": [1, 5],
                }


def make_benchmark() -> Job:
    content = "".join(json.dumps(reply) + "\n" for reply in make_rated_replies()).encode()
    file = benchmark_upload_keep(SimpleUploadedFile("replies.jsonl", content))
    metrics = ["rouge_l", "words_bot", "entailment_lite", "grade_lite", "pone_lite"]
    job = benchmark_ask(metrics=metrics, file=file, title="replies.jsonl")
    run_job(job)
    return job


def print_page(client: Client, address: str) -> None:
    """Print the text of a page's main part, one line for each paragraph and row."""
    response = client.get(address)
    assert response.status_code == 200, address
    main = re.sub(r"(?s)^.*<main[^>]*>|</main>.*$|<svg.*?</svg>|<script.*?</script>", "", response.content.decode())
    lines = re.sub(r"</(?:p|tr|h\d|li|dt|dd|summary)>", "\n", re.sub(r"\s+", " ", main)).splitlines()
    texts = [re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", line)).strip() for line in lines]
    print("\n".join(f"   {html.unescape(text)}" for text in texts if text))


def page_addresses(study: Study, benchmark: Job, client: Client) -> dict[str, str]:
    """Return the pages that reproduce an item by the beginning of their description."""
    reply = f"/dashboard/benchmark/replies/{benchmark.pk}/0/?metric=grade_lite&source=grade/dailydialog"
    client.post(reply)
    run_job(Job.objects.get(kind=EXPLANATION_KIND))
    return {
        "*Metrics against human ratings*, a cell": reply.replace("replies/", "").replace("/0/", "/rouge_l/"),
        "*Metrics against human ratings* → *Replies*": reply,
        "*Preview*": f"/preview/{study.key}/chat/",
    }


def tables_of(document: Document) -> dict[str, list[tuple[str, PageTable, tuple[str, ...]]]]:
    """Return the tables of a report by item, and reasons of items without one."""
    by_item: dict[str, list[tuple[str, PageTable, tuple[str, ...]]]] = {}
    for chapter in document.chapters:
        item = chapter.title.partition(".")[0]
        for part in chapter.parts:
            by_item.setdefault(item, []).append((part.title, part.table, ()))
        if not chapter.parts:
            by_item.setdefault(item, []).append((chapter.title, PageTable([], []), chapter.missing))
    return by_item


def test_all_items_of_the_papers_are_printed_from_small_data(tmp_path: Path) -> None:
    study = make_rated_study(tmp_path)
    benchmark = make_benchmark()
    client = signed_in(Right.READ, Right.RUN, Right.ADMINISTER)
    addresses = page_addresses(study, benchmark, client)
    assert not Job.objects.filter(state="failed").exists(), list(Job.objects.values_list("error", flat=True))
    run_job(report_ask(study=study, like="ghandeharioun2019"))
    made = report_newest(study, like="ghandeharioun2019")
    assert made is not None
    documents = {"ghandeharioun2019": report_read(made)}
    documents |= {paper: benchmark_report(paper) for paper in BENCHMARK_PAPERS}
    n = 0
    for name, paper in papers().items():
        assert documents[name] is not None
        printed = tables_of(documents[name])  # type: ignore[arg-type]
        for item in paper.items:
            if item.kind == "drawing":
                continue
            n += 1
            print(f"\n== {paper.title}, {item.item}: {item.title}")
            if item.kind != "layout":
                print(f"   {item.where.replace('*', '')}")
                for where, address in addresses.items():
                    if item.where.startswith(where):
                        print_page(client, address)
                continue
            for title, table, missing in printed[item.item]:
                print(NamedTable(item.id, title, table).printed() if table.rows else f"   {' '.join(missing)}")
                assert table.rows or missing, (name, item.item)
                for row in table.rows:
                    texts, empty = [cell.text for cell in row], [cell for cell in row if cell.text in ("", "–")]
                    if table.has_footnotes:
                        assert {cell.reason for cell in empty} <= set(GapReason), (name, item.item, texts)
                    else:  # a figure's table, as on its page
                        assert not empty or any(cell.reason or cell.raw != (None,) for cell in row), (name, texts)
    assert n == 53
