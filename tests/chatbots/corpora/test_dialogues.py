"""Dialogues of a corpus: read from files, and split into sets by whom they are."""

import gzip
import json
from pathlib import Path

import pytest

from chatbots.corpora.dialogues import CorpusError, Dialogue, corpus_read, dialogues_split


def write(path: Path, *lines: object) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def test_a_file_is_read_in_order_and_blank_lines_are_skipped(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text('{"turns": ["Hi ", "Hello"], "topic": "x"}\n\n{"turns": ["Ünï 😀"]}\n', encoding="utf-8")
    corpus = corpus_read(file)
    assert corpus.dialogues == (Dialogue(("Hi", "Hello"), "x"), Dialogue(("Ünï 😀",)))
    assert corpus.topics == ("x",)
    assert corpus.n_exchanges == 1


def test_a_folder_is_read_by_file_name_gzip_included(tmp_path: Path) -> None:
    write(tmp_path / "b.jsonl", {"turns": ["second"]})
    with gzip.open(tmp_path / "a.jsonl.gz", "wt", encoding="utf-8") as file:
        file.write('{"turns": ["first"]}\n')
    (tmp_path / "notes.txt").write_text("no corpus")
    assert [d.turns[0] for d in corpus_read(tmp_path).dialogues] == ["first", "second"]


def test_the_digest_depends_on_the_texts_and_not_on_the_place(tmp_path: Path) -> None:
    one = corpus_read(write(tmp_path / "one.jsonl", {"turns": ["a", "b"]}))
    two = corpus_read(write(tmp_path / "two.jsonl", {"turns": ["a", "b"]}))
    other = corpus_read(write(tmp_path / "other.jsonl", {"turns": ["a", "c"]}))
    joined = corpus_read(write(tmp_path / "joined.jsonl", {"turns": ["ab"]}))
    assert one.digest == two.digest
    assert len({one.digest, other.digest, joined.digest}) == 3


@pytest.mark.parametrize(
    "line",
    [
        *("nonsense", "[]", "{}", '{"turns": []}', '{"turns": ["a", 3]}', '{"turns": ["a", " "]}'),
        *('{"turns": ["a"], "topic": 3}',),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: str) -> None:
    file = tmp_path / "bad.jsonl"
    file.write_text('{"turns": ["fine"]}\n' + line + "\n", encoding="utf-8")
    with pytest.raises(CorpusError, match=r"bad\.jsonl, line 2"):
        corpus_read(file)


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="neither a file nor a folder"):
        corpus_read(tmp_path / "missing")
    with pytest.raises(CorpusError, match=r"no \.jsonl"):
        corpus_read(tmp_path)
    broken = tmp_path / "x.jsonl.gz"
    broken.write_bytes(b"no gzip")
    with pytest.raises(CorpusError, match="cannot be read"):
        corpus_read(broken)


def test_the_everyday_corpus_is_large_and_varied_enough() -> None:
    corpus = corpus_read()
    assert corpus.n_exchanges >= 600
    assert len(corpus.topics) >= 25
    texts = [turn for dialogue in corpus.dialogues for turn in dialogue.turns]
    assert len(set(texts)) > 0.9 * len(texts)


HUNDRED = [Dialogue((f"{i}", "b")) for i in range(100)]


def test_eighty_ten_ten_and_nothing_lost() -> None:
    split = dialogues_split(HUNDRED)
    assert [len(p) for p in (split.train, split.validation, split.test)] == [80, 10, 10]
    everyone = [*split.train, *split.validation, *split.test]
    assert sorted(int(d.turns[0]) for d in everyone) == list(range(100))
    assert everyone != HUNDRED


@pytest.mark.parametrize(("n", "sizes"), [(0, [0, 0, 0]), (2, [2, 0, 0]), (3, [1, 1, 1]), (19, [15, 2, 2])])
def test_few_dialogues(n: int, sizes: list[int]) -> None:
    split = dialogues_split(HUNDRED[:n])
    assert [len(p) for p in (split.train, split.validation, split.test)] == sizes


def test_published_parts_are_kept_and_the_rest_is_shuffled() -> None:
    names = ["train", "valid_freq", "dev", "test_rare", "Test", ""]
    dialogues = [Dialogue((str(i),), split=name) for i, name in enumerate(names)]
    split = dialogues_split(dialogues, published=True)
    assert [d.turns[0] for d in split.train] == ["0", "5"]
    assert [d.turns[0] for d in split.validation] == ["1", "2"]
    assert [d.turns[0] for d in split.test] == ["3", "4"]


def test_what_cannot_be_is_said() -> None:
    with pytest.raises(CorpusError, match=r"validation 0\.5 and test 0\.5"):
        dialogues_split(HUNDRED, validation=0.5, test=0.5)
    with pytest.raises(CorpusError, match="no dialogue names its split"):
        dialogues_split(HUNDRED, published=True)
    with pytest.raises(CorpusError, match="dialogue 'x' has the split 'holdout'"):
        dialogues_split([Dialogue(("a",), id="x", split="holdout")], published=True)
