"""The command `publish`: the folder, its refusals, and the upload to a local stand-in for the Hub."""

import csv
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml
from django.core.management import CommandError, call_command

from tests.builders import exchange, make_conversation, make_pairwise, make_participant, make_rating, make_study
from webapp.audit.models import PendingEntry
from webapp.conversations.models import Conversation
from webapp.core.errors import Refused
from webapp.ratings.models import Rating
from webapp.studies.models import Participant, Study
from webapp.transfer.import_mappings import check_licences
from webapp.transfer.models import ImportedFile, RedactionHit
from webapp.transfer.redaction.review import hit_decide, review_finish, texts_search


@pytest.fixture
def study(db: None) -> Study:
    """Return a study of two rated chats; one text has an address, one is a formula."""
    study = make_study("public")
    for text in ("Write to vera@example.org.", "=HYPERLINK(1)"):
        chat = make_conversation(study, entry_nonce=text)
        for number in range(3):
            exchange(chat, text if not number else f"m{number}", "I see.")
        make_rating(chat, quality=6)
    return study


def publish(study: Study, folder: Path, **options: Any) -> None:
    call_command("publish", study=study.key, licence="cc-by-4.0", output=folder, **options)


def finish_review(study: Study) -> None:
    texts_search(study=study)
    for hit in RedactionHit.objects.filter(study=study):
        hit_decide(study=study, pk=hit.pk, decision="replace")
    review_finish(study=study)


def test_unreviewed_texts_are_refused(study: Study, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(CommandError, match=r"review of \d+ texts .* 1 hits are undecided"):
        publish(study, tmp_path / "d")
    assert not (tmp_path / "d").exists()
    publish(study, tmp_path / "d", unreviewed=True)
    assert "NOT reviewed by a person: 1 hits replaced" in capsys.readouterr().out
    assert "review is not finished" in (tmp_path / "d" / "README.md").read_text("utf-8")
    with pytest.raises(CommandError, match="not empty"):
        publish(study, tmp_path / "d", unreviewed=True)


def test_imported_data_need_a_statement(study: Study, tmp_path: Path) -> None:
    finish_review(study)
    Conversation.objects.filter(study=study).update(source=Conversation.Source.IMPORT)
    with pytest.raises(CommandError, match="redistributable"):
        publish(study, tmp_path / "d")
    publish(study, tmp_path / "d", redistributable=True)
    assert (tmp_path / "d" / "README.md").is_file()


@pytest.mark.parametrize(
    ("licence", "needs_statement", "refusal"),
    [
        ("CC-BY-4.0", False, ""),
        ("CC0 1.0", False, ""),
        ("Our own terms", True, ""),
        ("", True, ""),
        ("Research use only, not redistributable", True, "does not allow redistribution"),
        ("CC BY-NC-ND 4.0", True, "does not allow redistribution"),
        ("CC-BY-NC-4.0", True, "non-commercial use only"),
        ("CC BY-SA 4.0", True, "share alike"),
    ],
)
def test_the_licence_of_imported_files_decides(
    study: Study, tmp_path: Path, licence: str, needs_statement: bool, refusal: str
) -> None:
    finish_review(study)
    Conversation.objects.filter(study=study).update(source=Conversation.Source.IMPORT)
    ImportedFile.objects.create(study=study, name="chats.csv", licence=licence)
    if needs_statement:
        with pytest.raises(CommandError, match=refusal or "without a known free licence"):
            publish(study, tmp_path / "d")
    if refusal:  # the researcher's statement does not overrule a licence
        with pytest.raises(CommandError, match=rf"'chats.csv', '{licence}', .*{refusal}"):
            publish(study, tmp_path / "d", redistributable=True)
        return
    publish(study, tmp_path / "d", redistributable=needs_statement)
    assert (tmp_path / "d" / "README.md").is_file()


@pytest.mark.parametrize(
    ("licence", "target", "refusal"),
    [
        ("CC BY-SA 4.0", "cc-by-nc-sa-4.0", "share alike"),
        ("CC BY-SA 4.0", "cc-by-sa-4.0", ""),
        ("CC BY-NC-SA 4.0", "cc-by-sa-4.0", "non-commercial use only"),
        ("ODbL 1.0", "cc-by-sa-4.0", "share alike"),
        ("ODbL 1.0", "odbl", ""),
        ("CC BY NC ND 4.0", "cc-by-nc-4.0", "does not allow redistribution"),
    ],
)
def test_data_under_share_alike_keep_their_licence(study: Study, licence: str, target: str, refusal: str) -> None:
    ImportedFile.objects.create(study=study, name="chats.csv", licence=licence)
    if refusal:
        with pytest.raises(Refused, match=refusal):
            check_licences(study, target)
    else:
        assert check_licences(study, target)


def test_free_scores_do_not_make_data_of_unknown_licence_free(study: Study) -> None:
    ImportedFile.objects.create(study=study, name="s.csv", licence="MIT", mapping={"metrics": ["maude"]})
    assert not check_licences(study, "cc-by-4.0")


def test_every_tool_finds_its_file_without_personal_data(study: Study, tmp_path: Path) -> None:
    finish_review(study)
    folder = tmp_path / "d"
    publish(study, folder)
    files = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert [name for name, content in files.items() if b"vera@" in content] == []
    people = {str(pk).encode() for pk in Participant.objects.values_list("pk", flat=True)}
    assert [name for name, content in files.items() if any(pk in content for pk in people)] == []
    head = yaml.safe_load(files["README.md"].decode().split("---\n")[1])
    assert head["license"] == "cc-by-4.0"
    for config in head["configs"]:
        assert config["data_files"][0]["path"] in files
    texts = pq.read_table(folder / "data" / "turns.parquet").column("text").to_pylist()
    assert "Write to [EMAIL_1]." in texts
    assert files["csv/turns.csv"].startswith(b"\xef\xbb\xbf")
    cells = list(csv.DictReader(files["csv/turns.csv"].decode("utf-8-sig").splitlines()))
    assert "'=HYPERLINK(1)" in {row["text"] for row in cells}
    chats = [json.loads(line) for line in files["messages.jsonl"].splitlines()]
    assert chats[0]["messages"][:2] == [
        {"role": "user", "content": "Write to [EMAIL_1]."},
        {"role": "assistant", "content": "I see."},
    ]
    assert chats[0]["ratings"][0]["quality"] == 6
    nested = pq.read_table(folder / "data" / "messages.parquet").to_pylist()
    assert nested[0]["messages"] == chats[0]["messages"]
    assert nested[0]["ratings"][0]["quality"] == 6
    rater = chats[0]["ratings"][0]["rater"]
    assert rater in {row["rater"] for row in csv.DictReader(files["csv/ratings.csv"].decode("utf-8-sig").splitlines())}
    task = json.loads(files["label_studio.json"])[0]
    config = files["label_studio.xml"].decode()
    for result in task["annotations"][0]["result"]:
        assert f'name="{result["from_name"]}"' in config
        assert result["value"] == {"number": chats[0]["ratings"][0][result["from_name"]]}
    record = json.loads(files["argilla.json"])[0]
    assert record.keys() == {"id", "fields", "metadata", "suggestions", "responses", "vectors", "_server_id"}
    assert record["responses"]["quality"][0]["value"] == 6
    assert "lme4::lmer(quality ~ bot + (1 | rater), data = ratings)" in files["load.R"].decode()
    entry = PendingEntry.objects.latest("pk")
    assert entry.parameters["table"] == "dataset"


@pytest.mark.django_db
def test_preferences_name_the_better_reply(tmp_path: Path) -> None:
    study = make_pairwise(n_items=2)
    first, second = study.items.order_by("pk")
    person = make_participant(study)
    for item, answer in ((first, 1), (second, -1)):
        question = study.rubric.dimensions.first().key  # type: ignore[union-attr]
        Rating.objects.create(
            item=item,
            participant=person,
            rubric=study.rubric,
            answers={question: answer},
            submitted_at=person.created_at,
        )
    publish(study, tmp_path / "d", unreviewed=True)
    pairs = [json.loads(line) for line in (tmp_path / "d" / "preferences.jsonl").read_text("utf-8").splitlines()]
    assert not (tmp_path / "d" / "messages.jsonl").exists(), "the study has items only"
    assert [pair["chosen"][0]["content"] for pair in pairs] == [first.responses[0]["text"], second.responses[1]["text"]]
    assert [pair["rejected"][0]["content"] for pair in pairs] == [
        first.responses[1]["text"],
        second.responses[0]["text"],
    ]


class _Hub(BaseHTTPRequestHandler):
    """Stand-in for the Hub's API: creates a repository and takes a commit of small files."""

    def _answer(self, body: Any, status: int = 200) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self) -> None:
        self._answer({"id": "lab/public", "sha": "0" * 40, "siblings": []})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        hub: Any = self.server
        hub.requests.append((self.path, body))
        if "/preupload/" in self.path:
            files = json.loads(body)["files"]
            modes = [{"path": file["path"], "uploadMode": "regular", "shouldIgnore": False} for file in files]
            self._answer({"files": modes})
        elif "/commit/" in self.path:
            address = f"http://127.0.0.1:{hub.server_port}/datasets/lab/public/commit/{'1' * 40}"
            self._answer({"commitUrl": address, "commitOid": "1" * 40, "pullRequestUrl": None})
        else:
            self._answer({"url": f"http://127.0.0.1:{hub.server_port}/datasets/lab/public"})

    def log_message(self, *_args: Any) -> None:
        """Print nothing."""


@pytest.fixture
def hub() -> Iterator[Any]:
    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), _Hub)
    server.requests = []
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def test_an_upload_needs_yes_and_sends_every_file(
    study: Study, tmp_path: Path, hub: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_test")
    finish_review(study)
    endpoint = f"http://127.0.0.1:{hub.server_port}"
    publish(study, tmp_path / "dry", upload="lab/public", endpoint=endpoint)
    assert hub.requests == []
    publish(study, tmp_path / "d", upload="lab/public", endpoint=endpoint, yes=True)
    created = json.loads(next(body for path, body in hub.requests if path == "/api/repos/create"))
    assert created["type"] == "dataset"
    assert created.get("private") is True or created.get("visibility") == "private"
    commit = next(body for path, body in hub.requests if "/commit/" in path)
    sent = {json.loads(line)["value"]["path"] for line in commit.splitlines() if b'"file"' in line}
    assert sent == {str(path.relative_to(tmp_path / "d")) for path in (tmp_path / "d").rglob("*") if path.is_file()}
