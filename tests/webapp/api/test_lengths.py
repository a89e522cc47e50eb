"""Texts too long for their columns, by every field of every call: refused or stored, never a server error."""

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from tests.builders import make_conversation, make_rating, make_study
from tests.webapp.api.programs import Program, openapi
from webapp.core.errors import Refused
from webapp.core.rights import Right
from webapp.jobs.engine import run_job
from webapp.jobs.models import Job
from webapp.jobs.services.jobs import job_create

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("api_afresh")]

LONG = "x" * 25_000
LONGER_THAN_KEYS = "x" * 201
"""Some texts may be so long that only a shorter one gets as far as the columns of names."""
STUDY = {"key": "made", "name": "Made", "bots": ["eliza"], "protocol": "chat"}
SAID = {
    "study_make": STUDY,
    "conversation_tag": {"text": "t"},
    "conversation_note": {"text": "t"},
    "search_keep": {"name": "n", "q": "words>1"},
    "run_start": {"bots": ["eliza"], "conversations": 1, "turns": 1},
}
"""Bodies that are taken, by call; of others the fields that they must have are made up."""


@pytest.mark.postgres  # SQLite has no lengths
def test_no_text_is_too_long_for_a_call(settings: Any) -> None:
    settings.CONFAB_API_RATE = "100000/s"
    chat = make_conversation(make_study("shop"), n_exchanges=3)
    make_rating(chat)
    program = Program(*Right)
    schema = openapi()
    n = 0
    for path, methods in schema["paths"].items():
        where = path.removeprefix("/api/v1/").replace("{key}", "shop").replace("{kind}", "results")
        where = where.replace("{id}", str(chat.pk) if "conversations" in path else "1")
        for method, call in methods.items():
            content = call.get("requestBody", {}).get("content", {})
            if method != "post" or "application/json" not in content:
                continue
            parts = schema["components"]["schemas"]
            described = content["application/json"]["schema"]
            for leaf in _texts(described, parts):
                for text in (LONG, LONGER_THAN_KEYS):
                    body = _with(copy.deepcopy(SAID.get(call["operationId"], {})), leaf, text)
                    response = program.post(where, body)
                    assert response.status_code < 500, (path, leaf, len(text))
                    n += 1
    assert n > 200


def _texts(node: Any, parts: Any, seen: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the paths of all texts of a schema; `*` is an element of a list."""
    if "$ref" in node:
        name = node["$ref"].rpartition("/")[2]
        if name not in seen:
            yield from _texts(parts[name], parts, (*seen, name))
    for kind in ("anyOf", "oneOf", "allOf"):
        for one in node.get(kind, ()):
            yield from _texts(one, parts, seen)
    if node.get("type") == "string":
        yield ()
    if node.get("type") == "array":
        yield from (("*", *path) for path in _texts(node["items"], parts, seen))
    for name, one in node.get("properties", {}).items():
        yield from ((name, *path) for path in _texts(one, parts, seen))
    if isinstance(node.get("additionalProperties"), dict):
        yield from (("k", *p) for p in _texts(node["additionalProperties"], parts, seen))


def _with(value: Any, path: tuple[str, ...], text: str) -> Any:
    if not path:
        return text
    name, *rest = path
    if name == "*":
        return [_with({}, tuple(rest), text)]
    inside = value.get(name, {}) if isinstance(value, dict) else {}
    return {**(value if isinstance(value, dict) else {}), name: _with(inside, tuple(rest), text)}


LINE = {
    "dialogue_id": "d",
    "bot": "b",
    "turns": [{"speaker": "human", "text": "hi"}, {"speaker": "bot", "text": "hello"}],
    "ratings": [{"rater": "r", "quality": 3, "comment": "c"}],
    "meta": {"k": "v"},
}


@pytest.mark.postgres
@pytest.mark.parametrize(
    "path",
    [
        ("dialogue_id",),
        ("bot",),
        ("turns", 1, "text"),
        ("turns", 1, "speaker"),
        ("turns", 1, "bot"),
        ("turns", 1, "model"),
        ("ratings", 0, "rater"),
        ("ratings", 0, "comment"),
        ("ratings", 0, LONG),
        ("ratings", 0, LONGER_THAN_KEYS),
        ("ratings", 0, "x" * 51),
        ("meta", "k"),
        ("meta", LONG),
        ("language",),
    ],
    ids=lambda path: "-".join(str(part)[:12] + str(len(str(part))) for part in path),
)
@pytest.mark.parametrize("text", [LONG, LONGER_THAN_KEYS], ids=len)
def test_no_text_of_a_file_is_too_long_for_an_import(path: tuple[Any, ...], text: str) -> None:
    program = Program(*Right)
    line = copy.deepcopy(LINE)
    *above, last = path
    inside: Any = line
    for part in above:
        inside = inside[part]
    inside[last] = 3 if last.startswith("x") and above[:1] == ["ratings"] else text
    file = "\n".join(json.dumps(one) for one in (line, {**LINE, "dialogue_id": "d2"})).encode()
    sent = program.client.post("/api/v1/studies/mine/conversations", {"file": SimpleUploadedFile("x.jsonl", file)})
    assert sent.status_code in (202, 400, 422), sent.content
    if sent.status_code == 202:
        job = Job.objects.get()
        run_job(job)
        job.refresh_from_db()
        assert "DataError" not in job.error
        assert "value too long" not in job.error
        assert (job.state, job.result.get("conversations", 0) >= 1) == ("done", True), job.error


@pytest.mark.parametrize("key", ["k" * 61, "", "a b", "ä"])
def test_an_import_into_a_key_that_forms_refuse_is_refused(tmp_path: Path, key: str) -> None:
    file = tmp_path / "x.jsonl"
    file.write_text(json.dumps(LINE))
    with pytest.raises(Refused) as refused:
        job_create(kind="import", payload={"file": str(file), "study": key})
    assert refused.value.code == "bad_key"
    assert not Job.objects.exists()


def test_a_call_refuses_a_long_study_key_as_forms_do() -> None:
    program = Program(*Right)
    sent = program.client.post(
        f"/api/v1/studies/{'k' * 61}/conversations", {"file": SimpleUploadedFile("x.jsonl", json.dumps(LINE).encode())}
    )
    assert (sent.status_code, sent.json()["error"]["code"]) == (400, "bad_key")
    assert program.post("studies", {**STUDY, "key": "k" * 61}).status_code == 422
