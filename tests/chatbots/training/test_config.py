"""Configs of trainings: read, refused with their place, laid over a base; digests stay as they are."""

import hashlib
import inspect
from pathlib import Path

import pytest
import yaml

from chatbots.bots.checkpoint import SHIPPED
from chatbots.checkpoints import checkpoint_manifest
from chatbots.encoders.ei_encoders import InferSentFiles
from chatbots.encoders.emotion_training import CONFIG
from chatbots.encoders.emotion_training import config_read as emotion_config_read
from chatbots.generation.options import CheckpointOptions
from chatbots.identity import canonical_json
from chatbots.models.catalogue import config_read, config_write
from chatbots.models.hred import HREDConfig
from chatbots.models.vhcr import VHCRConfig
from chatbots.models.vhred import VHREDConfig
from chatbots.training import config as subject
from chatbots.training.config import CONFIGS_FOLDER, base_applied, config_check, config_load
from chatbots.training.ei import EITraining
from chatbots.validation import ValuesError
from tests.chatbots.training.builders import SIZES

CONFIGS = Path(subject.__file__).parent / "configs"
DATA = {"corpora": [{"path": "everyday"}]}
GOOD = {"name": "a", "model": "hred", "sizes": SIZES["hred"], "data": DATA}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"optimizer": {}}, "optimizer is an unknown key; did you mean optimiser? Allowed: name, model"),
        ({"model": "hrde"}, "model is 'hrde'; did you mean hred? It must be one of hred, vhred"),
        ({"name": "../a"}, "name is '../a'; it must be the plain name of a folder"),
        ({"sizes": {"E": 0}}, "sizes.E is 0; it must be a whole number of at least 1"),
        ({"sizes": {"V": 9}}, "sizes.V is an unknown key; it follows from the vocabulary"),
        ({"sizes": {"ei": {}}}, "sizes.ei is an unknown key; it follows from the key ei next to sizes"),
        ({"sizes": {"Z": 9}}, "sizes.Z is an unknown key"),
        ({"sizes": 3}, "sizes is 3; it must be a mapping"),
        ({"data": {"corpora": []}}, "data.corpora is []; it must be a list that is not empty"),
        ({"data": {"corpora": "talk"}}, "data.corpora is 'talk'; it must be a list that is not empty"),
        ({"data": {"corpora": [{"path": "no.jsonl"}]}}, "data.corpora[0].path is 'no.jsonl', but there"),
        ({"data": {"corpora": [{"path": 3}]}}, "data.corpora[0].path is 3; it must be a text"),
        (
            {"data": {"corpora": [{"path": "everyday", "format": "cornel"}]}},
            "data.corpora[0].format is 'cornel'; did you mean cornell? It must be one of",
        ),
        ({"data": DATA | {"windows": "all"}}, "data.windows is 'all'; it must be one of first, slide"),
        (
            {"data": DATA | {"tokeniser": "words-2"}},
            "data.tokeniser is 'words-2'; did you mean words-1? It must be one of words-1",
        ),
        (
            {"data": DATA | {"max_words": 4}},
            "data.max_words is 4; it must be a whole number of at least 5: the 4 special tokens and a word",
        ),
        ({"data": DATA | {"test": 0.7}}, "data.test is 0.7"),
        ({"ei": {"heads": "all"}}, "ei.heads is 'all'; it must be one of both, emotion, sentence"),
        ({"ei": {"w_emo": -1}}, "ei.w_emo is -1; it must be a number of at least 0"),
        ({"ei": {}, "model": "seq2seq", "sizes": {}}, "ei is {}; remove it: seq2seq has no context RNN to regularise"),
        ({"optimiser": {"lr": 0}}, "optimiser.lr is 0; it must be a number above 0"),
        ({"optimiser": {"lr": "fast"}}, "optimiser.lr is 'fast'; it must be a number above 0"),
        ({"optimiser": {"lr": float("nan")}}, "optimiser.lr is nan; it must be a number above 0"),
        ({"optimiser": {"epochs": 1.5}}, "optimiser.epochs is 1.5; it must be a whole number of at least 1"),
        ({"optimiser": {"precision": "fp8"}}, "optimiser.precision is 'fp8'; it must be one of auto"),
        (
            {"regularisation": {"word_drop": 1}},
            "regularisation.word_drop is 1; it must be a number at least 0 and below 1",
        ),
        ({"regularisation": {"sentence_drop": 0.1}}, "regularisation.sentence_drop is 0.1; only vhcr supports it"),
        ({"start": {"word_vectors": True}}, "start.word_vectors needs sizes.E of 256"),
        ({"held_out": {"beam": 0}}, "held_out.beam is 0; it must be a whole number of at least 1"),
        ({"seed": -1}, "seed is -1; it must be a whole number from 0"),
        ({"data_folder": "/"}, "data_folder is an unknown key"),
    ],
)
def test_mistakes_are_named(tmp_path, changes, message):
    with pytest.raises(ValuesError) as caught:
        config_check(GOOD | changes, tmp_path)
    assert message in str(caught.value)


def test_all_mistakes_are_told_at_once_with_their_places(tmp_path):
    values = GOOD | {
        "name": ".a",
        "sizes": {"E": "big", "H_E": 8, "V": 9},
        "data": DATA | {"windows": "slides", "test": 2},
        "ei": {"deepmoji": {"weights": "a", "vocabulary": "b"}, "sentence_encoder": "infersent"},
        "optimiser": {"lr": 0, "epoch": 3},
        "regularisation": {"sentence_drop": 0.25},
        "start": {"word_vector": True},
        "sede": 3,
    }
    with pytest.raises(ValuesError) as caught:
        config_check(values, tmp_path)
    assert {mistake.path for mistake in caught.value.mistakes} == {
        *("name", "sizes.E", "sizes.H_E", "sizes.V", "data.windows", "data.test"),
        *("ei.deepmoji", "ei.sentence_encoder", "optimiser.lr", "optimiser.epoch"),
        *("regularisation.sentence_drop", "start.word_vector", "sede"),
    }
    text = str(caught.value)
    assert text.startswith("13 mistakes: (1) name is '.a'; it must be the plain name of a folder; (2) ")
    for near in ("H_e", "slide", "epochs", "word_vectors", "seed"):
        assert f"did you mean {near}?" in text


def test_what_is_not_on_this_machine_is_told_at_once(tmp_path):
    values = GOOD | {
        "data": {"corpora": [{"path": "no.jsonl"}, {"path": "everyday"}, {"path": "none.gz"}]},
        "ei": {"emotion_encoder": "deepmoji", "deepmoji": {"weights": "a", "vocabulary": "b"}},
    }
    with pytest.raises(ValuesError) as caught:
        config_check(values, tmp_path)
    assert [mistake.path for mistake in caught.value.mistakes] == ["data.corpora[0].path", "data.corpora[2].path", "ei"]


def test_a_file_that_is_no_config_is_named(tmp_path):
    path = tmp_path / "c.yaml"
    for text, message in (("a: [", "c.yaml cannot be read"), ("- 3", "the config is [3]; it must be a mapping")):
        path.write_text(text)
        with pytest.raises(ValuesError, match=r"c\.yaml") as caught:
            config_load(path)
        assert message in str(caught.value)
    with pytest.raises(ValuesError, match="name is missing"):
        config_check({"model": "hred", "data": DATA})


def test_numbers_may_be_written_as_people_do(tmp_path):
    text = yaml.safe_load("{lr: 1e-3, clip: 2}")
    assert text["lr"] == "1e-3"  # what YAML makes of it
    optimiser = config_check(GOOD | {"optimiser": text}, tmp_path).optimiser
    assert (optimiser.lr, optimiser.clip) == (0.001, 2.0)


# --- the paper's rows -------------------------------------------------------------------------------------

# Fact sheet section 4.5, V = 20,000, without heads.
N_PARAMETERS = {
    "cornell-hred": 22_353_600,
    "cornell-vhred": 57_149_400,
    "cornell-vhcr": 80_965_600,
    "cornell-hred-ei": 53_545_000,
    "cornell-vhred-ei": 76_641_650,
    "cornell-vhcr-ei": 97_859_100,
    "reddit-hred": 53_545_000,
    "reddit-vhred": 76_641_650,
    "reddit-vhcr": 97_859_100,
    "reddit-hred-ei": 53_545_000,
    "reddit-vhred-ei": 83_494_150,
    "reddit-vhcr-ei": 97_859_100,
}
# w_emo, e, w_inf, s
EI = {
    "cornell-hred-ei": (25, 128, 100_000, 4000),
    "cornell-vhred-ei": (25, 128, 30_000, 128),
    "cornell-vhcr-ei": (25, 128, 25_000, 4000),
    "reddit-hred-ei": (25, 128, 25_000, 2000),
    "reddit-vhred-ei": (25, 128, 100_000, 4000),
    "reddit-vhcr-ei": (25, 128, 100_000, 4000),
}


def paper_row(name: str, folder: Path):
    for path in ("cornell", "reddit"):
        (folder / path).mkdir(exist_ok=True)
    return config_load(CONFIGS / "table9" / f"{name}.yaml", folder)


def test_table_9_is_complete():
    assert {p.stem for p in (CONFIGS / "table9").glob("*.yaml")} == set(N_PARAMETERS)


@pytest.mark.parametrize("name", N_PARAMETERS)
def test_a_row_of_table_9_has_the_papers_size(tmp_path, name):
    import torch

    from chatbots.models.catalogue import model_class

    row = paper_row(name, tmp_path)
    assert row.name == name
    with torch.device("meta"):
        model = model_class(row.model)(config_read(row.model, {**row.sizes, "V": 20_000}))
    assert model.n_parameters == N_PARAMETERS[name]
    ei = row.ei and (row.ei.w_emo, row.ei.e, row.ei.w_inf, row.ei.s)
    assert ei == EI.get(name)
    assert (row.optimiser.lr, row.optimiser.clip, row.optimiser.epochs) == (1e-4, 1.0, 30)
    assert (row.data.max_words, row.data.max_tokens, row.data.n_utterances) == (20_000, 30, 10)


def test_the_other_columns_of_table_9(tmp_path):
    rows = {name: paper_row(name, tmp_path) for name in N_PARAMETERS}
    batches = {n: r.optimiser.batch_size for n, r in rows.items()}
    assert list(batches.values()) == [80, 80, 80, 64, 80, 32, 64, 32, 32, 64, 32, 32]
    assert {n for n, r in rows.items() if r.held_out.beam == 5} == {"cornell-hred", "cornell-vhred", "cornell-vhcr"}
    assert {n: r.regularisation.word_drop for n, r in rows.items() if r.regularisation.word_drop} == {
        "cornell-vhred": 0.25,
        "cornell-vhcr": 0.25,
    }
    dropped = {n for n, r in rows.items() if r.regularisation.sentence_drop == 0.25}
    assert dropped == {"cornell-vhcr", "reddit-vhcr"}
    assert {n for n, r in rows.items() if r.sizes["dropout"] == 0} == {"cornell-vhred"}


ABLATIONS = {
    f"{row}-{name}": ei
    for row in EI
    for name, ei in {
        "emotion": {"heads": "emotion"},
        "sentence": {"heads": "sentence"},
        "input": {"input_only": True},
    }.items()
}


def test_table_5_has_every_ablation_of_every_row() -> None:
    assert {path.stem for path in (CONFIGS_FOLDER / "table5").glob("*.yaml")} == set(ABLATIONS)


@pytest.mark.parametrize("name", ABLATIONS)
def test_an_ablation_differs_from_its_row_in_one_setting(tmp_path: Path, name: str) -> None:
    row = paper_row(name.rpartition("-")[0], tmp_path)
    result = config_load(CONFIGS_FOLDER / "table5" / f"{name}.yaml", tmp_path)
    assert result.name == name
    assert row.ei is not None
    assert result.ei == row.ei.model_copy(update=ABLATIONS[name])
    same = {"name": "", "title": "", "ei": None}
    assert result.model_copy(update=same) == row.model_copy(update=same)


ROWS = sorted(path.stem for path in (CONFIGS_FOLDER / "table9").glob("*.yaml"))
FILES = {"deepmoji": ("pytorch_model.bin", "vocabulary.json"), "infersent": ("infersent1.pkl", "glove.840B.300d.txt")}


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
    plain, result = config_load(row, data), config_load(row, data, "compat-2019")
    assert (plain.name, result.name) == (name, f"{name}-compat-2019")
    assert result.digest != plain.digest
    sizes = config_read(result.model, {**result.sizes, "V": 20_000})
    assert sizes.p == 0  # no effective dropout
    classes = {"hred": HREDConfig, "vhred": VHREDConfig, "vhcr": VHCRConfig}
    assert all(getattr(sizes, option) for option in compat(classes[result.model]))
    assert (result.ei is None) == (plain.ei is None)
    if result.ei is not None:
        assert (result.ei.emotion_encoder, result.ei.sentence_encoder) == ("deepmoji", "infersent")
        assert result.ei.infersent is not None
        assert all(getattr(result.ei.infersent, option) for option in compat(InferSentFiles))
        on = {option for option in compat(EITraining) if getattr(result.ei, option)}
        # Of the released models VHCR alone lets the ablation's heads teach.
        unfit = set() if result.model == "vhcr" else {"compat_input_only_attached"}
        assert on == compat(EITraining) - unfit
        assert result.ei.w_inf == plain.ei.w_inf  # type: ignore[union-attr]
    assert result.sizes["C"] == plain.sizes["C"]
    assert result.optimiser.batch_size == plain.optimiser.batch_size


def test_the_base_names_what_a_bot_wants_too() -> None:
    options = compat(CheckpointOptions)
    text = (CONFIGS_FOLDER / "compat-2019.yaml").read_text(encoding="utf-8")
    assert options
    assert all(f"{option}: true" in text for option in options)


def test_files_that_are_not_there_are_named_with_how_to_have_them(data: Path) -> None:
    (data / "infersent" / "infersent1.pkl").unlink()
    with pytest.raises(ValuesError, match=r"infersent1\.pkl; to get it"):
        config_load(CONFIGS_FOLDER / "table9" / "cornell-hred-ei.yaml", data, "compat-2019")


def test_the_configs_own_values_win(tmp_path: Path) -> None:
    base = tmp_path / "base.yaml"
    base.write_text("seed: 3\nsizes: {E: 8, C: 9}\nvhcr: {sizes: {Z: 5}}\nei: {e: 7}\ndata: {max_words: 50}")
    values = {"model": "vhcr", "sizes": {"C": 4}, "data": {"corpora": []}}
    assert base_applied(values, base) == {
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
    result = config_load(own)
    assert (result.name, result.seed, result.data.corpora[0].path) == ("own", 4, "everyday")
    own.write_text(yaml.safe_dump({"base": "compat-2018", "name": "own", "model": "hred"}))
    with pytest.raises(ValuesError, match=r"own\.yaml: base is 'compat-2018'.*compat-2019"):
        config_load(own)


STORED = {
    "demo/base": "a4fd5446ba706952",
    "demo/hred": "6d72ec3e4f31e559",
    "demo/hred-ei": "30264f11c8a7b38f",
    "demo/vhcr": "29247014a1fa5d95",
    "demo/vhcr-ei": "a9421d77910280a3",
    "demo/vhred": "a2c6c066188ff430",
    "demo/vhred-ei": "ed2d26ac76249a0d",
    "table9/cornell-hred": "0df488554331c694",
    "table9/cornell-hred-ei": "9b75ff8f06a31f78",
    "table9/cornell-vhcr": "e0008fc5334b03fc",
    "table9/cornell-vhcr-ei": "d3eac808e26f2969",
    "table9/cornell-vhred": "7a23782b14004687",
    "table9/cornell-vhred-ei": "38e8da191f518179",
    "table9/reddit-hred": "562072c5a3e44442",
    "table9/reddit-hred-ei": "58b32691a016a96e",
    "table9/reddit-vhcr": "169ec3da9056feb5",
    "table9/reddit-vhcr-ei": "ecfb4eeb6d8ab336",
    "table9/reddit-vhred": "29c514f295282dda",
    "table9/reddit-vhred-ei": "dd5eb8098f89da63",
}
WITH_2019 = {
    "demo/vhcr": "5ace9ff0e4671c6e",
    "table9/cornell-vhred": "62cd03b8a873b2cf",
    "table9/reddit-hred": "3fe12c764ad35c62",
}
MODELS = {
    "hred-demo": "e5b032a529afddbd",
    "hred-ei-demo": "21ec7a4c44da273a",
    "vhcr-demo": "ed7899d1182c1bbc",
    "vhcr-ei-demo": "161163cfe10cca63",
    "vhred-demo": "922b8362bf0ff333",
    "vhred-ei-demo": "5787a4b06316c2b3",
}
# Whole numbers where fractions may stand, numbers that YAML takes for texts, and every section.
AS_WRITTEN = {
    "name": "odd",
    "model": "vhcr",
    "sizes": {"E": 256, "dropout": 0, "Z": 8},
    "data": {"corpora": [{"path": "everyday", "repeat": 3, "licence": "MIT"}], "validation": 0.2, "windows": "slide"},
    "ei": {
        "heads": "emotion",
        "w_emo": 25,
        "w_inf": "1e5",
        "variance": 1,
        "sentence_encoder": "infersent",
        "infersent": {"weights": "w.safetensors", "vectors": "v.txt"},
    },
    "optimiser": {"lr": "1e-3", "clip": 2, "warmup": 5, "max_skipped": 3},
    "regularisation": {"word_drop": 0, "sentence_drop": 0.25},
    "start": {"word_vectors": True},
    "held_out": {"beam": 5},
    "keeping": {"validate_every": 7},
    "seed": 2**63 - 1,
    "title": "Odd",
}


@pytest.fixture
def corpora(tmp_path: Path) -> Path:
    for folder in ("cornell", "reddit"):
        (tmp_path / folder).mkdir()
    for file in ("topical_chat.jsonl.gz", "chatterbot_en.jsonl.gz"):
        (tmp_path / file).touch()
    return tmp_path


def digest(values: object) -> str:
    return hashlib.sha256(canonical_json(values).encode()).hexdigest()[:16]


@pytest.mark.parametrize("name", STORED)
def test_a_config_of_the_project_keeps_its_digest(corpora: Path, name: str) -> None:
    assert config_load(CONFIGS / f"{name}.yaml", corpora).digest == STORED[name]


@pytest.mark.parametrize("name", WITH_2019)
def test_a_config_laid_over_a_base_keeps_its_digest(corpora: Path, name: str) -> None:
    result = config_load(CONFIGS / f"{name}.yaml", corpora, "compat-2019")
    assert result.digest == WITH_2019[name]


def test_numbers_count_as_what_they_are_and_sizes_as_they_were_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subject.EITraining, "encoders", lambda self, folder: ())
    result = config_check(AS_WRITTEN, tmp_path)
    assert result.digest == "9d21627f050228f5"
    assert result.decisive["sizes"] == {"E": 256, "dropout": 0, "Z": 8}


@pytest.mark.parametrize("name", MODELS)
def test_a_shipped_models_config_is_read_and_written_unchanged(name: str) -> None:
    manifest = checkpoint_manifest(SHIPPED / name)
    written = config_write(config_read(manifest.model, manifest.config))
    assert written == manifest.config
    assert digest(written) == MODELS[name]


def test_the_emotion_heads_config_keeps_its_digest() -> None:
    assert digest(emotion_config_read(CONFIG).model_dump()) == "a5e763becf2c773c"
