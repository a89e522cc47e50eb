"""Damage of gzip files: every reader raises its own error, and a full disk is no damage."""

from __future__ import annotations

import errno
import gzip
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from chatbots.compressed_files import damage_as_error
from chatbots.corpora.dialogues import CorpusError, corpus_read
from chatbots.corpora.formats.reddit import conversations_read
from chatbots.encoders.deepmoji import vocabulary_read
from chatbots.encoders.emotion_training import goemotions_read
from evaluation.models.grade_graph import graph_read

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
