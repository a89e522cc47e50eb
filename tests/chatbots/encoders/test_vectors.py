"""Word vector files: what is read, kept, refused; and InferSent, which reads them."""

import struct
from pathlib import Path

import numpy as np
import pytest

from chatbots.encoders import published_files as module
from chatbots.encoders.cache import cache_folder_set
from chatbots.encoders.published_files import VECTOR_PROVENANCE, FileVectors, VectorFileError
from chatbots.encoders.sentence import EncoderError

ROWS = {"the": [1.0, 2, 3], "Dog": [0.5, -1, 0], "dog": [4, 5, 6], "naïve": [7, 8, 9.25], "cat": [0, 1, 0]}


def binary(rows: dict[str, list[float]], line_break: bytes = b"") -> bytes:
    parts = [f"{len(rows)} 3\n".encode()]
    parts += [w.encode() + b" " + struct.pack("<3f", *v) + line_break for w, v in rows.items()]
    return b"".join(parts)


def text(rows: dict[str, list[float]], header: bool) -> bytes:
    lines = [f"{len(rows)} 3"] if header else []
    lines += [f"{w} {' '.join(map(str, v))}" for w, v in rows.items()]
    return "".join(f"{line}\n" for line in lines).encode()


FILES = {"w.bin": binary(ROWS), "w.vec": text(ROWS, header=True), "w.txt": text(ROWS, header=False)}


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path):
    cache_folder_set(tmp_path / "cache")
    yield
    cache_folder_set(None)


def vectors(tmp_path: Path, name: str, content: bytes) -> FileVectors:
    (tmp_path / name).write_bytes(content)
    return FileVectors(tmp_path / name, dimension=3)


@pytest.mark.parametrize("name", FILES)
def test_only_the_words_asked_for_are_kept(tmp_path: Path, name: str) -> None:
    table = vectors(tmp_path, name, FILES[name]).table(words={"dog", "naïve", "zebra"})
    assert len(table) == 2
    np.testing.assert_array_equal(table.lookup("dog"), [4, 5, 6])
    np.testing.assert_array_equal(table.lookup("naïve"), [7, 8, 9.25])
    assert table.lookup("zebra") is None
    assert table.dimension == 3
    assert table.matrix(["naïve", "zebra", "dog", "dog"]).tolist() == [[7, 8, 9.25], [4, 5, 6], [4, 5, 6]]
    assert table.matrix(["zebra"]).shape == (0, 3)
    with pytest.raises(KeyError, match="created without 'Dog'"):
        table.lookup("Dog")


@pytest.mark.parametrize("name", FILES)
def test_the_first_rows_are_a_vocabulary(tmp_path: Path, name: str) -> None:
    source = vectors(tmp_path, name, FILES[name])
    table = source.table(first=2, words={"cat"})
    assert [word in table for word in ("the", "Dog", "dog", "cat")] == [True, True, False, True]
    assert table.identity.key != source.table(first=3).identity.key
    assert source.table(words={"the"}).identity == source.table(words={"dog"}).identity
    assert len(source.table(first=100)) == 5


def test_line_breaks_behind_binary_numbers_are_no_letters(tmp_path: Path) -> None:
    table = vectors(tmp_path, "w.bin", binary(ROWS, line_break=b"\n")).table(words={"dog", "cat"})
    assert len(table) == 2


def test_glove_words_may_hold_blanks_and_come_twice(tmp_path: Path) -> None:
    content = b". . . 9 9 9\n. 1 2 3\nat name@domain.com 5 5 5\n. 7 7 7\n"
    table = vectors(tmp_path, "w.txt", content).table(words={".", "at", "zzz"})
    np.testing.assert_array_equal(table.lookup("."), [1, 2, 3])
    assert table.lookup("at") is None
    assert len(vectors(tmp_path, "w.txt", content).table(first=4)) == 3


def test_a_second_table_is_mapped_and_the_file_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = vectors(tmp_path, "w.vec", FILES["w.vec"])
    first = source.table(words={"dog", "the"})
    monkeypatch.setattr(module, "_text_rows", lambda *_: pytest.fail("the file was read again"))
    second = source.table(words=["the", "dog", "dog"])
    np.testing.assert_array_equal(second.lookup("dog"), first.lookup("dog"))
    assert isinstance(second._vectors, np.memmap)
    with pytest.raises(ValueError, match="read-only"):
        second.lookup("dog")[0] = 1
    assert [p.name for p in (tmp_path / "cache" / "word_tables").iterdir() if "part" in p.name] == []


def test_a_changed_file_or_a_damaged_cache_is_read_anew(tmp_path: Path) -> None:
    source = vectors(tmp_path, "w.txt", FILES["w.txt"])
    assert source.table(words={"cat"}).lookup("cat")[1] == 1
    source = vectors(tmp_path, "w.txt", text({"cat": [3, 3, 3]}, header=False))
    assert source.table(words={"cat"}).lookup("cat")[1] == 3
    for kept in (tmp_path / "cache" / "word_tables").glob("*/vectors.f32"):
        kept.write_bytes(b"1")
    assert source.table(words={"cat"}).lookup("cat")[1] == 3


def test_without_a_cache_folder_it_works_as_well(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    cache_folder_set(tmp_path / "file")
    source = vectors(tmp_path, "w.bin", FILES["w.bin"])
    np.testing.assert_array_equal(source.table(words={"dog"}).lookup("dog"), [4, 5, 6])
    assert len(source.table(words={"zebra"})) == 0


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("w.bin", FILES["w.bin"][:-1], "truncated.* word 5 of 5"),
        ("w.bin", b"9 3\n" + FILES["w.bin"][4:], "truncated.* word 6 of 9"),
        ("w.bin", b"\x80\x02 nothing", "numbers of words"),
        ("w.bin", b"", "numbers of words"),
        ("w.vec", FILES["w.vec"][:-1], "truncated in its last line"),
        ("w.vec", b"9 3\n" + FILES["w.vec"][4:], "5 of 9 words"),
        ("w.vec", FILES["w.txt"], "numbers of words"),
        ("w.txt", FILES["w.txt"][:-3], "truncated in its last line"),
        ("w.txt", b"zzz 1 2\n", "2 numbers; there must be 3"),
        ("w.txt", b"zzz 1 two 3\n", "could not convert"),
        ("w.txt", b"zzz 1 nan 3\n", "not finite"),
    ],
)
def test_broken_files_are_refused_and_leave_nothing(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    source = vectors(tmp_path, name, content)
    with pytest.raises(VectorFileError, match=message):
        source.table(words={"zzz"})
    assert [p for p in (tmp_path / "cache" / "word_tables").iterdir() if p.is_dir()] == []


def test_what_cannot_be_is_told(tmp_path: Path) -> None:
    source = FileVectors(tmp_path / "GoogleNews-vectors-negative300.bin")
    assert "code.google.com" not in (source.unavailable_reason() or "")
    assert "unpack" in (source.unavailable_reason() or "")
    with pytest.raises(EncoderError, match="there is no file"):
        source.table(words={"a"})
    with pytest.raises(VectorFileError, match="word2vec, glove, fasttext"):
        FileVectors(tmp_path / "GoogleNews.bin.gz")
    with pytest.raises(ValueError, match="pass `words`"):
        vectors(tmp_path, "w.txt", FILES["w.txt"]).table()
    assert all(kind.licence and kind.source and kind.fetch for kind in VECTOR_PROVENANCE.values())
