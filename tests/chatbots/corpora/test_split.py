"""Shares, seeds, published parts."""

from __future__ import annotations

import pytest

from chatbots.corpora.dialogues import Corpus, CorpusError, Dialogue, dialogues_split

HUNDRED = [Dialogue((f"{i}", "b")) for i in range(100)]


def test_eighty_ten_ten_and_nothing_lost() -> None:
    split = dialogues_split(HUNDRED)
    assert [len(p) for p in (split.train, split.validation, split.test)] == [80, 10, 10]
    everyone = [*split.train, *split.validation, *split.test]
    assert sorted(int(d.turns[0]) for d in everyone) == list(range(100))
    assert everyone != HUNDRED


def test_the_seed_decides() -> None:
    assert dialogues_split(HUNDRED) == dialogues_split(HUNDRED, seed=0)
    assert dialogues_split(HUNDRED).test != dialogues_split(HUNDRED, seed=1).test


@pytest.mark.parametrize(
    ("n", "sizes"), [(0, [0, 0, 0]), (2, [2, 0, 0]), (3, [1, 1, 1]), (19, [15, 2, 2])]
)
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
    with pytest.raises(CorpusError, match="no dialogue names its part"):
        dialogues_split(HUNDRED, published=True)
    with pytest.raises(CorpusError, match="dialogue 'x' is of the part 'holdout'"):
        dialogues_split([Dialogue(("a",), id="x", split="holdout")], published=True)


def test_the_digest_depends_on_texts_and_order() -> None:
    renamed = [Dialogue(d.turns, id="y") for d in HUNDRED]
    assert Corpus(tuple(HUNDRED)).digest == Corpus(tuple(renamed)).digest
    assert Corpus(tuple(HUNDRED)).digest != Corpus(tuple(HUNDRED[::-1])).digest
