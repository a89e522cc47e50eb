"""Checkpoints and gzip files: read as written, refused when damaged, and a full disk is no damage."""

import errno
import gzip
import json
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from chatbots.checkpoints import (
    CheckpointError,
    Manifest,
    checkpoint_load,
    checkpoint_manifest,
    checkpoint_write,
    missing_reason,
)
from chatbots.compressed_files import damage_as_error
from chatbots.corpora.dialogues import CorpusError, corpus_read
from chatbots.corpora.formats.reddit import conversations_read
from chatbots.corpora.vocabulary import SOS, SPECIAL_TOKENS, Vocabulary
from chatbots.encoders.deepmoji import vocabulary_read
from chatbots.encoders.emotion_training import goemotions_read
from chatbots.models.batch import DialogueBatch, ReplySeeds
from evaluation.models.grade_graph import graph_read
from tests.chatbots.models.builders import CONVERSATIONS, EI, MODELS, TINY, tiny

VOCABULARY = Vocabulary((*SPECIAL_TOKENS, *"abcdefg"))
GIVEN = Manifest(tokeniser="words-1", corpus="c0ffee", metrics={"ppl": 3.5, "kl": None}, training={"epochs": 2})


def first_logits(model) -> torch.Tensor:
    seeds = [ReplySeeds(conversation=i, sentence=100 + i) for i in range(len(CONVERSATIONS))]
    state = model.encode_context(DialogueBatch.from_ids(CONVERSATIONS), seeds)
    return model.step(torch.tensor([SOS] * state.n_rows), state)[0]


@pytest.fixture
def written(tmp_path: Path) -> Path:
    checkpoint_write(tmp_path / "bot", tiny("vhred"), VOCABULARY, GIVEN)
    return tmp_path / "bot"


@pytest.mark.parametrize("name", MODELS)
def test_a_model_comes_back_as_it_was(tmp_path: Path, name: str) -> None:
    model = tiny(name)
    checkpoint_write(tmp_path / "bot", model.train(), VOCABULARY, GIVEN)
    result, vocabulary, manifest = checkpoint_load(tmp_path / "bot")
    assert not result.training
    assert vocabulary == VOCABULARY
    assert (manifest.model, manifest.tokeniser) == (name, "words-1")
    assert (manifest.metrics, manifest.training) == (GIVEN.metrics, GIVEN.training)
    assert result.config == model.config
    assert all(p.requires_grad for p in result.parameters())
    torch.testing.assert_close(first_logits(result), first_logits(model.eval()))


def test_half_precision_halves_the_file_and_moves_little(tmp_path: Path) -> None:
    model = tiny("vhcr", ei=EI)
    full = checkpoint_write(tmp_path / "full", model, VOCABULARY, GIVEN)
    half = checkpoint_write(tmp_path / "half", model, VOCABULARY, GIVEN, "float16", drop_heads=True)
    assert half.dropped_heads == ("ei",)
    n_heads = sum(p.numel() for p in model.ei.parameters())
    saved = 2 * model.n_parameters + 2 * n_heads  # bytes, beside the names of the dropped tensors
    assert full.weights_bytes - half.weights_bytes >= saved
    assert half.digest != full.digest
    result = checkpoint_load(tmp_path / "half")[0]
    assert next(result.parameters()).dtype == torch.float32
    torch.testing.assert_close(first_logits(result), first_logits(model), atol=0.02, rtol=0.02)


def test_a_model_that_reads_emotions_keeps_its_width_without_heads(tmp_path: Path) -> None:
    model = tiny("hred", ei={**EI, "input_only": True})
    checkpoint_write(tmp_path / "bot", model, VOCABULARY, GIVEN, drop_heads=True)
    result = checkpoint_load(tmp_path / "bot")[0]
    assert result.context.rnn.input_size == model.context.rnn.input_size
    assert result.ei is None


def test_a_checkpoint_replaces_the_one_before(written: Path) -> None:
    before = checkpoint_manifest(written).digest
    checkpoint_write(written, tiny("hred", seed=5), VOCABULARY, GIVEN)
    assert checkpoint_manifest(written).model == "hred"
    assert checkpoint_manifest(written).digest != before
    assert sorted(p.name for p in written.parent.iterdir()) == ["bot"]


def test_a_failed_write_leaves_the_old_one(written: Path) -> None:
    before = checkpoint_manifest(written)
    model = tiny("vhred")
    with torch.no_grad():
        model.decoder.project.bias[0] = 1e6  # more than half precision holds
    with pytest.raises(ValueError, match=r"decoder\.project\.bias .* float16"):
        checkpoint_write(written, model, VOCABULARY, GIVEN, "float16")
    assert checkpoint_manifest(written) == before
    assert sorted(p.name for p in written.parent.iterdir()) == ["bot"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"dtype": "int8"}, "dtype is 'int8'"),
        ({"vocabulary": Vocabulary(SPECIAL_TOKENS)}, "4 words; the model's V is 11"),
        ({"manifest": Manifest(tokeniser="t", corpus="c", metrics={"ppl": float("nan")})}, "nan"),
    ],
)
def test_what_cannot_be_written_is_refused(tmp_path: Path, change: dict, reason: str) -> None:
    values = {"vocabulary": VOCABULARY, "manifest": GIVEN, **change}
    with pytest.raises(ValueError, match=reason):
        checkpoint_write(tmp_path / "bot", tiny("hred"), **values)
    assert list(tmp_path.iterdir()) == []


def edit_manifest(folder: Path, **values) -> None:
    path = folder / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-3])


def tamper(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-2] ^= 1
    path.write_bytes(content)


def reshape(folder: Path) -> None:
    """Write weights of a wider model under a digest that fits them."""
    wide = checkpoint_write(folder, tiny("vhred", H_d=8), VOCABULARY, GIVEN)
    edit_manifest(folder, config={**wide.config, "H_d": TINY["vhred"]["H_d"]})
    redigest(folder)


def rename_model(folder: Path) -> None:
    edit_manifest(folder, model="hred", config=TINY["hred"])
    redigest(folder)


def redigest(folder: Path) -> None:
    values = json.loads((folder / "manifest.json").read_text())
    kept = {k: v for k, v in values.items() if k not in ("format", "digest")}
    edit_manifest(folder, digest=Manifest(**kept).digest)


BROKEN = {
    "no manifest": (lambda f: (f / "manifest.json").unlink(), "has no manifest.json"),
    "no weights": (lambda f: (f / "model.safetensors").unlink(), "has no weights"),
    "no vocabulary": (lambda f: (f / "vocabulary.txt").unlink(), "has no vocabulary.txt"),
    "cut manifest": (lambda f: cut(f / "manifest.json"), "is truncated or not JSON"),
    "cut weights": (lambda f: cut(f / "model.safetensors"), "is cut off: "),
    "other format": (lambda f: edit_manifest(f, format=2), "has format 2; .* reads format 1"),
    "other keys": (lambda f: edit_manifest(f, colour="red"), "keys of another version: colour"),
    "tampered config": (lambda f: edit_manifest(f, config={"V": 11}), "was changed: its digest"),
    "tampered weights": (lambda f: tamper(f / "model.safetensors"), "was changed: its SHA-256"),
    "tampered words": (lambda f: tamper(f / "vocabulary.txt"), "was changed: its SHA-256"),
    "wrong shapes": (reshape, r"has shape \(.*\); the config makes it"),
    "wrong names": (rename_model, "has the unexpected tensor posterior"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_checkpoint_that_is_not_what_it_says_is_refused(written: Path, case: str) -> None:
    spoil, reason = BROKEN[case]
    spoil(written)
    with pytest.raises(CheckpointError, match=reason):
        checkpoint_load(written)


def test_no_folder_is_said_so(tmp_path: Path) -> None:
    assert "nowhere" in str(missing_reason(tmp_path / "nowhere"))


@pytest.mark.parametrize("case", ["no manifest", "no weights", "no vocabulary", "cut weights"])
def test_what_is_missing_is_known_without_loading(written: Path, case: str) -> None:
    assert missing_reason(written) is None
    spoil, reason = BROKEN[case]
    spoil(written)
    assert reason.strip() in str(missing_reason(written))


def test_a_manifest_is_read_without_torch(written: Path) -> None:
    code = (
        "import sys\n"
        "from chatbots.checkpoints import checkpoint_manifest\n"
        "print(checkpoint_manifest(sys.argv[1]).digest, 'torch' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(written)], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [checkpoint_manifest(written).digest, "False"]


def test_equal_tensors_are_held_once_where_that_is_asked_for(tmp_path: Path) -> None:
    first, second = tiny("hred"), tiny("hred", seed=9)
    with torch.no_grad():
        second.encoder.embedding.weight.copy_(first.encoder.embedding.weight)
    for name, model in (("a", first), ("b", second)):
        checkpoint_write(tmp_path / name, model, VOCABULARY, GIVEN)
    a, b = (checkpoint_load(tmp_path / name, share=True)[0] for name in "ab")
    assert a.encoder.embedding.weight.data_ptr() == b.encoder.embedding.weight.data_ptr()
    assert a.decoder.project.weight.data_ptr() != b.decoder.project.weight.data_ptr()
    assert not any(p.requires_grad for p in a.parameters())
    torch.testing.assert_close(first_logits(b), first_logits(second))
    own = checkpoint_load(tmp_path / "a")[0]
    assert own.encoder.embedding.weight.data_ptr() != a.encoder.embedding.weight.data_ptr()


TEXT = json.dumps([{"lines": [{"text": f"word {n}", "character": n % 2} for n in range(200)]}])


def damaged(whole: bytes) -> Iterator[bytes]:
    drawn = random.Random(3)
    for at in [*range(18), *(drawn.randrange(len(whole)) for _ in range(60))]:
        yield whole[:at] + bytes([whole[at] ^ drawn.choice((0xFF, 1))]) + whole[at + 1 :]
    for _ in range(10):
        yield whole[: drawn.randrange(len(whole))]


@pytest.mark.parametrize(
    ("read", "name"),
    [
        (corpus_read, "a.jsonl.gz"),
        (lambda path: list(conversations_read(path)), "a.json.gz"),
        (vocabulary_read, "vocabulary.json.gz"),
        (goemotions_read, "a.jsonl.gz"),
        (graph_read, "a.jsonl.gz"),
    ],
    ids=["corpus", "reddit", "vocabulary", "goemotions", "graph"],
)
def test_damage_of_a_gzip_is_the_readers_own_error(read: Callable[[Path], Any], name: str, tmp_path: Path) -> None:
    path, n_refused = tmp_path / name, 0
    for data in damaged(gzip.compress(TEXT.encode())):
        path.write_bytes(data)
        try:
            read(path)
        except ValueError as error:
            n_refused += 1
            assert type(error) not in (ValueError, UnicodeDecodeError)
            assert path.name in str(error)
    assert n_refused > 60


def test_a_full_disk_is_no_damage() -> None:
    full = OSError(errno.ENOSPC, "No space left on device")
    with pytest.raises(OSError, match="No space left"), damage_as_error("a.zip", CorpusError):
        raise full
    bad = OSError("Invalid data stream")
    with pytest.raises(CorpusError, match="is a damaged zip"), damage_as_error("a.zip", CorpusError):
        raise bad
    with pytest.raises(CorpusError, match="its own"), damage_as_error("a.zip", CorpusError):
        raise CorpusError("its own")
