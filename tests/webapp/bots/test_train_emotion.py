"""The command `train_emotion`: what it passes on, what it prints, how it refuses."""

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from chatbots.encoders.emotion import EMOTION_HEAD_FOLDER
from chatbots.encoders.sentence import EncoderError
from webapp.bots.management.commands import train_emotion


def test_one_document_tells_what_was_trained(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, settings: Any) -> None:
    """The shipped head's own manifest stands in for a training of minutes."""
    values: list[Any] = []

    def trained(*arguments: Any) -> dict[str, Any]:
        values.extend(arguments)
        return json.loads((EMOTION_HEAD_FOLDER / "manifest.json").read_text(encoding="utf-8"))

    monkeypatch.setattr(train_emotion, "emotion_train", trained)
    settings.CONFAB_DEVICE = "cuda:1"
    out = StringIO()
    where = ("--output", str(tmp_path), "--measure", "a.jsonl", "b.jsonl")
    call_command("train_emotion", "--data", "comments.jsonl", *where, "--json", stdout=out)
    assert values == [
        Path("comments.jsonl"),
        EMOTION_HEAD_FOLDER / "training.yaml",
        tmp_path,
        [Path("a.jsonl"), Path("b.jsonl")],
        "cuda:1",
    ]
    document = json.loads(out.getvalue())
    assert document["checkpoint"] == str(tmp_path)
    assert document["epochs"] >= document["best"]["epoch"] >= 1
    assert 0.3 < document["best"]["test_macro_f1"] < 1


def test_a_missing_sentence_encoder_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(*_: Any) -> None:
        raise EncoderError("sentence encoder 'minilm': not installed")

    monkeypatch.setattr(train_emotion, "emotion_train", absent)
    with pytest.raises(CommandError, match="minilm"):
        call_command("train_emotion", "--data", "comments.jsonl")


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "No such file"), ('{"split": "train"}', "line 1"), ("", "no comments in the part 'train'")],
)
def test_data_that_cannot_be_used_is_told_in_one_line(tmp_path: Path, content: str | None, message: str) -> None:
    data = tmp_path / "comments.jsonl"
    if content is not None:
        data.write_text(content, encoding="utf-8")
    with pytest.raises(CommandError, match=message) as caught:
        call_command("train_emotion", "--data", str(data), "--output", str(tmp_path / "head"))
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "head").exists()
