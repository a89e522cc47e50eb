"""Figures of trainings in the documentation: means over GRADE's six cells and seeds, gains on the same replies."""

import gzip
import json
import re

import numpy as np
import pytest
from scipy import stats

from tests.validation import trainings

SETS = ("dailydialog", "convai2", "empatheticdialogues")


@pytest.fixture
def folder(tmp_path):
    """Write a file like GRADE's: three data sets, two Transformer systems and another one, which does not count."""
    rng = np.random.default_rng(6)
    systems = (*trainings.SYSTEMS, "dialogGPT")
    rows = [
        {
            "id": f"{source}-{model}-{k}",
            "source": f"grade/{source}",
            "model": model,
            "context": [f"context {k}", "and more"],
            "response": " ".join(rng.choice(["a", "word", "here"], rng.integers(1, 9))),
            "reference": "a word here",
            "ratings": [{"rater": "r", "coherence": int(rng.integers(1, 6))}],
            "scale": [1, 5],
        }
        for source in SETS
        for model in systems
        for k in range(9)
    ]
    with gzip.open(tmp_path / "grade.jsonl.gz", "wt") as out:
        out.write("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path, rows


def means(rows, value):
    """Return Pearson's and Spearman's coefficient of every cell that counts, in a loop."""
    found = []
    for source in SETS:
        for model in trainings.SYSTEMS:
            here = [row for row in rows if (row["source"], row["model"]) == (f"grade/{source}", model)]  # fmt: skip
            x, y = [value(row) for row in here], [row["ratings"][0]["coherence"] for row in here]
            found += [stats.pearsonr(x, y)[0], stats.spearmanr(x, y)[0]]
    return found


def test_the_mean_of_twelve_and_the_gain_are_those_of_a_loop(folder, monkeypatch, capsys):
    place, rows = folder
    asked = ["trainings", "words_bot,rouge_l", "--against", "words_bot", "--data", str(place)]
    monkeypatch.setattr("sys.argv", [*asked, "--trainings", str(place / "none")])
    assert trainings.main() == 0
    printed = capsys.readouterr().out.replace("−", "-")
    of_words = means(rows, lambda row: len(row["response"].split()))
    assert "54 replies of 6 cells" in printed
    both, alone, gain = printed.splitlines()[1:4]
    spread = re.search(r"mean (\S+) ± (\S+) \((\S+), (\S+)\)", both)
    first, second = (float(one) for one in spread.groups()[2:])
    assert first == pytest.approx(np.mean(of_words), abs=6e-4)
    assert float(spread[1]) == pytest.approx((first + second) / 2, abs=1e-3)
    assert float(re.search(r"mean (\S+)$", alone)[1]) == pytest.approx(first, abs=1e-3)
    assert float(re.search(r"mean (\S+) \[", gain)[1]) == pytest.approx((second - first) / 2, abs=2e-3)  # fmt: skip
    assert float(re.search(r"convai2 (\S+),", alone)[1]) == pytest.approx(np.mean(of_words[4:8]), abs=6e-4)  # fmt: skip


def test_what_is_not_there_is_said(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["trainings", "words_bot", "--data", str(tmp_path)])
    assert trainings.main() == 1
    assert "There is no" in capsys.readouterr().err
