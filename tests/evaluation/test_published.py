"""Published figures and those of trainings in the documentation add up to what is said of them."""

import gzip
import json
import math
import re
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest
from scipy import stats

from evaluation import training
from evaluation.agreement.agreement_table import agreements_printed
from evaluation.agreement.metric_agreement import judge
from evaluation.data.scores import metric_name
from evaluation.metrics.registry import metric_list
from evaluation.published.correlations import caveats_of, matching_row, published_of, published_rows, published_sets
from evaluation.stats.correlation import fisher_interval
from tests.validation import trainings
from tests.validation.replies import exactness, pairs_of_release

CONFIGS = sorted((Path(training.__file__).parent / "configs").glob("*.yaml"))


def columns_of(config: str) -> set[str]:
    """Return the columns that a trained config may have, as `evaluation.metrics.trained` names them."""
    name = config.replace("-", "_")
    return {f"{name}_bot", f"{name}_blend_bot"}


MADE = {name for path in CONFIGS for name in columns_of(path.stem)}


def test_figures_add_up_to_the_papers_headlines() -> None:
    for name, headline in (("dailydialog", 0.294), ("convai2", 0.579), ("empatheticdialogues", 0.298)):  # fmt: skip
        values = [
            value
            for row in published_of(f"grade/{name}", "coherence")
            if row.title == "GRADE" and row.system.startswith("transformer")
            for value in row.values.values()
        ]
        assert len(values) == 4
        assert fmean(values) == pytest.approx(headline, abs=6e-4)
    of_pone = {
        metric: [
            v
            for row in published_rows()
            if row.table == "7" and row.metric == metric
            for v in row.values.values()
        ]
        for metric in ("PONE", "BERT-RUBER")
    }  # fmt: skip
    gain = fmean(of_pone["PONE"]) - fmean(of_pone["BERT-RUBER"])
    assert gain == pytest.approx(0.1318, abs=5e-5), "the 13.18 % of its abstract"
    [ts] = [row for row in published_of("rade/emotion", "overall") if row.metric == "RADE TS" and row.table == "9"]
    assert ts.values == {"pearson": 0.863, "spearman": 0.849, "kendall": 0.685}
    assert ts.interval("pearson") == fisher_interval(0.863, 500)


def test_every_row_names_a_set_and_columns_that_there_are() -> None:
    columns = {column.name for metric in metric_list() for column in metric.columns} | MADE
    rows = published_rows()
    assert {row.set for row in rows} == set(published_sets())
    imported = {metric_name(row.metric) for row in rows}
    assert {name for row in rows for name in row.ours} <= columns | imported
    assert all(row.values and all(-1 <= v <= 1 for v in row.values.values()) for row in rows)
    places = [(row.set, row.system, row.title, row.place, row.dimension) for row in rows]
    assert len(places) == len(set(places))


def test_every_config_stands_beside_a_published_row_and_a_lite_one_is_never_it() -> None:
    beside_rows = {name for row in published_rows() for name in row.ours}
    alone = {path.stem for path in CONFIGS if not (columns_of(path.stem) & beside_rows)}
    accuracy = {
        "entailment-bert",
        "entailment-esim",
        "entailment-esim-lite",
        "entailment-lite",
        "entailment-lite-reply-only",
    }
    before = {"pone-seq2seq-po", "pone-lite-seq2seq-po"}  # stages that others go on from
    # Tried beside a row's own, as docs tell: another graph, another decay, text that may not be passed on.
    ours = {"grade-lite-conceptnet", "grade-lite-no-graph-random", "rade-lite-decay"}
    ours |= {f"{name}-lite-all-text" for name in ("entailment", "grade", "pone")}
    ours |= {"pone-lite-all-text-po", "pone-lite-all-text-full"}
    ours |= {"rade-800", "rade-lite-800"}  # the paper names this size, but prints no figure for it
    assert alone == accuracy | before | ours
    lite = {name for row in published_rows() for name in row.ours if row.is_same and "lite" in name}
    assert lite == set()


def test_a_row_stands_beside_its_own_set_dimension_and_model_only() -> None:
    convai = published_of("grade/convai2", "coherence")
    same = matching_row(convai, "rouge_l", "bert_ranker")
    assert same.is_same
    assert same.values["pearson"] == 0.157
    nearest = matching_row(convai, "grade_lite_bot")
    assert not nearest.is_same
    assert nearest.title == "GRADE"
    assert matching_row(convai, "rouge_l", "another model") is None
    assert matching_row(convai, "words_bot") is None
    assert published_of("grade/convai2", "fluency") == ()
    assert published_of("my own", "overall") == ()
    usr = published_of("usr/topicalchat", "overall")
    for column, values in {
        "maude": (0.044, 0.083),
        "deb": (0.180, 0.116),
        "usl_h": (0.322, 0.340),
        "flowscore": (0.095, 0.082),
        "predictiveengage": (0.222, 0.310),
        "dynaeval": (-0.032, -0.022),
    }.items():  # scores of another program, imported under the metric's name
        row = matching_row(usr, column)
        assert (row.values["pearson"], row.values["spearman"]) == values
        assert not row.is_same
    assert matching_row(convai, "adem").title == "ADEM"
    assert matching_row(convai, "deep_am_fm").title == "Deep AM-FM"
    assert any("best of three raters" in told for told in caveats_of(published_of("pone/cornell", "overall")))
    assert any("shared contexts" in told for told in caveats_of(published_of("rade/persona", "overall")))  # fmt: skip


def test_the_command_s_table_prints_them(tmp_path: Path) -> None:
    rows = [
        {
            "id": k,
            "source": "grade/convai2",
            "model": "bert_ranker",
            "context": [f"context {k}"],
            "response": " ".join(["one", "two", "three"][: 1 + k % 3]),
            "reference": "one two",
            "ratings": [{"coherence": 1 + k % 4}],
        }
        for k in range(8)
    ]
    file = tmp_path / "judged.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    result = {name: one.to_json() for name, one in judge(file, ["rouge_l"]).items()}
    assert result["rouge_l"]["source"] == "grade/convai2"
    printed = agreements_printed(result)
    assert ".136 .140 (n 600)" in printed, "the survey's row of all dialogue models"
    assert "published: Pearson and Spearman for the whole set; Yeh et al." in printed


def rouge_by_hand(reply: str, reference: str) -> float:
    """Return ROUGE-L with beta 1.2 by a recursion over words."""

    def common(x: tuple[str, ...], y: tuple[str, ...]) -> int:
        if not x or not y:
            return 0
        if x[-1] == y[-1]:
            return common(x[:-1], y[:-1]) + 1
        return max(common(x[:-1], y), common(x, y[:-1]))

    x, y = tuple(reply.split()), tuple(reference.split())
    precision, recall = common(x, y) / len(x), common(x, y) / len(y)
    both = recall + 1.44 * precision
    return 2.44 * precision * recall / both if both else 0.0


def bleu_by_hand(reply: str, reference: str) -> float:
    """Return the sentence BLEU-4 of COCO's code."""
    x, y = reply.split(), reference.split()
    score = 1.0
    for n in range(1, 5):
        left = [tuple(y[k : k + n]) for k in range(len(y) - n + 1)]
        here = [tuple(x[k : k + n]) for k in range(len(x) - n + 1)]
        matches = 0
        for gram in here:
            if gram in left:
                left.remove(gram)
                matches += 1
        score *= ((matches + 1e-15) / (len(here) + 1e-9)) ** 0.25
    ratio = (len(x) + 1e-15) / (len(y) + 1e-9)
    return score * (math.exp(1 - 1 / ratio) if ratio < 1 else 1.0)


@pytest.mark.parametrize(("metric", "by_hand"), [("rouge_l", rouge_by_hand), ("bleu_4", bleu_by_hand)])  # fmt: skip
def test_a_complete_cell_must_come_out_as_printed_and_a_part_near_it(
    metric: str, by_hand: object, tmp_path: Path
) -> None:
    words = ["the", "old", "cat", "sat", "on", "a", "mat", "and", "saw", "the", "dog", "run"]
    rows = [
        {
            "id": k,
            "source": "grade/convai2",
            "model": "bert_ranker",
            "context": [f"context {k}"],
            "response": " ".join(words[k % 4 : k % 4 + 3 + k % 6]),
            "reference": " ".join(words[k % 3 : k % 3 + 7]),
            "ratings": [{"coherence": 1 + k * 7 % 5}],
        }
        for k in range(30)
    ]
    file = tmp_path / "judged.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    document = judge(file, [metric])[metric].to_json()
    x = [by_hand(row["response"], row["reference"]) for row in rows]  # type: ignore[operator]
    y = [row["ratings"][0]["coherence"] for row in rows]  # type: ignore[index]
    values = {"pearson": stats.pearsonr(x, y)[0], "spearman": stats.spearmanr(x, y)[0]}
    [row] = [
        published_row
        for published_row in published_rows()
        if published_row.set == "grade/convai2"
        and published_row.metric == "BLEU-4"
        and published_row.source.title.startswith("Yeh")
    ]
    printed = replace(row, n=30, values={how: round(float(r), 3) for how, r in values.items()})
    result = exactness(document, printed)
    assert not result.is_off
    assert result.told == "yes"
    off = exactness(
        document, replace(printed, values={**printed.values, "spearman": printed.values["spearman"] + 0.002})
    )
    assert off.is_off
    part = exactness(document, replace(printed, n=31))
    assert (part.is_off, part.told) == (False, "30 of 31, yes")
    far = exactness(
        document, replace(printed, n=31, values={how: value + 0.5 for how, value in printed.values.items()})
    )
    assert far.is_off
    assert exactness(document, replace(printed, is_same=False)) is None
    assert exactness(document, None) is None


def test_the_release_is_validated_under_the_name_of_its_published_rows(tmp_path: Path) -> None:
    source, target = tmp_path / "rade_emotion.jsonl.gz", tmp_path / "rade.jsonl"
    with gzip.open(source, "wt", encoding="utf-8") as out:
        for k in range(6):
            pair = [("words " * (k + 1), 1 + k % 5), (f"another reply {k}", 3)]
            for (said, score), (other, of_other) in (pair, pair[::-1]):
                out.write(
                    json.dumps(
                        {
                            "context": [f"hello {k}"],
                            "output": said,
                            "reference": other,
                            "s_output": score,
                            "s_reference": of_other,
                        }
                    )
                    + "\n"
                )
    pairs_of_release(source, target, "rade_emotion", None)
    result = {name: one.to_json() for name, one in judge(target, ["rade", "rouge_l"]).items()}
    assert result["rouge_l"]["source"] == "rade/emotion"
    printed = agreements_printed(result)
    assert "RADE" in printed
    assert "a random split of rows leaks copies of test pairs into training" in printed


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
    results = []
    for source in SETS:
        for model in trainings.SYSTEMS:
            here = [row for row in rows if (row["source"], row["model"]) == (f"grade/{source}", model)]  # fmt: skip
            x, y = [value(row) for row in here], [row["ratings"][0]["coherence"] for row in here]
            results += [stats.pearsonr(x, y)[0], stats.spearmanr(x, y)[0]]
    return results


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
    first, second = (float(group) for group in spread.groups()[2:])
    assert first == pytest.approx(np.mean(of_words), abs=6e-4)
    assert float(spread[1]) == pytest.approx((first + second) / 2, abs=1e-3)
    assert float(re.search(r"mean (\S+)$", alone)[1]) == pytest.approx(first, abs=1e-3)
    assert float(re.search(r"mean (\S+) \[", gain)[1]) == pytest.approx((second - first) / 2, abs=2e-3)  # fmt: skip
    assert float(re.search(r"convai2 (\S+),", alone)[1]) == pytest.approx(np.mean(of_words[4:8]), abs=6e-4)  # fmt: skip


def test_what_is_not_there_is_said(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["trainings", "words_bot", "--data", str(tmp_path)])
    assert trainings.main() == 1
    assert "There is no" in capsys.readouterr().err
