"""The terminal's doors: list_bots, chat, selfplay."""

import json
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from tests.fakes import FakeStepBot
from webapp.jobs.models import SelfPlayRun
from webapp.jobs.services.jobs import job_cancel

pytestmark = pytest.mark.django_db


def run(*args: str) -> Any:
    out = StringIO()
    call_command(*args, "--json", stdout=out, stderr=StringIO())
    return json.loads(out.getvalue())


def test_list_bots_remote_lists_the_catalogue_and_shows_an_entry() -> None:
    results = {entry["id"]: entry for entry in run("list_bots", "--remote")}
    assert results["dialogpt-small"]["licence"] == "MIT"
    assert results["dialogpt-small"]["added"] is False
    assert results["dialogpt-small"]["entry"]["params"]["allow_download"] is True
    assert "eliza" not in results
    assert [entry["id"] for entry in run("list_bots", "--remote", "persona-gpt")] == ["persona-gpt"]
    for arguments, told in ((["--remote"], "MB to download"), (["--remote", "persona-gpt"], "- id: persona-gpt")):
        out = StringIO()
        call_command("list_bots", *arguments, stdout=out)
        assert told in out.getvalue()
    with pytest.raises(CommandError, match="did you mean persona-gpt"):
        run("list_bots", "--remote", "personagpt")


def test_chat_gives_one_reply_per_message(fake_bot: Any) -> None:
    bot: FakeStepBot = fake_bot("fake", replies=["first", "second"])
    result = run("chat", "fake", "--message", "a", "--message", "b", "--seed", "4")
    assert result == {
        "bot": "fake",
        "turns": [
            {"speaker": "human", "text": "a"},
            {"speaker": "bot", "text": "first"},
            {"speaker": "human", "text": "b"},
            {"speaker": "bot", "text": "second"},
        ],
    }
    assert bot.loads == 1


def test_a_blank_message_is_wrong_usage(fake_bot: Any) -> None:
    bot: FakeStepBot = fake_bot("fake")
    with pytest.raises(CommandError, match="--message is '  '; write at least one visible character") as caught:
        run("chat", "fake", "--message", "hi", "--message", "  ")
    assert caught.value.returncode == 2
    assert not bot.batches


def test_chat_in_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", StringIO("hello\n\nquit\nmore\n"))
    out = StringIO()
    call_command("chat", "parrot", stdout=out)
    assert len(out.getvalue().splitlines()) == 1


def test_chat_says_why_it_cannot(fake_bot: Any) -> None:
    fake_bot("broken", load_error="the file is damaged")
    fake_bot("mute", fails=lambda context: True)
    fake_bot("away", unavailable="no weights here")
    for name, told in (
        ("elisa", "did you mean eliza"),
        ("away", "no weights here"),
        ("mute", "mute did not reply"),
        ("broken", "the file is damaged"),
    ):
        with pytest.raises(CommandError, match=told) as error:
            run("chat", name, "--message", "hi")
        assert error.value.returncode == 1


def test_selfplay_inline_and_gone_on_with() -> None:
    result = run(
        "selfplay", "--bots", "eliza, parrot", "--conversations", "3", "--turns", "4", "--seed", "2",
        "--inline",
    )  # fmt: skip
    number = result["run"]
    assert result["bots"] == {"eliza": {"conversations": 3, "turns": 12}, "parrot": {"conversations": 3, "turns": 12}}
    assert run("selfplay", "--run", str(number), "--inline") == result
    job = SelfPlayRun.objects.get(pk=number)
    job.conversations.filter(bot_id="parrot").delete()
    SelfPlayRun.objects.update(state="running")
    job_cancel(job=job)
    assert run("selfplay", "--run", str(number), "--inline") == result


@pytest.mark.parametrize(
    ("args", "code"),
    [
        ([], 2),
        (["--bots", "eliza", "--run", "1"], 2),
        (["--bots", "eliza", "--inline", "--no-wait"], 2),
        (["--bots", "elisa", "--inline"], 1),
        (["--bots", "eliza", "--turns", "0", "--inline"], 1),
        (["--run", "77"], 1),
    ],
)
def test_selfplay_called_wrongly(args: list[str], code: int) -> None:
    with pytest.raises(CommandError) as error:
        run("selfplay", *args)
    assert error.value.returncode == code
