"""Pairs of natural language inference made of dialogues, and their files."""

import random

import pytest

from chatbots.corpora.dialogues import CorpusError, Dialogue
from chatbots.corpora.reading import corpus_read
from evaluation.training.inference_pairs import (
    COLUMNS,
    InferencePair,
    PairOptions,
    broken_drawn,
    dull_drawn,
    dull_sentences,
    inference_pairs,
    mnli_contradictions,
    pairs_read,
    pairs_write,
    poor_drawn,
    word_salad,
    words_of,
)

TURNS = ("where do you live ?", "i live by the sea .", "that must be nice .", "it is , i love it .", "hm")
DIALOGUE = Dialogue(TURNS)
NOTHING = {"p_dull": 0, "p_broken": 0, "max_poor": 0}
BOTH_PERSONAS = """\
1 your persona: i love the sea.
2 partner's persona: i work in a bank.
3 __SILENCE__\thello , how are you ?
4 fine . you ?\ti was at the sea .
5 nice !\tdo you work ?
1 your persona: i have a cat.
2 partner's persona: i am a nurse.
3 hi !\thi there .
"""


def texts(pairs, label, genre=None):
    return [pair.hypothesis for pair in pairs if pair.label == label and genre in (None, pair.genre)]


def test_with_nothing_false_only_the_replies_remain():
    result = inference_pairs([DIALOGUE], PairOptions(**NOTHING), 1)
    assert {(one.premise, one.hypothesis) for one in result} == {
        (" ".join(TURNS[i : i + 2]), TURNS[i + 2]) for i in range(3)
    }
    assert {one.label for one in result} == {"entailment"}
    assert len(result) == 3
    assert inference_pairs([Dialogue(TURNS[:2])], PairOptions(), 1) == []


def test_a_window_with_an_empty_utterance_is_left_out():
    turns = ("a b", "  ", "c", "d  e", "f")
    result = inference_pairs([Dialogue(turns)], PairOptions(**NOTHING), 1)
    assert [(one.premise, one.hypothesis) for one in result] == [("c d e", "f")]


def test_a_file_of_both_personas_gives_its_windows(tmp_path):
    file = tmp_path / "train_both_revised_no_cands.txt"
    file.write_text(BOTH_PERSONAS)
    result = inference_pairs(corpus_read("personachat", file).dialogues, PairOptions(**NOTHING), 1)
    said = ["hello , how are you ?", "fine . you ?", "i was at the sea .", "nice !", "do you work ?"]
    assert {(one.premise, one.hypothesis) for one in result} == {
        (f"{said[i]} {said[i + 1]}", said[i + 2]) for i in range(3)
    }


def test_dull_sentences_are_drawn_as_a_whole_or_not_at_all():
    options = PairOptions(p_dull=0.4, n_dull=2)
    draw = random.Random(1)
    drawn = [dull_drawn(("a", "b", "c"), options, draw) for _ in range(3000)]
    assert {len(one) for one in drawn} == {0, 2}
    assert all(len(set(one)) == 2 for one in drawn if one)
    assert sum(map(bool, drawn)) / 3000 == pytest.approx(0.4, abs=0.03)
    assert dull_drawn(("a",), PairOptions(p_dull=1, n_dull=5), draw) == ["a"]
    assert len(dull_sentences()) == 13


def test_utterances_from_elsewhere_are_one_to_so_many_and_different():
    draw = random.Random(1)
    drawn = [poor_drawn(["a", "a", "", "b", "c"], PairOptions(max_poor=3), draw) for _ in range(3000)]
    assert [sum(len(one) == k for one in drawn) / 3000 for k in (1, 2, 3)] == pytest.approx([1 / 3] * 3, abs=0.03)
    assert all(len(set(one)) == len(one) and "" not in one for one in drawn)
    assert sorted(poor_drawn(["b", "a"], PairOptions(max_poor=50), random.Random(0))) == ["a", "b"]


def test_off_topic_replies_come_from_outside_the_window():
    options = PairOptions(p_dull=0, p_broken=0, max_poor=2)
    result = inference_pairs([DIALOGUE], options, 3)
    for one in result:
        if one.label == "neutral":
            assert one.hypothesis in TURNS
            assert one.hypothesis not in one.premise
            assert (one.premise, one.hypothesis) not in {
                (e.premise, e.hypothesis) for e in result if e.label == "entailment"
            }
    others = Dialogue(("x", "y", "z"))
    options = PairOptions(p_dull=0, p_broken=0, max_poor=3, poor_from="others")
    result = inference_pairs([DIALOGUE, others], options, 3)
    of_first = {one.hypothesis for one in result if one.label == "neutral" and one.premise != "x y"}
    assert of_first <= set(others.turns)
    # A reply that is said again elsewhere is no off-topic reply to the same premise.
    again = Dialogue(("a", "b", "yes", "yes"))
    result = inference_pairs([again], PairOptions(p_dull=0, p_broken=0, max_poor=3), 3)
    assert [one for one in result if one.premise == "a b"] == [InferencePair("a b", "yes", "entailment", "reply")]


def test_a_heap_of_words_by_hand():
    draw = random.Random(2)
    reply, premise, rest = "a b c d e f .", "g h i ' !", "j k"
    sizes = set()
    for _ in range(500):
        words = word_salad(reply, premise, rest, draw).split()
        assert len(set(words)) == len(words)
        counts = tuple(len(set(words) & set(words_of(one))) for one in (reply, premise, rest))
        assert sum(counts) == len(words)  # and so no marks
        sizes.add(counts)
    # Of 6 words 3 to 5, of 3 at most 2, of 2 at most 1.
    assert sizes == {(3, 2, 1), (4, 2, 1), (5, 2, 1)}
    assert word_salad("hm", "ok", "", draw) == ""
    assert set(word_salad("a b", "a b", "a b", draw).split()) <= {"a", "b"}
    assert words_of("It 's Ann's , isn't it - no ?") == ["It", "s", "Ann's", "isn't", "it", "no"]


def test_heaps_are_drawn_by_their_share():
    draw = random.Random(1)
    long = " ".join(f"w{k}" for k in range(30))
    options = PairOptions(p_broken=0.5, max_broken=2)
    drawn = [len(broken_drawn(long, long, long, options, draw)) for _ in range(2000)]
    assert [drawn.count(k) / 2000 for k in (0, 1, 2)] == pytest.approx([0.5, 0.25, 0.25], abs=0.04)


def test_counts_are_the_published_formula_and_the_seed_decides():
    dialogues = [Dialogue(tuple(f"w{d} v{k} u{k} t{d} s{k} r{d}x{k}" for k in range(16))) for d in range(150)]
    result = inference_pairs(dialogues, PairOptions(), 7)
    n = 150 * 14
    assert len(texts(result, "entailment")) == n
    # Per premise .33 · 2 dull ones, (1 + 2 + 3) / 3 from elsewhere, .30 · 2 heaps.
    assert len(texts(result, "neutral", "dull")) == pytest.approx(0.66 * n, rel=0.1)
    assert len(texts(result, "neutral", "off_topic")) == pytest.approx(2 * n, rel=0.05)
    assert len(texts(result, "contradiction")) == pytest.approx(0.6 * n, rel=0.1)
    assert inference_pairs(dialogues, PairOptions(), 7) == result
    assert inference_pairs(dialogues, PairOptions(), 8) != result
    # A dialogue's draws do not depend on those after it.
    alone = inference_pairs(dialogues[:1], PairOptions(), 7)
    assert set(alone) <= set(result)
    assert [one.label for one in result[:200]] != sorted(one.label for one in result[:200])


@pytest.mark.parametrize("ending", [".tsv", ".jsonl"])
def test_pairs_survive_their_files(tmp_path, ending):
    pairs = inference_pairs([DIALOGUE], PairOptions(p_dull=1, p_broken=1), 5)
    pairs.append(InferencePair('He said "no" – ø', "it's 5 o'clock", "contradiction"))
    path = tmp_path / f"pairs{ending}"
    assert pairs_write(path, pairs) == len(pairs)
    assert pairs_read(path) == pairs
    if ending == ".tsv":
        first = path.read_text().splitlines()[1].split("\t")
        assert len(first) == len(COLUMNS) == 12
        assert (first[8], first[9], first[-1]) == (pairs[0].premise, pairs[0].hypothesis, pairs[0].label)


def test_what_a_file_of_pairs_must_have(tmp_path):
    path = tmp_path / "pairs.jsonl"
    good = '{"gold_label": "neutral", "sentence1": "a", "sentence2": "b"}\n'
    path.write_text(good + good.replace("neutral", "-"))
    assert pairs_read(path) == [InferencePair("a", "b", "neutral")]
    path.write_text(good + good.replace("neutral", "maybe"))
    with pytest.raises(CorpusError, match="line 2: gold_label is 'maybe'"):
        pairs_read(path)
    path.write_text(good.replace('"b"', "null"))
    with pytest.raises(CorpusError, match="sentence2 is None"):
        pairs_read(path)
    table = tmp_path / "pairs.tsv"
    table.write_text("sentence1\tsentence2\na\tb\n")
    with pytest.raises(CorpusError, match="lacks the column gold_label"):
        pairs_read(table)
    table.write_text("gold_label\tsentence1\tsentence2\nneutral\ta\n")
    with pytest.raises(CorpusError, match="line 2: 2 columns, but the header has 3"):
        pairs_read(table)
    with pytest.raises(ValueError, match=r"pairs\.csv: files of pairs end in"):
        pairs_write(tmp_path / "pairs.csv", [])


def test_contradictions_of_multinli_are_written_as_dialogues_are(tmp_path):
    path = tmp_path / "multinli_1.0_train.txt"
    rows = [("contradiction", "I DON'T know, Sir.", "He knows!"), ("neutral", "A", "B")] * 3
    lines = ["gold_label\tsentence1\tsentence2\tpairID", *("\t".join((*row, "7")) for row in rows)]
    path.write_text("\n".join(lines))
    result = mnli_contradictions(path, 2, 1)
    assert result == [InferencePair("i don't know, sir.", "he knows!", "contradiction", "multinli")] * 2
    assert len(mnli_contradictions(path, 180_000, 1)) == 3
    assert {
        inference_pair.genre for inference_pair in inference_pairs([DIALOGUE], PairOptions(**NOTHING), 1, mnli=result)
    } == {"reply", "multinli"}
