"""The client has a method for every call of OpenAPI; docs/reference/api.md has each in its table, and true calls."""

import json
import re
import shlex
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from django.test import Client
from ninja.constants import NOT_SET

from evaluation.remote import RemoteJob, Server
from tests.builders import calls_forget, make_conversation, make_rating, make_staff, make_study
from tests.documents import ROOT, blocks_tested
from tests.webapp.api.programs import openapi
from webapp.api.urls import api
from webapp.core.authentication import token_make
from webapp.core.rights import Right

pytestmark = pytest.mark.django_db


JOB = RemoteJob("selfplay", 3, "", "done", True, 1, 1)
ID = "00000000-0000-0000-0000-000000000000"
NO_METHOD: dict[str, str] = {}
"""Calls without a method of their own, by operation id, each with the reason."""
WITHOUT_CALL = {"wait": "it asks `job` again and again"}
"""Methods that stand for no call, each with the reason."""

METHODS: dict[str, Callable[[Server, Path], Any]] = {
    "analysis_start": lambda lab, to: lab.analyse("k"),
    "audit": lambda lab, to: list(lab.audit()),
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
    "judges": lambda lab, to: lab.judges(),
    "judges_ask": lambda lab, to: lab.judges_ask("k", ["judge"]),
    "job": lambda lab, to: lab.job(JOB),
    "job_go_on": lambda lab, to: lab.go_on(JOB),
    "job_stop": lambda lab, to: lab.stop(JOB),
    "jobs": lambda lab, to: lab.jobs(),
    "leaderboard": lambda lab, to: lab.leaderboard("k"),
    "live": lambda lab, to: lab.live("k"),
    "me": lambda lab, to: lab.me(),
    "metric_delete": lambda lab, to: lab.metric_delete("usr"),
    "metrics": lambda lab, to: lab.metrics(),
    "note_add": lambda lab, to: lab.note(ID, "Odd."),
    "note_remove": lambda lab, to: lab.note_remove(ID, 3),
    "overview": lambda lab, to: lab.overview("k"),
    "package": lambda lab, to: lab.package("k", to / "got"),
    "pairs": lambda lab, to: lab.pairs("k"),
    "plan": lambda lab, to: lab.plan("k"),
    "rehearsal_start": lambda lab, to: lab.rehearse("k"),
    "realism": lambda lab, to: lab.realism("k", 3),
    "report": lambda lab, to: lab.report("k"),
    "report_html": lambda lab, to: lab.report_file("k", to / "got"),
    "report_make": lambda lab, to: lab.report_make("k"),
    "result": lambda lab, to: lab.result("k", "raters"),
    "run": lambda lab, to: lab.run(3),
    "run_conversations": lambda lab, to: list(lab.conversations(run=3)),
    "run_measure": lambda lab, to: lab.measure(run=3),
    "run_scores_bring": lambda lab, to: lab.scores_bring(to / "sent.jsonl", run=3),
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
    "simulation_start": lambda lab, to: lab.simulate("k"),
    "star": lambda lab, to: lab.star(ID),
    "star_remove": lambda lab, to: lab.unstar(ID),
    "studies": lambda lab, to: lab.studies(),
    "study": lambda lab, to: lab.study_counts("k"),
    "study_file": lambda lab, to: lab.study_file("k"),
    "study_make": lambda lab, to: lab.study_make({"key": "k"}),
    "scores_bring": lambda lab, to: lab.scores_bring(to / "sent.jsonl", study="k"),
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
        for path, methods in openapi()["paths"].items()
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


CURL = ArgumentParser("curl")
CURL.add_argument("-H", dest="header")
CURL.add_argument("-o", dest="output")
CURL.add_argument("--form", action="append", default=[])
CURL.add_argument("--json")
CURL.add_argument("url")


def called(command: str, folder: Path) -> Any:
    """Make the call that a command makes, and return the answer."""
    name, *words = shlex.split(command)
    assert name == "curl"
    args = CURL.parse_args(words)
    title, _, value = args.header.partition(": ")
    client = Client(headers={title: value})
    if args.json:
        return client.post(args.url, args.json, content_type="application/json")
    if not args.form:
        return client.get(args.url)
    form: dict[str, Any] = {}
    for field in args.form:
        key, _, text = field.partition("=")
        form[key] = (folder / text[1:]).open("rb") if text.startswith("@") else text
    return client.post(args.url, form)


def test_the_calls_that_the_documentation_shows(settings: Any, tmp_path: Path) -> None:
    calls_forget()
    settings.DATA_DIR = tmp_path
    settings.CONFAB_BOTS = str(tmp_path / "bots.yaml")
    make_rating(make_conversation(make_study("lab"), n_exchanges=3))
    rights = [Right.READ, Right.RUN]
    token = token_make(user=make_staff(*rights), name="ci", rights=rights)[1]
    (tmp_path / "more.jsonl").write_text("{}\n")
    [block] = blocks_tested("tests/webapp/api/test_client_calls.py::test_the_calls_that_the_documentation_shows")
    commands = block.text.replace("$TOKEN", token).replace("$URL", "").splitlines()
    *asked, following = commands
    answers = [called(command, tmp_path) for command in asked]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 200, 202, 202, 202]
    assert [item["key"] for item in answers[0].json()["items"]] == ["lab"]
    assert b"".join(answers[1].streaming_content).startswith(b"rating,conversation,bot")
    assert [item["figures"] for item in answers[2].json()["items"]] == [{"quality": 4.0}]
    [place] = answers[3].json()["document"]["places"]
    assert place["mean"] == 4
    assert (answers[4].json()["kind"], answers[5].json()["kind"]) == ("report", "import")
    assert answers[6].json()["n_total"] == 10
    made = answers[6].json()["id"]
    followed = called(following.replace("selfplay/1", f"selfplay/{made}"), tmp_path)
    assert followed.json()["state"] == "queued"


CALL = re.compile(r"\| `(GET|POST|PUT|PATCH|DELETE) ")


def calls() -> Iterator[tuple[str, str, Any, Any]]:
    """Yield the path, the method, the operation and what lets a token through of every call."""
    for _prefix, router in api._routers:
        for path, view in router.path_operations.items():
            for operation in view.operations:
                for method in operation.methods:
                    auth_param = operation.auth_param
                    yield path, method, operation, router.auth if auth_param is NOT_SET else auth_param


def row_of(path: str, method: str, operation: Any, token: Any) -> str:
    """Return a call's line; the right to read is the ground of all, and named only where it is alone."""
    rights = [right.value for right in token.rights if right is not Right.READ] or ["read"]
    shown = "/" + path.lstrip("/")
    for name in ("key", "id", "kind", "name", "note", "part", "table"):
        shown = shown.replace(f"{{{name}}}", name.upper())
    splitline = operation.view_func.__doc__.strip().splitlines()[0]
    return f"| `{method} {shown}` | {', '.join(rights)} | {splitline} |"


def test_the_table_has_every_call_with_its_right_and_what_it_does() -> None:
    expected = [row_of(*call) for call in sorted(calls(), key=lambda call: call[:2])]
    text = (ROOT / "docs" / "reference" / "api.md").read_text(encoding="utf-8")
    splitlines = [line for line in text.splitlines() if CALL.match(line)]
    assert splitlines == expected, "put these lines there:\n" + "\n".join(expected)
