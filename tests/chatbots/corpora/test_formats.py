"""Published corpora in the files they come in, and what is said of files that are not so."""

import gzip
import json
from pathlib import Path

import pytest

from chatbots.corpora.dialogues import EVERYDAY, CorpusError, Dialogue
from chatbots.corpora.reading import FORMATS, corpus_read

S = " +++$+++ "


def write(path: Path, *lines: str, encoding: str = "utf-8") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes("".join(f"{line}\n" for line in lines).encode(encoding))
    return path


def turns(name: str, path: Path) -> list[tuple[str, ...]]:
    return [d.turns for d in corpus_read(name, path).dialogues]


# --- cornell ---


def cornell(folder: Path, lines: list[str], conversations: list[str]) -> Path:
    write(folder / "movie_lines.txt", *lines, encoding="iso-8859-1")
    write(folder / "movie_conversations.txt", *conversations, encoding="iso-8859-1")
    return folder


CORNELL_LINES = [
    f"L3{S}u2{S}m0{S}CAMERON{S}Café?\x85 They do.",
    f"L2{S}u0{S}m0{S}BIANCA{S}They do not!",
    f"L1{S}u2{S}m0{S}CAMERON{S}",  # without text
    f"L4{S}u0{S}m0{S}BIANCA +++$+++",  # the blank at the end lost too
    f"L5{S}u0{S}m0{S}BIANCA{S}What +++$+++ ever.",
]


def test_cornell(tmp_path: Path) -> None:
    ids = ["['L2', 'L3', 'L5']", "['L2', 'L3', 'L1', 'L5']", "['L4', 'L5']"]
    cornell(tmp_path, CORNELL_LINES, [f"u0{S}u2{S}m0{S}{i}" for i in ids])
    dialogues = corpus_read("cornell", tmp_path).dialogues
    texts = ("They do not!", "Café?\x85 They do.", "What +++$+++ ever.")
    assert [d.turns for d in dialogues] == [texts, texts[:2], texts[2:], texts[2:]]
    assert dialogues[0].speakers == (0, 1, 0)
    assert (dialogues[0].topic, dialogues[0].id) == ("m0", "m0/L2")


@pytest.mark.parametrize(
    ("line", "conversation", "message"),
    [
        (f"L9{S}u0{S}m0", "['L2']", r"movie_lines\.txt, line 6: 3 fields .* there must be 5"),
        (CORNELL_LINES[0], "L2, L3", r"movie_conversations\.txt, line 1: the line ids are 'L2, L3'"),
        (CORNELL_LINES[0], "['L2', 'L7']", r"line 1: movie_lines\.txt has no line L7"),
        (CORNELL_LINES[0], "[]", "line 1: the line ids are"),
    ],
)
def test_bad_cornell(tmp_path: Path, line: str, conversation: str, message: str) -> None:
    cornell(tmp_path, [*CORNELL_LINES, line], [f"u0{S}u2{S}m0{S}{conversation}"])
    with pytest.raises(CorpusError, match=message):
        corpus_read("cornell", tmp_path)


def test_cornell_needs_both_files(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"movie_conversations\.txt is missing"):
        corpus_read("cornell", write(tmp_path / "movie_lines.txt", CORNELL_LINES[0]).parent)


# --- dailydialog ---


def test_dailydialog(tmp_path: Path) -> None:
    file = write(
        tmp_path / "dialogues_text.txt", "Don ’ t go . __eou__ I ’ ll stay ! __eou__", "The ’ 90s __eou__ ok __eou__ "
    )
    expected = [("Don't go .", "I'll stay !"), ("The ’ 90s", "ok")]
    assert turns("dailydialog", file) == turns("dailydialog", tmp_path) == expected
    for part in ("train", "validation", "test"):
        write(tmp_path / part / f"dialogues_{part}.txt", f"{part} __eou__ b __eou__")
    dialogues = corpus_read("dailydialog", tmp_path).dialogues
    assert [(d.split, d.turns[0]) for d in dialogues] == [(p, p) for p in ("train", "validation", "test")]


@pytest.mark.parametrize(
    ("line", "message"), [("no mark", r"d\.txt, line 2: no __eou__"), ("a __eou__ b", "line 2: there is 'b' after")]
)
def test_bad_dailydialog(tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(CorpusError, match=message):
        corpus_read("dailydialog", write(tmp_path / "d.txt", "a __eou__", line))


# --- personachat ---


PERSONACHAT = [
    "1 your persona: i like cats.",
    "2 partner's persona: i am old.",
    "3 hello !\thi . how are you ?\t\tcand one|hi . how are you ?",
    "4 fine .\tgood .",
    "1 your persona: i ski.",
    "2 __SILENCE__\they , who is there ?\t\ta|b",
    "3 me .\tok\t\tc",
]


def test_personachat(tmp_path: Path) -> None:
    file = write(tmp_path / "valid_self_original.txt", *PERSONACHAT)
    first, second = corpus_read("personachat", file).dialogues
    assert first.turns == ("hello !", "hi . how are you ?", "fine .", "good .")
    assert first.speakers == (0, 1, 0, 1)
    assert second == Dialogue(("hey , who is there ?", "me .", "ok"), speakers=(1, 0, 1))
    write(tmp_path / "train_self_original.txt", *PERSONACHAT[:3])
    assert [d.split for d in corpus_read("personachat", tmp_path).dialogues] == ["train", "valid", "valid"]
    write(tmp_path / "train_both_original.txt", *PERSONACHAT)
    with pytest.raises(CorpusError, match=r"several variants .*train_both_original\.txt, train_self"):
        corpus_read("personachat", tmp_path)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("hello\tyou", r"p\.txt, line 4: the line must begin with a number"),
        ("7 a\tb", "line 4: number 7 after 3; it must be 4 or 1"),
        ("4 alone", "line 4: there is no tab"),
    ],
)
def test_bad_personachat(tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(CorpusError, match=message):
        corpus_read("personachat", write(tmp_path / "p.txt", *PERSONACHAT[:3], line))


# --- empathetic ---


HEADER = "conv_id,utterance_idx,context,prompt,speaker_idx,utterance,selfeval,tags"


def test_empathetic(tmp_path: Path) -> None:
    write(
        tmp_path / "train.csv",
        HEADER,
        'hit:0_conv:1,1,sad,I lost it_comma_ all,7,I "lost it_comma_ all.,5|5|5_2|2|5,',
        "hit:0_conv:1,3,sad,p,7,Thanks.,5|5|5_2|2|5,",
        "hit:0_conv:1,2,sad,p,3,Oh no_comma_ why?,5|5|5_2|2|5,",
        "hit:1_conv:2,1,proud,p,9,We won!,,<x>",
    )
    write(tmp_path / "test.csv", HEADER, "h,1,sad,p,9,a,5|5,,cand|cand, more")
    first, second, third = corpus_read("empathetic", tmp_path).dialogues
    assert first.turns == ('I "lost it, all.', "Oh no, why?", "Thanks.")
    assert (first.id, first.topic, first.speakers, first.split) == ("hit:0_conv:1", "sad", (0, 1, 0), "train")
    assert (second.turns, third.turns, third.split) == (("We won!",), ("a",), "test")


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["a,b"], r"e\.csv, line 1: the header is 'a,b'"),
        ([HEADER, "c,1,sad,p"], "line 2: 4 columns; there must be at least 6"),
        ([HEADER, "c,one,sad,p,1,text"], "line 2: utterance_idx is 'one'"),
        ([], "line 1: the header is ''"),
        ([HEADER], "is empty"),
    ],
)
def test_bad_empathetic(tmp_path: Path, lines: list[str], message: str) -> None:
    with pytest.raises(CorpusError, match=message):
        corpus_read("empathetic", write(tmp_path / "e.csv", *lines))


# --- reddit ---


def reddit(path: Path, *conversations: list[tuple[str, int]]) -> Path:
    entries = [{"lines": [{"text": t, "character": c} for t, c in lines]} for lines in conversations]
    path.write_text(json.dumps(entries), encoding="utf-8")
    return path


def test_reddit_has_one_utterance_per_speaker_turn(tmp_path: Path) -> None:
    file = reddit(
        tmp_path / "r.json",
        [
            ("I bought it on credit. See https://a.b/c?d for more.", 0),
            ("[This](http://x.y) too.", 0),
            ("Nice!\n\nEdit 1: typo. And more.", 1),
            ("*edit thanks", 0),
            ("What? edit: no", 1),
            ("[removed]", 0),
            ("[deleted] ok", 1),
        ],
    )
    dialogues = corpus_read("reddit", file).dialogues
    assert [d.turns for d in dialogues] == [
        ("I bought it on credit. See for more. This too.", "Nice!"),
        ("What?",),
        ("ok",),
    ]
    assert dialogues[0].speakers == (0, 1)


def test_reddit_as_the_released_code_read_it(tmp_path: Path) -> None:
    file = reddit(
        tmp_path / "r.json",
        [("Well. I said so! It was on credit. Gone.", 0), ("See http://a.b and more\nnext line?", 1)],
        [("One sentence only.", 0), ("[deleted]", 1)],
    )
    (dialogue,) = corpus_read("reddit_2019", file).dialogues
    assert dialogue.turns == ("Well.", "I said so!", "It was on cr", "See \nnext line?")
    assert dialogue.speakers == (0, 0, 0, 1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[{]", r"r\.json, line 1: not JSON"),
        ("{}", "a list of conversations"),
        ('[{"lines": []}]', "conversation 1: "),
        ('[{"lines": [{"text": "a", "character": 0}]}, {"lines": [{"text": 3}]}]', "conversation 2, line 1"),
        ("[]", "is empty"),
    ],
)
@pytest.mark.parametrize("name", ["reddit", "reddit_2019"])
def test_bad_reddit(tmp_path: Path, name: str, text: str, message: str) -> None:
    with pytest.raises(CorpusError, match=message):
        corpus_read(name, write(tmp_path / "r.json", text))


# --- jsonl ---


def test_jsonl(tmp_path: Path) -> None:
    lines = [
        {"id": "x", "split": "valid", "turns": [" Hi ", "😀 שלום"], "speakers": ["Ann", "Bob"]},
        {"turns": ["a"], "topic": "t", "acts": [1]},
    ]
    with gzip.open(tmp_path / "c.jsonl.gz", "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
    first, second = corpus_read("jsonl", tmp_path / "c.jsonl.gz").dialogues
    assert first == Dialogue(("Hi", "😀 שלום"), speakers=(0, 1), split="valid")
    assert (first.id, second.id, second.topic) == ("x", "c.jsonl.gz, line 2", "t")
    assert len(corpus_read("jsonl", EVERYDAY).dialogues) > 100


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"turns": ["a", ""]}', r"b\.jsonl, line 1: an utterance is ''"),
        ('{"turns": ["a"], "split": 1}', "line 1: the split is 1"),
        ('{"turns": ["a"], "speakers": ["x", "y"]}', "line 1: speakers must be a list"),
    ],
)
def test_bad_jsonl(tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(CorpusError, match=message):
        corpus_read("jsonl", write(tmp_path / "b.jsonl", line))


# --- all ---


@pytest.mark.parametrize("name", FORMATS)
def test_nothing_there_and_nothing_in_it(tmp_path: Path, name: str) -> None:
    with pytest.raises(CorpusError, match="no corpus at"):
        corpus_read(name, tmp_path / "missing")
    (tmp_path / "empty").mkdir()
    with pytest.raises(CorpusError, match="empty"):
        corpus_read(name, tmp_path / "empty")
    with pytest.raises(CorpusError):
        corpus_read(name, write(tmp_path / "empty.jsonl"))


@pytest.mark.parametrize("name", ["dailydialog", "personachat", "empathetic"])
def test_bytes_that_are_no_text_are_named(tmp_path: Path, name: str) -> None:
    (tmp_path / "x.txt").write_bytes(b"caf\xe9 \n")
    with pytest.raises(CorpusError, match=r"x\.txt cannot be read"):
        corpus_read(name, tmp_path / "x.txt")
