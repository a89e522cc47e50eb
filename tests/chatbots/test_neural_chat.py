"""Bots written for the 2019 server."""

import sys
from pathlib import Path

import pytest

from chatbots import Conversation
from chatbots.bots.base import BotError
from chatbots.bots.neural_chat import NeuralChatBot
from chatbots.serving import reply

OLD_BOT = """
class OldBot:
    def __init__(self, mark="|"):
        self.mark = mark

    def handle_messages(self, messages):
        if messages[-1] == "boom":
            raise RuntimeError("it broke")
        if messages[-1] == "number":
            return 7
        return self.mark.join(messages)

class NoBot:
    pass

class BadBot:
    def __init__(self):
        raise OSError("no weights")
"""


@pytest.fixture
def old_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "old_bots_2019").mkdir()
    (tmp_path / "old_bots_2019" / "__init__.py").write_text("")
    (tmp_path / "old_bots_2019" / "server.py").write_text(OLD_BOT)
    monkeypatch.syspath_prepend(tmp_path)
    yield "old_bots_2019.server"
    for name in [name for name in sys.modules if name.startswith("old_bots_2019")]:
        del sys.modules[name]


def bot(path: str, **params: object) -> NeuralChatBot:
    result = NeuralChatBot(name="old", path=path, **params)  # type: ignore[arg-type]
    result.load("cpu")
    return result


def test_it_gets_the_last_messages_oldest_first(old_package: str) -> None:
    old = bot(f"{old_package}:OldBot")
    long = Conversation.from_texts(["1", "2", "3", "4", "5", "6", "7"])
    assert old.answer([long, Conversation.from_texts(["only"])]) == ["3|4|5|6|7", "only"]
    assert bot(f"{old_package}:OldBot", window=2, arguments={"mark": "+"}).answer([long]) == ["6+7"]


def test_an_empty_conversation_is_opened(old_package: str) -> None:
    assert bot(f"{old_package}:OldBot").answer([Conversation("c")]) == ["Hello!"]


def test_one_conversations_exception_fails_that_one_alone(old_package: str) -> None:
    texts = [["fine"], ["boom"], ["number"], ["also fine"]]
    replies = reply(bot(f"{old_package}:OldBot"), [Conversation.from_texts(t) for t in texts])
    assert [r.text for r in replies] == ["fine", None, None, "also fine"]
    assert "it broke" in str(replies[1].error)
    assert "must return a text" in str(replies[2].error)


def test_what_cannot_be_loaded_says_why(old_package: str) -> None:
    assert "no Python package" in str(NeuralChatBot(name="x", path="no_such_pkg.y:Z").unavailable_reason())
    assert NeuralChatBot(name="x", path=f"{old_package}:OldBot").unavailable_reason() is None
    assert "old_bots_2019" not in sys.modules, "looking does not import"
    for path, reason in (
        (f"{old_package}:NoBot", "no method handle_messages"),
        (f"{old_package}:BadBot", "no weights"),
        (f"{old_package}:Missing", "Missing"),
        ("old_bots_2019.nothing:X", "nothing"),
    ):
        with pytest.raises(BotError, match=reason):
            bot(path)


@pytest.mark.parametrize("path", ["", "module", "a.b:", ":C", "a b:C", "../x:C"])
def test_a_path_that_is_none_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="must be like package"):
        NeuralChatBot(name="x", path=path)
