"""The client has a method for every call that OpenAPI describes, and each method makes its call."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from evaluation.remote import RemoteJob, Server
from tests.documents import ROOT
from webapp.api.urls import api

JOB = RemoteJob("selfplay", 3, "", "done", True, 1, 1)
ID = "00000000-0000-0000-0000-000000000000"
NO_METHOD: dict[str, str] = {}
"""Calls without a method of their own, by operation id, each with the reason."""
WITHOUT_CALL = {"wait": "it asks `job` again and again"}
"""Methods that stand for no call, each with the reason."""

METHODS: dict[str, Callable[[Server, Path], Any]] = {
    "analysis_start": lambda lab, to: lab.analyse("k"),
    "benchmark": lambda lab, to: lab.benchmark(),
    "benchmark_again": lambda lab, to: lab.benchmark_again(3),
    "benchmark_ask": lambda lab, to: lab.benchmark_ask("k"),
    "benchmark_file": lambda lab, to: lab.benchmark_file(to / "sent.jsonl", ["bleu"]),
    "bot": lambda lab, to: lab.bot("eliza"),
    "bots": lambda lab, to: lab.bots(),
    "conversation": lambda lab, to: lab.conversation(ID),
    "conversations": lambda lab, to: list(lab.conversations("k")),
    "conversations_bring": lambda lab, to: lab.bring("k", to / "sent.jsonl"),
    "datasheet": lambda lab, to: lab.datasheet("k"),
    "datasheet_md": lambda lab, to: lab.datasheet_file("k", to / "got"),
    "fit": lambda lab, to: lab.fit(3),
    "fit_file": lambda lab, to: lab.fit_file(3, to / "got"),
    "fit_start": lambda lab, to: lab.hybrid("k"),
    "fits": lambda lab, to: lab.fits("k"),
    "flags": lambda lab, to: lab.flags("k"),
    "items_draw": lambda lab, to: lab.items_draw("k", run=3),
    "job": lambda lab, to: lab.job(JOB),
    "job_go_on": lambda lab, to: lab.go_on(JOB),
    "job_stop": lambda lab, to: lab.stop(JOB),
    "jobs": lambda lab, to: lab.jobs(),
    "leaderboard": lambda lab, to: lab.leaderboard("k"),
    "live": lambda lab, to: lab.live("k"),
    "me": lambda lab, to: lab.me(),
    "metrics": lambda lab, to: lab.metrics(),
    "note_add": lambda lab, to: lab.note(ID, "Odd."),
    "note_remove": lambda lab, to: lab.note_remove(ID, 3),
    "overview": lambda lab, to: lab.overview("k"),
    "package": lambda lab, to: lab.package("k", to / "got"),
    "pairs": lambda lab, to: lab.pairs("k"),
    "rehearsal_start": lambda lab, to: lab.rehearse("k"),
    "report": lambda lab, to: lab.report("k"),
    "report_html": lambda lab, to: lab.report_file("k", to / "got"),
    "report_make": lambda lab, to: lab.report_make("k"),
    "result": lambda lab, to: lab.result("k", "raters"),
    "run": lambda lab, to: lab.run(3),
    "run_conversations": lambda lab, to: list(lab.conversations(run=3)),
    "run_measure": lambda lab, to: lab.measure(run=3),
    "run_search_forget": lambda lab, to: lab.search_forget(name="bad ones", run=3),
    "run_search_keep": lambda lab, to: lab.search_keep(name="bad ones", q="turns<3", run=3),
    "run_searches": lambda lab, to: lab.searches(run=3),
    "run_start": lambda lab, to: lab.selfplay(["eliza"]),
    "run_table": lambda lab, to: lab.run_table(3, "bots", to / "got"),
    "run_tables": lambda lab, to: lab.run_tables(),
    "runs": lambda lab, to: lab.runs(),
    "runs_compare": lambda lab, to: lab.runs_compare([3, 4], columns=["words_bot"]),
    "search_forget": lambda lab, to: lab.search_forget("k", "bad ones"),
    "search_keep": lambda lab, to: lab.search_keep("k", "bad ones", "quality<3"),
    "searches": lambda lab, to: lab.searches("k"),
    "star": lambda lab, to: lab.star(ID),
    "star_remove": lambda lab, to: lab.unstar(ID),
    "studies": lambda lab, to: lab.studies(),
    "study": lambda lab, to: lab.study_counts("k"),
    "study_file": lambda lab, to: lab.study_file("k"),
    "study_make": lambda lab, to: lab.study_make({"key": "k"}),
    "study_measure": lambda lab, to: lab.measure(study="k"),
    "study_metrics": lambda lab, to: lab.metrics_progress("k"),
    "system": lambda lab, to: lab.system(),
    "table": lambda lab, to: lab.table("k", "ratings", to / "got"),
    "tables": lambda lab, to: lab.tables(),
    "tag_add": lambda lab, to: lab.tag(ID, "odd"),
    "tag_remove": lambda lab, to: lab.untag(ID, "odd"),
    "votes": lambda lab, to: lab.votes("k"),
}


def operations() -> dict[str, tuple[str, str]]:
    """Return the method and the path of every call, by operation id."""
    return {
        operation["operationId"]: (method.upper(), path)
        for path, methods in api.get_openapi_schema()["paths"].items()
        for method, operation in methods.items()
    }


class Recorder:
    """A server that notes what is asked of it, and answers what fits most calls."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append((request.method, request.url.path))
        job = {name: getattr(JOB, name) for name in JOB.__slots__}
        whole = {**job, "items": [], "count": 0, "after": "", "job": None}
        is_list = request.url.path.endswith(("/jobs", "/bots", "tables"))
        return httpx.Response(200, text=json.dumps([] if is_list else {**whole, "result": {}}))


def test_every_call_has_a_method_and_every_method_a_call(tmp_path: Path) -> None:
    described = operations()
    assert len(described) > 50
    assert METHODS.keys() | NO_METHOD.keys() == described.keys(), (
        "give `Server` a method for a new call, and name it here"
    )
    (tmp_path / "sent.jsonl").write_text("{}\n")
    public = {name for name in dir(Server) if not name.startswith("_")}
    used: set[str] = set()

    class Noting(Server):
        def __getattribute__(self, name: str) -> Any:
            if name in public:
                used.add(name)
            return super().__getattribute__(name)

    for operation, call in METHODS.items():
        recorder = Recorder()
        lab = Noting("http://lab", "confab_x", transport=httpx.MockTransport(recorder))
        call(lab, tmp_path)
        method, path = described[operation]
        pattern = re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(path))
        [(asked_method, asked_path)] = recorder.asked
        assert asked_method == method, operation
        assert re.fullmatch(pattern, asked_path), (operation, asked_path)
        first = next(
            name for name, one in described.items()
            if one[0] == method and re.fullmatch(re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(one[1])), asked_path)
        )  # fmt: skip
        assert first == operation, "of two addresses that fit, the server calls the first"
    assert public - used == WITHOUT_CALL.keys() | {"study"}, (
        "`study` reads what `package` writes; any other method needs its call above"
    )


def test_the_documentation_names_every_method() -> None:
    text = (ROOT / "docs" / "reference" / "api.md").read_text(encoding="utf-8")
    shown = {name for line in text.splitlines() if line.startswith("| `") for name in re.findall(r"`(\w+)\(", line)}
    assert shown == {name for name in dir(Server) if not name.startswith("_")}


def test_what_can_be_sent_twice_is_sent_again_where_the_server_was_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evaluation.remote.client._AGAIN_S", (0.0,))
    answers = iter([httpx.Response(503, headers={"Retry-After": "0"}), httpx.Response(200, json={})])
    lab = Server("http://lab", "confab_x", transport=httpx.MockTransport(lambda request: next(answers)))
    assert lab.tag(ID, "odd") == {}
    assert next(answers, None) is None
