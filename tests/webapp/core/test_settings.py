"""What is set: no process starts with a setting that cannot be meant, and YAML from people is read as plain values."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from tests.architecture.settings_reads import example_compose_only, example_entries
from tests.conftest import ROOT
from webapp.core.plain_yaml import MOST_BYTES, NotPlain, plain_read, plain_text
from webapp.settings.base import SQLITE_OPTIONS, databases
from webapp.settings.env import Environment

WRONG = {
    "PORT": ["http", "0", "70000"],
    "CONFAB_PATH_PREFIX": ["/con fab"],
    "CONFAB_REHEARSAL_URL": ["localhost:8000"],
    "DATABASE_URL": ["localhost", "mysql://u@h/d", "postgres://u@h:5432", "postgres://u@h:port/d"],
    "REDIS_URL": ["localhost:6379", "redis://", "redis://localhost/zero", "redis://localhost:x/0"],
    "CONFAB_WEB_THREADS": ["many", "0"],
    "CONFAB_AUDIT_MONTHS": ["two years", "-1"],
    "OPENBLAS_NUM_THREADS": ["all", "0"],
    "CONFAB_SOCKET_THREADS": ["many", "0"],
    "CONFAB_WEB_WAIT_S": ["20 s", "-1", "1,000", "nan"],
    "CONFAB_SECRET_KEY": ["short"],
    "CONFAB_SECRET_KEY_FALLBACKS": ["short"],
    "CONFAB_SECRETS_KEY": ["too-short", "a" * 43],
    "CONFAB_PRIVATE_ADDRESSES": ["lan"],
    "CONFAB_HOSTS": ["https://confab.example.org", "confab.example.org:8000", "a b", "a;b"],
    "CONFAB_TRUSTED_ORIGINS": ["confab.example.org", "https://confab.example.org/"],
    "CONFAB_SSL_REDIRECT": ["perhaps"],
    "CONFAB_HSTS_S": ["a year", "-1"],
    "CONFAB_PROXY_COUNT": ["one", "-1"],
    "CONFAB_UPLOAD_LIMIT_MB": ["200MB", "0"],
    "CONFAB_API_RATE": ["600", "many/m", "600/minute", "0/m"],
    "CONFAB_PROLIFIC_URL": ["api.prolific.com"],
    "CONFAB_IMAGES_ENDPOINT": ["minio.example.org"],
    "CONFAB_DEVICE": ["gpu", "cuda:", "CPU"],
    "CONFAB_BOT_MEMORY_MB": ["8GB", "-1"],
    "CONFAB_KEPT_TURNS_MB": ["512MB", "-1"],
    "CONFAB_BOT_POOLS": ["gpu2", "=hred", "gpu2="],
    "CONFAB_BOT_HOST_IN_PROCESS": ["maybe"],
    "CONFAB_REPLY_TIMEOUT_S": ["a minute", "0"],
    "CONFAB_LOAD_TIMEOUT_S": ["a minute", "0"],
    "CONFAB_REPLY_LEASE_S": ["12s", "0"],
    "CONFAB_ASIDE_IN_A_ROW": ["three", "0"],
    "CONFAB_ASIDE_FAILED": ["0.5"],
    "CONFAB_ASIDE_OF": ["-3"],
    "CONFAB_PROMETHEUS_ALLOW": ["10.0.0.0/33", "monitoring"],
    "CONFAB_SIGN_EVERY_S": ["often", "-1"],
    "CONFAB_DISK_LOW_GB": ["2GB"],
    "CONFAB_QUEUE_STILL_S": ["five minutes", "0"],
    "CONFAB_ALERT_WEBHOOK": ["lab.example.org", "ftp://lab.example.org"],
    "CONFAB_ALERT_EMAILS": ["lab", "a@b@c"],
    "CONFAB_EMAIL_URL": ["mail.example.org", "http://mail.example.org", "smtp://"],
    "CONFAB_EMAIL_FROM": ["Confab"],
    "CONFAB_PUBLIC_URL": ["confab.example.org"],
    "CONFAB_LOG_LEVEL": ["LOUD"],
    "CONFAB_LOG_FORMAT": ["xml"],
    "CONFAB_LOG_REQUESTS": ["2"],
    "CONFAB_LOG_FILE": ["/"],
    "CONFAB_LOG_FILE_MB": ["0"],
    "CONFAB_LOG_FILES_KEPT": ["all"],
    "CONFAB_DEBUG": ["please"],
}
ANYTHING_GOES = {
    *("HOST", "CONFAB_DATA_DIR", "CONFAB_STATIC_DIR", "CONFAB_BOTS", "CONFAB_METRICS", "CONFAB_BEAT_FILE"),
    *("CONFAB_PLUGINS", "CONFAB_CHANNEL_PREFIX", "CONFAB_PROLIFIC_TOKEN", "CONFAB_ALERT_SECRET"),
    *("CONFAB_PROLIFIC_HOOK_SECRET", "CONFAB_PROMETHEUS_TOKEN"),
    *("CONFAB_BOT_KEY_VARIABLES", "CONFAB_MODEL_FOLDERS", "CONFAB_IMAGES_BUCKET"),
}
"""Texts, secrets of others, and files and modules that are looked for where they are used."""

READ_ALL = """
import importlib, json, os, sys
from django.core.exceptions import ImproperlyConfigured

def start():
    for name in [name for name in sys.modules if name.startswith("webapp.settings")]:
        del sys.modules[name]
    importlib.import_module("webapp.settings.production")

start()
said = []
for name, value in json.load(sys.stdin):
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        start()
        said.append("")
    except ImproperlyConfigured as error:
        said.append(str(error))
    os.environ.pop(name)
    if before is not None:
        os.environ[name] = before
print(json.dumps(said))
"""


def test_every_setting_of_the_example_refuses_nonsense(tmp_path: Path) -> None:
    assert set(WRONG) | ANYTHING_GOES == set(example_entries()) - example_compose_only()
    given = [(name, value) for name, values in WRONG.items() for value in values]
    done = subprocess.run(
        [sys.executable, "-c", READ_ALL],
        cwd=ROOT,
        env={
            **{k: v for k, v in os.environ.items() if not k.startswith("CONFAB_")},
            "CONFAB_DATA_DIR": str(tmp_path),
            "CONFAB_SECRET_KEY": "settings-test-" + "k3y" * 20,
            "CONFAB_HOSTS": "confab.example",
        },
        input=json.dumps(given),
        capture_output=True,
        text=True,
        timeout=600,
        check=True,
    )
    for (name, value), load in zip(given, json.loads(done.stdout), strict=True):
        assert load.startswith(f"{name} "), (name, value, load)
        assert "must" in load, (name, value, load)


def read(monkeypatch: pytest.MonkeyPatch, text: str) -> tuple[Environment, str]:
    monkeypatch.setenv("CONFAB_TESTED", text)
    return Environment(), "CONFAB_TESTED"


def test_what_is_set_to_nothing_is_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    env, name = read(monkeypatch, " ")
    assert env.integer(name, 7) == 7
    assert env.number(name, 0.5) == 0.5
    assert env.flag(name, True) is True
    assert env.names(name, ["a"]) == ["a"]
    assert env.database(name, {}) == {}
    with pytest.raises(ImproperlyConfigured, match="CONFAB_TESTED is not set; it must be host names"):
        env.hosts(name)


def test_spaces_around_commas_belong_to_no_name(monkeypatch: pytest.MonkeyPatch) -> None:
    env, name = read(monkeypatch, " a.example , .b.example,[::1], *")
    assert env.hosts(name) == ["a.example", ".b.example", "[::1]", "*"]
    env, name = read(monkeypatch, "gpu2 = hred | vhred, cpu=eliza")
    assert env.pools(name, {}) == {"hred": "gpu2", "vhred": "gpu2", "eliza": "cpu"}
    env, name = read(monkeypatch, "Lab <lab@example.org>, b@localhost")
    assert env.mailboxes(name, []) == ["Lab <lab@example.org>", "b@localhost"]


def test_a_text_is_taken_letter_by_letter(monkeypatch: pytest.MonkeyPatch) -> None:
    env, name = read(monkeypatch, "$ecret")
    assert env.text(name, "") == "$ecret"


@pytest.mark.parametrize("url", ["postgres://confab:pass%2Fword@host:5432/confab", "postgres:///confab"])
def test_postgresql_is_reached_by_address_or_socket(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    env, name = read(monkeypatch, url)
    result = env.database(name, {})
    assert (result["ENGINE"], result["NAME"]) == ("django.db.backends.postgresql", "confab")


def test_a_sqlite_file_that_move_made_is_served_as_the_usual_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DATABASE_URL", f"sqlite:///{tmp_path / 'moved.sqlite3'}")
    default = databases()["default"]
    assert default["NAME"] == str(tmp_path / "moved.sqlite3")
    assert default["OPTIONS"] == SQLITE_OPTIONS


@pytest.mark.parametrize("url", ["postgres://confab:hunter2@host", "mysql://u:hunter/2@h/d", "redis://:hunter2@h/x"])
def test_no_error_shows_a_password(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    env, name = read(monkeypatch, url)
    for reader in (lambda: env.database(name, {}), lambda: env.redis(name, "")):
        with pytest.raises(ImproperlyConfigured) as refused:
            reader()
        assert "hunter" not in str(refused.value)


def test_a_misspelt_variable_is_named_with_the_one_that_is_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    env, name = read(monkeypatch, "a")
    assert env.text(name, "") == "a"
    monkeypatch.setenv("CONFAB_TESTD", "b")
    monkeypatch.setenv("CONFAB_OF_ANOTHER_PROGRAM", "c")
    assert env.misspelt() == {"CONFAB_TESTD": "CONFAB_TESTED"}


TEXTS = some.text(some.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]) | some.sampled_from("\n\r\t"))
VALUES = some.recursive(
    some.none() | some.booleans() | some.integers() | some.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(some.dictionaries(TEXTS, VALUES, min_size=1, max_size=3))
def test_what_is_written_is_read_back_the_same(values: dict[str, Any]) -> None:
    assert plain_read(plain_text(values)) == values


@pytest.mark.parametrize(
    "text", ["yes", "No", "1e-4", "12:30", "2026-01-01", "007", "~", "null", "=", "0x1F", ".5", "a: b"]
)  # fmt: skip
def test_texts_that_look_like_something_else_stay_texts(text: str) -> None:
    assert plain_read(plain_text({"a": text})) == {"a": text}


def test_answers_and_dates_are_texts_as_people_mean_them() -> None:
    result = plain_read("options: [Yes, No, On]\nday: 2026-01-01\nat: 12:30\nn: 007\nx: 1e-4\nok: true")
    assert result == {
        "options": ["Yes", "No", "On"],
        "day": "2026-01-01",
        "at": "12:30",
        "n": 7,
        "x": 0.0001,
        "ok": True,
    }
    assert plain_read(b"\xef\xbb\xbfa: 1") == plain_read('{"a": 1}') == {"a": 1}
    assert plain_read("{a: 1, b: [Yes]}") == {"a": 1, "b": ["Yes"]}
    assert plain_read("") is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: &x 1\nb: *x", "anchors (&) and aliases (*) are not supported"),
        ("a: &x 1", "anchors (&)"),
        ("a: !!python/object/apply:os.system [ls]", "python/object"),
        ("a: 1\nb: 2\na: 3", "the key 'a' occurs twice (line 3, column 1)"),
        ('{"a": 1, "a": 2}', "the key 'a' occurs twice"),
        ("a: {b: [1", "line 1"),
        ('{"a": ', "line 1, column 7"),
        ("? [1, 2]\n: 3", "a key must be a text or a number"),
        ("[" * 5000, "nested too deeply"),
        ('{"a":' * 5000, "nested too deeply"),
        ("a: \x00", "not allowed"),
        (b"a: \xff", "byte 4 is invalid"),
        ("a: " + "9" * 5000, "digits"),
        ("a" * (MOST_BYTES + 1), f"the maximum is {MOST_BYTES}"),
    ],
)
def test_what_is_not_plain_is_refused_with_its_place(text: str | bytes, said: str) -> None:
    with pytest.raises(NotPlain) as refused:
        plain_read(text)
    assert said in str(refused.value)


def test_a_few_lines_that_stand_for_gigabytes_are_refused_at_once() -> None:
    bomb = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12))
    began = time.monotonic()
    with pytest.raises(NotPlain):
        plain_read(bomb)
    assert time.monotonic() - began < 1
