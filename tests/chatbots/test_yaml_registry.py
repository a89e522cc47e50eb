"""Bots of a YAML file and of the catalogue of checkpoints: registered, refused with their place, read again."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from pydantic import Field

from chatbots import remote_models
from chatbots.bots.endpoint import EndpointBot
from chatbots.bots.neural_chat import NeuralChatBot
from chatbots.bots.retrieval import RetrievalBot
from chatbots.bots.transformers_bot import TransformersBot
from chatbots.conversation import Conversation
from chatbots.endpoints.options import EndpointOptions
from chatbots.registry import bot_get, bots
from chatbots.remote_models import remote_list
from chatbots.validation import InputModel
from chatbots.yaml_registry import (
    ConfiguredBot,
    EntriesError,
    YamlEntryKind,
    bot_kinds,
    configured_bots,
    register_bot_kind,
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "bots.yaml"


@pytest.fixture
def clean_registry(tmp_path: Path) -> Iterator[None]:
    yield
    configured_bots.register(tmp_path / "no-such-file.yaml")


GOOD = """
- id: gpt
  kind: endpoint
  name: A big one
  params:
    model: some-model
    base_url: http://localhost:1234/v1
    api_key_env: SOME_KEY
    temperature: 1
    window: 8
    price_in: 0.5
- id: old-bot
  kind: neural_chat
  params: {path: "my.module:Bot", arguments: {beam: 5}}
- id: lexical
  kind: retrieval
  name: Retrieval, by words
  params: {encoder: nobody/nothing}
"""


def test_every_entry_is_a_bot_of_its_own(file: Path) -> None:
    file.write_text(GOOD)
    endpoint, plug_in, retrieval = configured_bots.load(file)
    assert isinstance(endpoint, EndpointBot)
    assert (endpoint.name, endpoint.title, endpoint.options.model) == ("gpt", "A big one", "some-model")
    assert endpoint.identity.name == "gpt"
    params = endpoint.identity.params
    assert params["temperature"] == 1
    assert params["window"] == 8
    assert params["api_key_env"] == "SOME_KEY"
    assert isinstance(plug_in, NeuralChatBot)
    assert plug_in.title == "old-bot"
    assert plug_in.options.arguments == {"beam": 5}
    assert isinstance(retrieval, RetrievalBot)
    assert retrieval.ranking == "tfidf"
    assert len({bot.identity.key for bot in (endpoint, plug_in, retrieval)}) == 3


def test_no_file_and_an_empty_file_hold_no_bot(file: Path) -> None:
    assert configured_bots.load(file) == []
    file.write_text("# nothing yet\n")
    assert configured_bots.load(file) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id: a", "must contain a list"),
        ("- just text", "entry 1: it is 'just text'; it must be a mapping"),
        ("[{", "cannot be read"),
        ("- {kind: endpoint}", "id is missing; it must be up to 64 lower-case letters"),
        ("- {id: Ünicode, kind: endpoint}", "id is 'Ünicode'"),
        ("- {id: 'a b', kind: endpoint}", "id is 'a b'"),
        ("- {id: -a, kind: endpoint}", "id is '-a'"),
        ("- {id: 5, kind: endpoint}", "id is 5"),
        ("- {id: a}", "kind is missing; it must be one of checkpoint, endpoint, gguf"),
        ("- {id: a, kind: endpont}", "kind is 'endpont'; did you mean endpoint\\?"),
        ("- {id: a, kind: neuralchat}", "did you mean neural_chat"),
        ("- {id: a, knd: endpoint}", "knd is an unknown key; did you mean kind\\?"),
        ("- {id: a, kind: endpoint, name: 3}", "name is 3"),
        ("- {id: a, kind: endpoint, params: [1]}", r"params is \[1\]; it must be a mapping"),
        ("- {id: a, kind: endpoint}", "params.model is missing"),
        ("- {id: a, kind: neural_chat}", "params.path is missing; it must be like package.module"),
        ("- {id: a, kind: endpoint, params: {model: m, temprature: 1}}", "params.temprature is an unknown key; did you "
            "mean temperature"),
        ("- {id: a, kind: endpoint, params: {model: m, temperature: hot}}", "temperature is 'hot'; it must be a "
            "number"),
        ("- {id: a, kind: endpoint, params: {model: m, temperature: true}}", "temperature is True; it must be a "
            "number"),
        ("- {id: a, kind: endpoint, params: {model: m, window: 2.5}}", "window is 2.5; it must be a whole number"),
        ("- {id: a, kind: endpoint, params: {model: 7}}", "model is 7; it must be a text"),
        ("- {id: a, kind: endpoint, params: {model: m, retries: -1}}", "retries is -1; it must be a whole number of "
            "at least 0"),
        ("- {id: a, kind: endpoint, params: {model: m, send_seed: 1}}", "send_seed is 1; it must be true or false"),
        ("- {id: a, kind: neural_chat, params: {path: nonsense}}", "path is 'nonsense'"),
        ("- {id: a, kind: neural_chat, params: {path: 'a:B', arguments: [1]}}", "it must be a mapping"),
        (
            "- {id: a, kind: retrieval}\n- {id: b, kind: retrieval}\n- {id: a, kind: retrieval}",
            r"entry 3 \(a\): a second bot with the id 'a'",
        ),
    ],
)  # fmt: skip
def test_mistakes_are_named(file: Path, text: str, message: str) -> None:
    file.write_text(text)
    with pytest.raises(EntriesError, match=message) as caught:
        configured_bots.load(file)
    assert str(file) in str(caught.value)


@pytest.mark.parametrize(
    "entry",
    [
        "{id: a, kind: endpoint, params: {model: m, api_key: sk-very-secret}}",
        "{id: a, kind: endpoint, params: {model: m, API-KEY: sk-very-secret}}",
        "{id: a, kind: endpoint, params: {model: m, token: sk-very-secret}}",
        "{id: a, kind: endpoint, api_key: sk-very-secret}",
        "{id: a, kind: endpoint, params: {model: m, api_key_env: sk-very-secret}}",
    ],
)
def test_a_secret_is_refused_and_not_repeated(file: Path, entry: str) -> None:
    file.write_text(f"- {entry}")
    with pytest.raises(EntriesError, match="environment variable") as caught:
        configured_bots.load(file)
    assert "api_key_env" in str(caught.value)
    assert "very-secret" not in str(caught.value)


def test_registering_again_replaces_what_was_registered(file: Path, clean_registry: None) -> None:
    before = bots.names()
    file.write_text("- {id: one, kind: retrieval}\n- {id: two, kind: retrieval}")
    assert configured_bots.register(file) == ["one", "two"]
    first = bot_get("one")
    assert set(bots.names()) == {*before, "one", "two"}
    file.write_text("- {id: one, kind: retrieval, name: Anew}")
    configured_bots.register(file)
    assert bot_get("one") is not first
    assert bot_get("one").title == "Anew"
    assert set(bots.names()) == {*before, "one"}


def test_a_broken_entry_disables_itself_only(file: Path, clean_registry: None) -> None:
    names = bots.names()
    file.write_text(
        "- {id: one, kind: retrieval}\n"
        "- {id: x, kind: retrival}\n"
        "- just words\n"
        "- {id: eliza, kind: retrieval}\n"
        "- {id: one, kind: retrieval}\n"
        "- {id: two, kind: retrieval}\n"
    )
    assert configured_bots.register(file) == ["one", "two"]
    assert set(bots.names()) == {*names, "one", "two"}
    assert [(broken.number, broken.id, broken.kind) for broken in configured_bots.broken] == [
        (2, "x", "retrival"), (3, "", ""), (4, "eliza", "retrieval"), (5, "one", "retrieval"),
    ]  # fmt: skip
    texts = [str(broken) for broken in configured_bots.broken]
    assert texts[0].startswith(f"{file}, entry 2 (x): kind is 'retrival'; did you mean retrieval?")
    assert "it is 'just words'; it must be a mapping" in texts[1]
    assert "'eliza' is a built-in bot" in texts[2]
    assert "a second bot with the id 'one'" in texts[3]
    file.write_text("- {id: one, kind: retrieval}\n- {id: x, kind: retrieval}")
    assert configured_bots.extend(file) == ["x"]
    assert configured_bots.broken == []


def test_a_bug_in_a_kind_disables_its_entry_only(
    file: Path, clean_registry: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(**options: object) -> None:
        raise ModuleNotFoundError("no module")

    monkeypatch.setattr(bot_kinds, "_entries", dict(bot_kinds._entries))
    bot_kinds.add(YamlEntryKind("gone", broken, InputModel))  # type: ignore[arg-type]
    file.write_text("- {id: x, kind: gone}\n- {id: one, kind: retrieval}")
    assert configured_bots.register(file) == ["one"]
    assert "ModuleNotFoundError" in configured_bots.broken[0].reason


@pytest.mark.parametrize("text", ["- [", "a: b"])
def test_a_file_without_entries_leaves_the_registry_as_it_was(file: Path, clean_registry: None, text: str) -> None:
    file.write_text("- {id: one, kind: retrieval}")
    configured_bots.register(file)
    file.write_text(text)
    with pytest.raises(EntriesError, match=str(file)):
        configured_bots.register(file)
    assert "one" in bots.names()


def test_all_mistakes_of_an_entry_are_told_at_once(file: Path, clean_registry: None) -> None:
    file.write_text("- {id: A b, kind: endpoint, colour: red, params: {temperature: hot, retris: 1, stop: [3]}}")
    assert configured_bots.register(file) == []
    assert configured_bots.broken[0].reason == (
        "6 mistakes: (1) id is 'A b'; it must be up to 64 lower-case letters, digits and hyphens, such as "
        "qwen-small; (2) params.model is missing; it must be a text that is not empty; (3) params.temperature is "
        "'hot'; it must be a number of at least 0 or null; (4) params.stop[0] is 3; it must be a text that is not "
        "empty; "
        "(5) params.retris is an unknown key; did you mean retries? Allowed: "
        f"{', '.join(EndpointOptions.model_fields)}; "
        "(6) colour is an unknown key; Allowed: id, kind, name, params"
    )


def test_a_number_stays_as_it_was_written_so_that_identities_stay(file: Path) -> None:
    file.write_text("- {id: a, kind: endpoint, params: {model: m, temperature: 1, top_p: 1e-1}}")
    params = configured_bots.load(file)[0].identity.params
    assert repr((params["temperature"], params["top_p"])) == "(1, 0.1)"


def test_a_kind_is_one_class_that_registers_itself(file: Path, clean_registry: None) -> None:
    class ShoutOptions(InputModel):
        volume: int = Field(1, ge=1, description="how many exclamation marks")

    @register_bot_kind("shout")
    class Shout(ConfiguredBot):
        """Answers loudly."""

        options_type = ShoutOptions
        options: ShoutOptions

        @property
        def params(self) -> dict[str, object]:
            return dict(self.options)

        def answer(self, contexts: Sequence[Conversation]) -> list[str]:
            return ["!" * self.options.volume for _ in contexts]

    try:
        file.write_text("- {id: loud, kind: shout, params: {volume: 3}}")
        assert configured_bots.register(file) == ["loud"]
        assert bot_get("loud").answer([Conversation("1")]) == ["!!!"]  # type: ignore[attr-defined]
        file.write_text("- {id: loud, kind: shout, params: {volume: 0}}")
        assert configured_bots.register(file) == []
        assert "params.volume is 0" in configured_bots.broken[0].reason
    finally:
        bot_kinds.discard("shout")


def test_every_entry_makes_a_bot_that_downloads_only_because_it_was_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "bots.yaml"
    for model in remote_list():
        assert model.licence
        assert model.about
        assert model.download_mb > 100
        assert "allow_download" not in model.params
    path.write_text("".join(model.snippet for model in remote_list()))
    result = configured_bots.load(path)
    assert [bot.name for bot in result] == [model.id for model in remote_list()]
    for bot, model in zip(result, remote_list(), strict=True):
        assert isinstance(bot, TransformersBot)
        assert (bot.options.model, bot.title, bot.options.allow_download) == (model.model, model.name, True)
        for name, value in model.params.items():
            assert getattr(bot.options, name) == value
    assert {"dialogpt-small", "dialogpt-medium", "blenderbot-400m", "persona-gpt"} < {bot.name for bot in result}


def test_mistakes_of_the_catalogue_are_told_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "remote_models.yaml"
    path.write_text("- {id: A b, name: A, model: a/b, license: MIT, download_mb: 0, params: {tmp: 1}}")
    monkeypatch.setattr(remote_models, "REMOTE_MODELS_FILE", path)
    remote_models.remote_list.cache_clear()
    try:
        with pytest.raises(ValueError, match=r"remote_models\.yaml: \d mistakes") as caught:
            remote_models.remote_list()
    finally:
        remote_models.remote_list.cache_clear()
    text = str(caught.value)
    for part in ("[0].id is 'A b'", "did you mean licence?", "[0].parameters is missing"):
        assert part in text
