"""Bases: values that several configs share, and the one that repeats the released code."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest
import yaml

from chatbots.encoders.ei_encoders import InferSentFiles
from chatbots.generation.options import CheckpointOptions
from chatbots.models.catalogue import config_read
from chatbots.models.hred import HREDConfig
from chatbots.models.vhcr import VHCRConfig
from chatbots.models.vhred import VHREDConfig
from chatbots.training.config import CONFIGS_FOLDER, base_applied, config_load
from chatbots.training.ei import EITraining
from chatbots.validation import ValuesError

ROWS = sorted(path.stem for path in (CONFIGS_FOLDER / "table9").glob("*.yaml"))
FILES = {
    "deepmoji": ("pytorch_model.bin", "vocabulary.json"),
    "infersent": ("infersent1.pkl", "glove.840B.300d.txt"),
}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Make a data folder whose files are all there, and empty."""
    for corpus in ("cornell", "reddit"):
        (tmp_path / corpus).mkdir()
    for encoder, names in FILES.items():
        (tmp_path / encoder).mkdir()
        for name in names:
            (tmp_path / encoder / name).touch()
    return tmp_path


def compat(cls: type) -> set[str]:
    return {name for name in inspect.get_annotations(cls) if name.startswith("compat_")}


@pytest.mark.parametrize("name", ROWS)
def test_every_row_of_table_9_can_take_the_released_codes_behaviour(data: Path, name: str) -> None:
    row = CONFIGS_FOLDER / "table9" / f"{name}.yaml"
    plain, found = config_load(row, data), config_load(row, data, "compat-2019")
    assert (plain.name, found.name) == (name, f"{name}-compat-2019")
    assert found.digest != plain.digest
    sizes = config_read(found.model, {**found.sizes, "V": 20_000})
    assert sizes.p == 0  # no effective dropout
    classes = {"hred": HREDConfig, "vhred": VHREDConfig, "vhcr": VHCRConfig}
    assert all(getattr(sizes, option) for option in compat(classes[found.model]))
    assert (found.ei is None) == (plain.ei is None)
    if found.ei is not None:
        assert (found.ei.emotion_encoder, found.ei.sentence_encoder) == ("deepmoji", "infersent")
        assert found.ei.infersent is not None
        assert all(getattr(found.ei.infersent, option) for option in compat(InferSentFiles))
        on = {option for option in compat(EITraining) if getattr(found.ei, option)}
        # Of the released models VHCR alone lets the ablation's heads teach.
        unfit = set() if found.model == "vhcr" else {"compat_input_only_attached"}
        assert on == compat(EITraining) - unfit
        assert found.ei.w_inf == plain.ei.w_inf  # type: ignore[union-attr]
    assert found.sizes["C"] == plain.sizes["C"]
    assert found.optimiser.batch_size == plain.optimiser.batch_size


def test_the_base_names_what_a_bot_wants_too() -> None:
    options = compat(CheckpointOptions)
    text = (CONFIGS_FOLDER / "compat-2019.yaml").read_text(encoding="utf-8")
    assert options
    assert all(f"{option}: true" in text for option in options)


def test_files_that_are_not_there_are_named_with_how_to_have_them(data: Path) -> None:
    (data / "infersent" / "infersent1.pkl").unlink()
    with pytest.raises(ValuesError, match=r"infersent1\.pkl; to have it"):
        config_load(CONFIGS_FOLDER / "table9" / "cornell-hred-ei.yaml", data, "compat-2019")


def test_the_configs_own_values_win(tmp_path: Path) -> None:
    base = tmp_path / "base.yaml"
    base.write_text(
        "seed: 3\nsizes: {E: 8, C: 9}\nvhcr: {sizes: {Z: 5}}\nei: {e: 7}\ndata: {max_words: 50}"
    )
    given = {"model": "vhcr", "sizes": {"C": 4}, "data": {"corpora": []}}
    assert base_applied(given, base) == {
        "seed": 3,
        "model": "vhcr",
        "sizes": {"E": 8, "C": 4, "Z": 5},
        "data": {"max_words": 50, "corpora": []},
    }
    with_ei = base_applied({"model": "hred", "ei": {"s": 2}}, base)
    assert with_ei["ei"] == {"e": 7, "s": 2}
    assert with_ei["sizes"] == {"E": 8, "C": 9}


def test_a_config_names_its_base(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("{data: {corpora: [{path: everyday}]}, seed: 4}")
    own = tmp_path / "own.yaml"
    own.write_text(yaml.safe_dump({"base": "mine", "name": "own", "model": "hred"}))
    found = config_load(own)
    assert (found.name, found.seed, found.data.corpora[0].path) == ("own", 4, "everyday")
    own.write_text(yaml.safe_dump({"base": "compat-2018", "name": "own", "model": "hred"}))
    with pytest.raises(ValuesError, match=r"own\.yaml: base is 'compat-2018'.*compat-2019"):
        config_load(own)
