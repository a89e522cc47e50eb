"""Training with emotion and infersent targets, and the targets themselves."""

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chatbots.bots.checkpoint import CheckpointBot
from chatbots.checkpoints import checkpoint_manifest
from chatbots.conversation import Conversation
from chatbots.encoders.cache import cache_folder_set
from chatbots.encoders.deepmoji import DeepMojiEncoder
from chatbots.encoders.emotion import emotion_encoder
from chatbots.encoders.infersent import InferSentEncoder
from chatbots.encoders.sentence import PCA, sentence_encoder
from chatbots.serving import reply
from chatbots.training import ei as ei_module
from chatbots.training import ei as subject
from chatbots.training.config import CONFIGS_FOLDER, base_applied, base_find
from chatbots.training.data import data_prepare
from chatbots.training.ei import MINILM_VARIANCE, EITraining, check_ei_weights, targets_make
from chatbots.training.loop import train
from chatbots.validation import ValuesError, yaml_read
from tests.chatbots.published_encoders import deepmoji_write, infersent_write
from tests.chatbots.training.builders import config, corpus_write, fake_embeddings

ELSEWHERE = "cuda:1"
FEW = {"optimiser": {"max_batches": 2}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    cache_folder_set(tmp_path / "cache")
    return corpus_write(tmp_path)


def paper_ei(folder: Path, **more: Any) -> dict[str, Any]:
    """Return the `ei` of a config that takes both encoders of the paper."""
    return {
        "emotion_encoder": "deepmoji",
        "deepmoji": deepmoji_write(folder),
        "sentence_encoder": "infersent",
        "infersent": infersent_write(folder),
        "e": 4,
        "s": 4,
        "w_inf": 10.0,
        **more,
    }


def test_the_targets_are_the_papers_where_its_files_are_named(folder: Path) -> None:
    expected = config(folder, ei=paper_ei(folder, variance=0.9))
    targets = data_prepare(expected).targets
    texts = list(targets.row)
    deepmoji = DeepMojiEncoder(folder / "pytorch_model.bin", folder / "vocabulary.json")
    np.testing.assert_allclose(targets.emotion, deepmoji.encode(texts), atol=1e-6)
    infersent = InferSentEncoder(folder / "infersent1.pkl", folder / "glove.txt", normalise=False)
    vectors = infersent.encode(texts)
    assert np.linalg.norm(vectors, axis=1).std() > 0.01  # their own lengths, as the released code
    np.testing.assert_allclose(targets.sentence, targets.pca(vectors), atol=1e-5)
    assert targets.encoders == {"emotion": deepmoji.identity.key, "sentence": infersent.identity.key}


def test_targets_are_computed_once_and_where_the_training_does(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str]] = []

    def encode(self: Any, texts: list[str]) -> np.ndarray:
        asked.append((type(self).__name__, self.device))
        made = fake_embeddings(texts)
        return np.abs(made[:, :64]) if isinstance(self, DeepMojiEncoder) else made

    monkeypatch.setattr(DeepMojiEncoder, "encode", encode)
    monkeypatch.setattr(InferSentEncoder, "encode", encode)
    expected = config(folder, ei=paper_ei(folder))
    for _ in range(2):
        data_prepare(expected, ELSEWHERE)
    assert sorted(asked) == [("DeepMojiEncoder", ELSEWHERE), ("InferSentEncoder", ELSEWHERE)]


def test_the_default_encoders_compute_there_too(folder: Path, encoder_devices: list[str]) -> None:
    data_prepare(config(folder, ei={}), ELSEWHERE)
    assert encoder_devices == [ELSEWHERE]


def test_a_model_that_reads_the_papers_encoders_says_which_files_it_wants(folder: Path) -> None:
    ei = paper_ei(folder, input_only=True)
    result = train(config(folder, ei=ei, **FEW), folder / "out")
    manifest = checkpoint_manifest(result.checkpoint)
    assert manifest.config["ei"]["K"] == 64
    assert str(folder) not in str(manifest)  # no path of this machine
    place = str(result.checkpoint)
    reason = CheckpointBot(name="b", folder=place).unavailable_reason()
    assert "deepmoji needs the paths of its files" in reason
    assert "encoder_files" in reason
    files = {name: {key: str(folder / file) for key, file in ei[name].items()} for name in ("deepmoji", "infersent")}
    bot = CheckpointBot(name="b", folder=place, encoder_files=files)
    assert bot.unavailable_reason() is None
    bot.load("cpu")
    contexts = [Conversation.from_texts(["do you like the dog?"], id="1", seed=1)]
    assert reply(bot, contexts)[0].text is not None
    with pytest.raises(ValuesError, match=r"encoder_files\.deepmoji\.weight is an unknown key"):
        CheckpointBot(name="b", folder=place, encoder_files={"deepmoji": {"weight": "a"}})
    files["infersent"] |= {"compat_padding": True}
    other = CheckpointBot(name="b", folder=place, encoder_files=files)
    assert "a different sentence encoder" in (other.unavailable_reason() or "")


@pytest.mark.parametrize(
    ("ei", "message"),
    [
        ({"emotion_encoder": "deepmoji"}, "give the paths of its files: deepmoji: {weights, vocabulary}"),
        ({"sentence_encoder": "infersent"}, "give the paths of its files: infersent: {weights, vectors}"),
        (
            {"deepmoji": {"weights": "a", "vocabulary": "b"}},
            "deepmoji has files, but emotion_encoder is 'goemotions', which does not use them",
        ),
        (
            {"emotion_encoder": "deepmoji", "deepmoji": {"weights": "a", "vocabulary": "b"}},
            "an encoder of ei cannot be used: there is no file",
        ),
        ({"emotion_encoder": "emoji"}, "ei.emotion_encoder is 'emoji'; did you mean deepmoji? It must be one of goemo"),
        (
            {
                "sentence_encoder": "infersent",
                "infersent": {"weights": "a", "vectors": "b", "version": 2, "compat_padding": True},
            },
            "compat_padding is only for version 1",
        ),
    ],
)
def test_mistakes_are_named(folder: Path, ei: dict[str, Any], message: str) -> None:
    with pytest.raises(ValuesError) as caught:
        config(folder, ei=ei)
    assert message in str(caught.value)


TABLE_5 = sorted((CONFIGS_FOLDER / "table5").glob("cornell-*.yaml"))


@pytest.mark.parametrize("file", TABLE_5, ids=lambda file: file.stem)
def test_an_ablation_of_table_5_trains_its_heads_only(
    file: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ei_module, "embeddings_cached", fake_embeddings)
    values = yaml_read(file)
    values = base_applied(values, base_find(values.pop("base"), file.parent))
    tiny = config(folder, values["model"], ei={**values["ei"], "e": 4, "s": 4, "w_inf": 10.0}, **FEW)
    result = train(tiny, folder / "out")
    stored = checkpoint_manifest(result.checkpoint).config["ei"]
    kind = file.stem.rpartition("-")[2]
    assert stored["emotion"] == (kind != "sentence")
    assert stored["sentence"] == (kind != "emotion")
    assert stored["input_only"] == (kind == "input")


# --- the weight of the sentence loss ----------------------------------------------------------------------

WORDS = 10_000.0
MINILM = EITraining(w_inf=25_000)
OTHER = EITraining(w_inf=25_000, sentence_encoder="some/encoder")


def test_the_papers_weight_is_fine_with_minilm(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    assert check_ei_weights(MINILM, MINILM_VARIANCE, WORDS) == pytest.approx(92.5)
    assert [record.levelname for record in caplog.records] == ["INFO"]


@pytest.mark.parametrize("variance", [MINILM_VARIANCE / 8, MINILM_VARIANCE * 20])
def test_another_scale_is_warned_of_with_the_equivalent(variance: float, caplog: pytest.LogCaptureFixture) -> None:
    check_ei_weights(OTHER, variance, WORDS)
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    factor = MINILM_VARIANCE / variance
    assert f"use w_inf from {25_000 * factor:,.0f} to {100_000 * factor:,.0f} here" in caplog.text


def test_a_sentence_loss_that_outweighs_the_words_is_refused() -> None:
    with pytest.raises(ValuesError, match=r"ei\.w_inf is 25,000.*instead of replies.*w_inf from 92\.5"):
        check_ei_weights(OTHER, 1.0, WORDS)


def test_the_papers_own_encoder_and_heads_without_it_are_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    files = {"weights": "a", "vectors": "b"}
    ei = EITraining(sentence_encoder="infersent", infersent=files)  # type: ignore[arg-type]
    assert check_ei_weights(ei, 1.0, WORDS) == 25_000
    assert check_ei_weights(EITraining(heads="emotion"), 1.0, WORDS) == 0
    assert check_ei_weights(EITraining(input_only=True), 1.0, WORDS) == 0
    assert check_ei_weights(EITraining(w_inf=0), 1.0, WORDS) == 0
    assert "WARNING" not in caplog.text


def test_a_training_checks_it_before_it_begins(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ei_module, "embeddings_cached", lambda *a: 30 * fake_embeddings(*a))
    ei = {"sentence_encoder": "minilm", "s": 4, "e": 4}
    with pytest.raises(ValuesError, match="instead of replies"):
        train(config(folder, ei=ei), folder / "out")
    monkeypatch.setattr(ei_module, "embeddings_cached", fake_embeddings)
    result = train(config(folder, ei=ei, **FEW), folder / "out")
    told = checkpoint_manifest(result.checkpoint).training
    assert told["sentence_nats"] == pytest.approx(25_000 * told["sentence_variance"])


def test_targets_of_all_texts_with_a_pca_of_the_training_text(monkeypatch):
    monkeypatch.setattr(subject, "embeddings_cached", fake_embeddings)
    training = [f"text {i}" for i in range(40)]
    encoders = {"emotion": emotion_encoder(), "sentence": sentence_encoder()}
    result = targets_make(training, ["other", "text 3"], variance=0.5, **encoders)
    assert list(result.row) == [*training, "other"]
    np.testing.assert_allclose(result.emotion.sum(1), 1, rtol=1e-5)
    assert result.emotion.shape == (41, 28)
    assert result.sentence.shape == (41, len(result.pca.components))
    alone = PCA.fit(fake_embeddings(training), 0.5)
    np.testing.assert_allclose(result.pca.components, alone.components, atol=1e-5)
    expected = alone(fake_embeddings(["other"]))[0]
    np.testing.assert_allclose(result.sentence[result.row["other"]], expected, atol=1e-5)


def test_embeddings_are_computed_once(tmp_path):
    class Counting:
        identity = sentence_encoder().identity
        n_calls = 0

        def encode(self, texts):
            self.n_calls += 1
            return fake_embeddings(texts)

    encoder = Counting()
    cache_folder_set(tmp_path)  # the next test sets its own again
    first = subject.embeddings_cached(("a", "b"), encoder)
    np.testing.assert_array_equal(subject.embeddings_cached(("a", "b"), encoder), first)
    assert encoder.n_calls == 1
    subject.embeddings_cached(("a", "c"), encoder)
    assert encoder.n_calls == 2
