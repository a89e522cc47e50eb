"""The loop: every model learns, a killed training ends with the same bits, and what it writes can be trusted."""

import math
import shutil
from pathlib import Path

import pytest
import torch

from chatbots import checkpoints
from chatbots.checkpoints import checkpoint_load, checkpoint_manifest
from chatbots.encoders.sentence import PCA_FILE
from chatbots.training import ei, loop
from chatbots.training.config import OptimiserConfig
from chatbots.training.engine import kl_weight, learning_rate
from chatbots.training.loop import TrainingError, train
from chatbots.training.run_folder import StateError, log_read
from tests.chatbots.training.builders import config, corpus_write, fake_embeddings

EI = {"e": 8, "s": 12, "w_emo": 5.0, "w_inf": 5000.0}
VARIANTS = {
    "hred": {},
    "vhred": {"regularisation": {"word_drop": 0.25}},
    "vhcr": {"regularisation": {"sentence_drop": 0.25}},
    "seq2seq": {},
    "transformer": {},
    "hred, EI": {"model": "hred", "ei": EI},
    "vhred, emotion alone": {"model": "vhred", "ei": EI | {"heads": "emotion"}},
    "vhcr, input only": {"model": "vhcr", "ei": EI | {"input_only": True}},
    "hred, half precision": {"model": "hred", "optimiser": {"precision": "bfloat16"}},
}


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    return corpus_write(tmp_path_factory.mktemp("corpora"))


@pytest.fixture(autouse=True)
def _no_encoder(monkeypatch):
    monkeypatch.setattr(ei, "embeddings_cached", fake_embeddings)


def losses(folder: Path, name: str = "tokens_nll") -> list[float]:
    return [line[name] for line in log_read(folder) if line["kind"] == "train"]


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_model_learns_the_project_corpus(data, tmp_path, variant):
    changes = {"model": variant, **VARIANTS[variant]}
    expected = config(data, **changes)
    result = train(expected, tmp_path / "tiny")
    told = losses(tmp_path / "tiny")
    assert len(told) >= 4
    assert sum(told[-2:]) < sum(told[:2])
    model, vocabulary, manifest = checkpoint_load(result.checkpoint)
    assert len(vocabulary) == model.config.V == 150
    assert manifest.metrics["perplexity"] == pytest.approx(result.best["perplexity"])
    assert 1 < result.best["perplexity"] < 150
    assert (result.best["kl"] > 0) == expected.model.startswith("vh")
    assert result.tokens_per_s > 0
    assert 0 <= result.waiting_share < 1
    input_only = bool(expected.ei and expected.ei.input_only)
    assert (result.checkpoint / PCA_FILE).is_file() == input_only  # what it needs to generate
    if expected.ei and expected.ei.heads == "both" and not expected.ei.input_only:
        assert losses(tmp_path / "tiny", "sentence")[-1] < losses(tmp_path / "tiny", "sentence")[0]


class Killed(Exception):
    pass


def killed_at(step: int):
    def watch(progress):
        if progress.step == step:
            raise Killed

    return watch


def test_a_killed_training_ends_with_the_same_bits(data, tmp_path):
    expected = config(data, "vhcr", regularisation={"word_drop": 0.2, "sentence_drop": 0.2})
    whole = train(expected, tmp_path / "whole")
    for step in (3, 3 + 4):  # in the middle of an epoch, after batches that no state has
        with pytest.raises(Killed):
            train(expected, tmp_path / "killed", watch=killed_at(step))
    resumed = train(expected, tmp_path / "killed")
    for name, tensor in checkpoint_load(whole.checkpoint)[0].state_dict().items():
        assert torch.equal(tensor, checkpoint_load(resumed.checkpoint)[0].state_dict()[name]), name
    assert resumed.best == pytest.approx(whole.best, nan_ok=True)
    strip = ("tokens_per_s", "waiting_share")
    one, other = (
        [{k: v for k, v in line.items() if k not in strip} for line in log_read(tmp_path / folder)]
        for folder in ("whole", "killed")
    )
    assert one == other  # no line twice, none lost


def test_a_damaged_state_is_refused(data, tmp_path):
    expected = config(data, optimiser={"max_batches": 2})
    train(expected, tmp_path)
    path = tmp_path / loop.STATE
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(StateError, match=r"damaged.*--restart"):
        train(expected, tmp_path)


def test_early_stopping_keeps_the_best(data, tmp_path, monkeypatch):
    told = iter([3.0, 2.0, 2.5, 2.4, 1.0])
    monkeypatch.setattr(loop, "validation_loss", lambda *_: {"loss": next(told)})
    expected = config(data, keeping={"validate_every": 1}, optimiser={"patience": 2, "max_batches": 9})
    result = train(expected, tmp_path)
    assert result.best["validation_loss"] == 2.0
    assert result.best["step"] == 2
    assert checkpoint_manifest(result.checkpoint).training["best_step"] == 2
    assert next(told) == 1.0  # the fifth validation did not happen


@pytest.fixture
def undefined_at(monkeypatch):
    """Make the loss of some batches NaN, by the weight of its KL term."""

    def make(*steps: int) -> None:
        def weight(step: int, kl_batches: int) -> float:
            return math.nan if step in steps else kl_weight(step, kl_batches)

        monkeypatch.setattr(loop, "kl_weight", weight)

    return make


def test_a_gradient_that_is_not_finite_is_left_out_and_told(data, tmp_path, undefined_at, caplog):
    undefined_at(1, 4)
    result = train(config(data, "vhred"), tmp_path)
    assert result.skipped == 2
    assert checkpoint_manifest(result.checkpoint).training["skipped"] == 2
    assert "the gradient of batch 4 is not finite" in caplog.text
    assert "skipped (2 of at most 10)" in caplog.text
    lines = [line for line in log_read(tmp_path) if line["kind"] == "train"]
    assert sum(line.get("skipped", 0) for line in lines) == 2
    assert all(math.isfinite(line["tokens_nll"]) for line in lines)
    for name, tensor in checkpoint_load(result.checkpoint)[0].state_dict().items():
        assert bool(tensor.isfinite().all()), name


def test_a_batch_that_is_left_out_changes_nothing(data, tmp_path, undefined_at):
    """Weights and moments stay what they were: the others' steps are those of a training without it."""
    undefined_at(0)
    expected = config(data, "vhred", optimiser={"max_batches": 1, "lr": 0.02})
    before = loop.initialise_model(expected, loop.data_prepare(expected), tmp_path)
    after, _, _ = checkpoint_load(train(expected, tmp_path).checkpoint)
    for name, tensor in before.state_dict().items():
        assert torch.equal(tensor, after.state_dict()[name]), name


def test_a_killed_training_with_batches_left_out_ends_with_the_same_bits(data, tmp_path, undefined_at):
    undefined_at(1, 3, 6)
    expected = config(data, "vhred")
    whole = train(expected, tmp_path / "whole")
    for step in (2, 5):
        with pytest.raises(Killed):
            train(expected, tmp_path / "killed", watch=killed_at(step))
    resumed = train(expected, tmp_path / "killed")
    assert resumed.skipped == whole.skipped == 3
    for name, tensor in checkpoint_load(whole.checkpoint)[0].state_dict().items():
        assert torch.equal(tensor, checkpoint_load(resumed.checkpoint)[0].state_dict()[name]), name


def test_too_many_that_are_not_finite_stop_it_and_it_can_go_on_with_more(data, tmp_path, undefined_at):
    undefined_at(2, 5)
    with pytest.raises(TrainingError, match=r"not finite at batch 5.*1 such.*lower optimiser.lr"):
        train(config(data, "vhred", optimiser={"max_skipped": 1}), tmp_path / "one")
    assert train(config(data, "vhred", optimiser={"max_skipped": 2}), tmp_path / "one").skipped == 2


def test_a_comment_in_a_models_file_does_not_forbid_to_go_on(data, tmp_path, monkeypatch):
    models = tmp_path / "chatbots" / "models"
    shutil.copytree(Path(checkpoints.__file__).parent / "models", models)
    monkeypatch.setattr(checkpoints, "__file__", str(models.parent / "checkpoints.py"))
    expected = config(data)

    def changed(*change: str) -> None:
        path = models / "hred.py"
        text = path.read_text(encoding="utf-8")
        assert change[0] in text
        path.write_text(text.replace(*change), encoding="utf-8")
        checkpoints.code_version.cache_clear()

    try:
        checkpoints.code_version.cache_clear()
        with pytest.raises(Killed):
            train(expected, tmp_path / "out", watch=killed_at(3))
        changed("# (B, N, W), (1)", "# another comment")
        changed('"""HRED, the hierarchical', '"""The hierarchical')
        changed("    def terms(\n", "    def terms(  # another line\n\n")
        with pytest.raises(Killed):
            train(expected, tmp_path / "out", watch=killed_at(5))
        changed("h_0 = self.decoder.start(c)", "h_0 = self.decoder.start(c + 0)")
        with pytest.raises(StateError, match="version of the models"):
            train(expected, tmp_path / "out")
    finally:
        checkpoints.code_version.cache_clear()


def test_two_processes_do_not_train_in_one_folder(data, tmp_path):
    from filelock import FileLock

    with FileLock(tmp_path / ".lock"), pytest.raises(TrainingError, match="another process"):
        train(config(data), tmp_path)


def test_the_manifest_says_what_was_done(data, tmp_path):
    expected = config(data, optimiser={"max_batches": 2})
    manifest = checkpoint_manifest(train(expected, tmp_path).checkpoint)
    assert manifest.training["config_digest"] == expected.digest
    assert manifest.training["n_dialogues"]["train"] > 0
    assert len(manifest.corpus) == 16
    assert manifest.code_version
    assert "small.jsonl" in str(manifest.training["corpora"])
    assert str(data) not in str(manifest)  # no path of this machine


def test_weights_are_taken_over_from_a_training_beside(data, tmp_path):
    train(config(data, name="base", optimiser={"max_batches": 2}), tmp_path / "base")
    base = checkpoint_load(tmp_path / "base" / "best")[0]
    expected = config(data, "vhcr", start={"weights": "base"}, optimiser={"max_batches": 1, "lr": 1e-9})
    model = checkpoint_load(train(expected, tmp_path / "tiny").checkpoint)[0]
    assert torch.allclose(model.encoder.embedding.weight, base.encoder.embedding.weight, atol=1e-6)
    wide, narrow = model.decoder.start[0].weight, base.decoder.start[0].weight
    assert wide.shape[1] > narrow.shape[1]
    assert torch.allclose(wide[:, : narrow.shape[1]], narrow, atol=1e-6)
    with pytest.raises(ValueError, match=r"start\.weights: .*nobody.*train that run first"):
        train(config(data, start={"weights": "nobody"}), tmp_path / "other")


def test_kl_weight_rises_linearly_and_stays():
    assert [kl_weight(s, 4) for s in (0, 1, 4, 9)] == [0, 0.25, 1, 1]
    assert kl_weight(0, 0) == 1


def test_learning_rate():
    constant = OptimiserConfig(lr=0.1)
    assert learning_rate(constant, 7, 10) == 0.1
    linear = OptimiserConfig(lr=0.1, schedule="linear", warmup=2)
    rates = [learning_rate(linear, s, 10) for s in (0, 1, 2, 9)]
    assert rates == pytest.approx([0.05, 0.09, 0.08, 0.01])
