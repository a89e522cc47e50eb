"""Calls about the installation, its bots and the benchmark."""

from pathlib import Path

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from chatbots.registry import bot_get
from tests.builders import make_study
from tests.webapp.api.programs import Program
from webapp.bots.models import BotHealth
from webapp.core.rights import Right
from webapp.jobs.models import Job

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("api_afresh")]


def test_bots_have_health_and_cards() -> None:
    BotHealth.objects.create(bot_id="eliza", n_failed=3, reason="no route to it")
    program = Program(Right.READ)
    listed = {one["id"]: one for one in program.get("bots").json()}
    assert listed["eliza"]["health"]["reason"] == "no route to it"
    assert listed["parrot"]["health"] is None
    body = program.get("bots/eliza").json()
    assert body["description"] == bot_get("eliza").description
    assert body["health"]["n_failed"] == 3
    assert body["card"] is None
    assert program.get("bots/elsa").status_code == 404


def test_a_broken_entry_is_a_bot_with_a_reason(tmp_path: Path) -> None:
    (tmp_path / "bots.yaml").write_text("- {id: broken, kind: endpoint, params: {}}\n")
    program = Program(Right.READ)
    response = program.get("bots/broken")
    assert response.status_code == 200
    assert response.json()["is_available"] is False
    assert response.json()["reason"]


def test_the_state_of_the_installation() -> None:
    body = Program(Right.READ).get("system").json()
    assert {"replies", "default"} <= {queue["name"] for queue in body["queues"]}
    assert 0 < body["room"]["free"] <= body["room"]["total"]


def test_the_benchmark_is_asked_for_and_read() -> None:
    program = Program(Right.READ, Right.RUN)
    assert program.get("benchmark").json()["rows"] == []
    make_study("shop")
    response = program.post("benchmark", {"study": "shop", "metrics": ["words_bot"]})
    assert response.status_code == 202
    assert Job.objects.get(kind="benchmark").payload["metrics"] == ["words_bot"]
    [job] = program.get("benchmark", by="kendall").json()["jobs"]
    assert job["id"] == response.json()["id"]
    line = b'{"id":"1","context":["hi"],"response":"ho","ratings":[{"quality":3}]}\n'
    sent = program.client.post(
        "/api/v1/benchmark/files", {"file": SimpleUploadedFile("judged.jsonl", line), "metrics": "words_bot"}
    )
    assert sent.status_code == 202, sent.content
    assert Job.objects.filter(kind="benchmark").count() == 2
    near = program.post("benchmark", {"study": "shop", "metrics": ["words"]})
    assert near.status_code == 400
    assert program.get("benchmark", by="phi").status_code == 422
    assert program.post("benchmark/999/again").status_code == 404
    assert Program(Right.READ, name="r2").post("benchmark", {"study": "shop"}).status_code == 403
