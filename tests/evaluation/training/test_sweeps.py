"""Sweeps: which trainings they have, under which names, and means over seeds by hand."""

from pathlib import Path
from typing import Any

import pytest
import yaml

import confab
from chatbots.training.config import CONFIGS_FOLDER, config_load
from chatbots.validation import ValuesError
from evaluation.training.config import learned_metrics
from evaluation.training.sweep_results import NO_VALUE, ONE_SEED, SeedMean, SweepResult, hyperparameters_table
from evaluation.training.sweeps import BotTrainee, MetricTrainee, parse_values, plan_cells
from tests.chatbots.training.builders import corpus_write
from tests.evaluation.training.builders import SharedWords, values


@pytest.fixture(autouse=True)
def _listed() -> Any:
    learned_metrics.add(SharedWords())
    yield
    learned_metrics.discard("shared_words")


def written(folder: Path, **changes: Any) -> Path:
    path = corpus_write(folder) / f"{changes.get('name', 'tiny')}.yaml"
    path.write_text(yaml.safe_dump(values(**{"optimiser": {"max_batches": 4}, **changes})))
    return path


def test_means_over_seeds_and_the_star_of_grade_s_table() -> None:
    mean = SeedMean.over([0.1, 0.2, 0.3], [0.01, 0.2, 0.03])
    assert (mean.mean, mean.sd, mean.n, mean.is_unstable) == (pytest.approx(0.2), pytest.approx(0.1), 3, False)
    assert mean.cell().text == ".200 ± .100"
    assert SeedMean.over([0.1] * 5, [0.2, 0.2, 0.2, 0.01, 0.01]).cell().text == ".100 ± .000⋆", "three of five"
    assert not SeedMean.over([0.1] * 5, [0.2, 0.2, 0.01, 0.01, 0.01]).is_unstable
    assert not SeedMean.over([0.1] * 4, [0.2, 0.2, 0.01, 0.01]).is_unstable, "half is not more than half"
    one = SeedMean.over([0.4], [0.01])
    assert (one.sd, one.reason, one.cell().text) == (None, ONE_SEED, ".400")
    none = SeedMean.over([None, float("nan")], [None, None])
    assert (none.mean, none.sd, none.reason, none.is_unstable) == (None, None, NO_VALUE, True)
    assert SeedMean.over([0.4, None, 0.6], [0.01, None, 0.01]).n == 2


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("temperature=.1,.5", ("temperature", [0.1, 0.5])),
        ("optimiser.lr=1e-4,0.001", ("optimiser.lr", [1e-4, 1e-3])),
        ("neighbours=[10],[10, 10]", ("neighbours", [[10], [10, 10]])),
        ("negatives=random,weighted", ("negatives", ["random", "weighted"])),
    ],
)
def test_values_are_read_as_numbers_lists_or_words(text: str, read: tuple[str, list[Any]]) -> None:
    assert parse_values(text) == read


@pytest.mark.parametrize("text", ["temperature", "temperature=", "=1", "a=1,,2", "a=["])
def test_other_forms_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be an option and its values"):
        parse_values(text)


def test_each_cell_is_a_training_of_its_own_name(tmp_path: Path) -> None:
    written(tmp_path, name="first")
    path = written(tmp_path, start="first")
    cells, folder = plan_cells(
        MetricTrainee(), [path], seeds=(71, 72), sweep={"margin": [0.1, 0.5], "lr": [1e-3]}, data_share=(0.25, 1)
    )
    assert folder == tmp_path
    assert [cell.name for cell in cells[:3]] == [
        "tiny-margin-0p1-lr-0p001-share-0p25-seed-71",
        "tiny-margin-0p1-lr-0p001-share-0p25-seed-72",
        "tiny-margin-0p1-lr-0p001-share-1-seed-71",
    ]
    assert len(cells) == len({cell.name for cell in cells}) == 8
    first, own = cells[0].configs
    assert (first["name"], own["start"]) == ("first-share-0p25-seed-71",) * 2
    assert (own["options"]["margin"], own["optimiser"]["lr"], own["seed"]) == (0.1, 1e-3, 71)
    assert (first["data"]["share"], first["seed"], first["optimiser"]["lr"]) == (0.25, 71, 0.05), (
        "but not what is swept"
    )
    assert cells[0].settings == {"margin": 0.1, "optimiser.lr": 1e-3}
    assert cells[0].start == cells[4].start, "one training before both"
    with pytest.raises(ValuesError, match="no option 'marginn'; did you mean margin"):
        plan_cells(MetricTrainee(), [path], sweep={"marginn": [1]})
    with pytest.raises(ValuesError, match="margin is -1"):
        plan_cells(MetricTrainee(), [path], sweep={"margin": [-1]})
    with pytest.raises(ValuesError, match="two trainings have the name"):
        plan_cells(MetricTrainee(), [path], seeds=(1, 1))


def test_a_notebook_trains_and_resumes(tmp_path: Path) -> None:
    path = written(tmp_path)
    wrong = written(tmp_path, name="wrong", start="nowhere")
    params: dict[str, Any] = {"output": tmp_path / "runs", "seeds": (1, 2), "data_share": (0.5, 1)}
    result = confab.sweep_metrics([path, wrong], **params)
    trained = [group for group in result.groups if group.label == "tiny"]
    assert [(group.share, len(group.trained)) for group in trained] == [(0.5, 2), (1, 2)]
    losses = [cell["best"]["validation_loss"] for cell in trained[1].cells]
    mean = trained[1].measure("validation_loss")
    assert mean.mean == pytest.approx(sum(losses) / 2)
    assert mean.sd == pytest.approx(abs(losses[0] - losses[1]) / 2**0.5)
    assert losses[0] != losses[1]
    assert result.sentences[0] == "4 of 8 trainings are complete."
    assert "nowhere" in result.failures[0]
    assert f"{mean.mean:.3f} ± {mean.sd:.3f}" in result.summary()
    states = {file: file.stat().st_mtime_ns for file in (tmp_path / "runs").glob("*/best/*.safetensors")}
    assert len(states) == 4
    again = confab.sweep_metrics([path, wrong], **params)
    assert again.to_json() == result.to_json()
    assert states == {file: file.stat().st_mtime_ns for file in states}, "finished trainings are not repeated"
    assert SweepResult(tuple(result.to_json()["cells"])).summary() == result.summary()


def test_the_twelve_configs_are_printed_as_in_table_9(tmp_path: Path) -> None:
    (tmp_path / "cornell").mkdir()
    (tmp_path / "reddit").mkdir()
    paths = sorted((CONFIGS_FOLDER / "table9").glob("*.yaml"))
    configs = [config_load(path, tmp_path) for path in paths]
    table = hyperparameters_table(configs)
    rows = {config.name: [cell.text for cell in row] for config, row in zip(configs, table.table.rows, strict=True)}
    assert len(rows) == 12
    # Table 9 of the paper: batch, dropout, decoder, encoder, context, embedding, word and sentence drop, beam.
    assert rows["cornell-hred"][3:12] == ["80", "0.2", "400", "400", "1000", "300", "0", "0", "5"]
    assert rows["cornell-vhcr"][3:12] == ["80", "0.2", "1000", "1000", "1000", "500", "0.25", "0.25", "5"]
    assert rows["reddit-vhred-ei"][3:] == [
        *("32", "0.2", "1250", "1250", "1250", "600", "0", "0", "1", "25", "128", "100000", "4000")
    ]
    assert rows["reddit-hred"][12:] == ["–"] * 4
    cells, _folder = plan_cells(BotTrainee(), paths, data=tmp_path, seeds=(1, 2))
    assert len(cells) == 24
    assert cells[0].name == "cornell-hred-ei-seed-1"


def test_means_over_dialogue_models_and_both_coefficients_by_hand() -> None:
    def row(model: str, pearson: float, spearman: float, p: float) -> dict[str, Any]:
        both = {"pearson": {"r": pearson, "p": p}, "spearman": {"r": spearman, "p": p}}
        return {
            "dimension": "good",
            "data_set": "dd",
            "model": model,
            "n": 150,
            "kendall": {"r": None, "p": None},
            **both,
        }

    def cell(seed: int, *rows: dict[str, Any], error: str = "") -> dict[str, Any]:
        common = {"name": f"grade-seed-{seed}", "label": "grade", "settings": {}, "share": 1, "seed": seed}
        return {**common, "best": {}, "agreement": list(rows), "error": error}

    result = SweepResult(
        (
            cell(1, row("", 0.3, 0.3, 0.01), row("ranker", 0.2, 0.1, 0.2), row("generator", 0.4, 0.3, 0.01)),
            cell(2, row("", 0.5, 0.3, 0.01), row("ranker", 0.4, 0.3, 0.3), row("generator", 0.6, 0.5, 0.01)),
            cell(3, error="the corpus is gone"),
        )
    )
    [group] = result.groups
    rows = group.correlations()
    of_models = rows["good", "dd", "mean of models"]
    assert [seed["pearson"]["r"] for seed in of_models] == pytest.approx([0.3, 0.5])
    average = group.average(of_models)
    assert average.mean == pytest.approx((0.25 + 0.45) / 2), "GRADE's average: the mean of four values per seed"
    assert average.sd == pytest.approx(0.2 / 2**0.5)
    printed = result.summary()
    assert ".300 ± .141⋆" in printed, "the ranker's Pearson, not significant for either seed"
    assert "dd†" not in printed
    seen = SweepResult((cell(1, {**row("ranker", 0.2, 0.1, 0.2), "is_seen": True}),))
    assert "dd†" in seen.summary()
    assert "5 of 9 mean correlations are unstable" in printed
    assert "2 of 3 trainings are complete." in printed
    assert "Failed: grade-seed-3: the corpus is gone" in printed
    unstable = [mean.is_unstable for *_names, mean in result._correlations()]
    assert (len(unstable), sum(unstable)) == (9, 5), "two of the ranker, and Kendall, which is undefined, of all three"
