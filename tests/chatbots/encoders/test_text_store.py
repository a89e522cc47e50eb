"""The store of rows of numbers: several processes, kills, damage, size, erasure."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from chatbots.encoders import cache
from chatbots.encoders.cache import TextStore

ROWS = {
    "one": np.array([0.1, 2.0], np.float32),
    "two": np.array([3.0, 1 / 3], np.float32),
    "\ud800": np.array([5.0, 6.0], np.float32),
}


@pytest.fixture
def store(tmp_path: Path) -> TextStore:
    return TextStore(tmp_path / "deep" / "texts.sqlite3")


def test_rows_come_back_to_the_bit_by_encoder_and_text(store: TextStore) -> None:
    store.put("a", ROWS)
    found = TextStore(store.path).get("a", [*ROWS, "three"])
    assert found.keys() == ROWS.keys()
    for text, row in ROWS.items():
        assert found[text].dtype == np.float32
        np.testing.assert_array_equal(found[text], row)
    assert store.get("b", list(ROWS)) == {}
    many = [f"text {i}" for i in range(2_000)]
    store.put("a", {text: np.full(3, i, np.float32) for i, text in enumerate(many)})
    found = store.get("a", many)
    assert [int(found[text][0]) for text in many] == list(range(2_000))


def test_only_its_owner_can_read_it(store: TextStore) -> None:
    store.put("a", ROWS)
    assert [file.stat().st_mode & 0o077 for file in store.path.parent.iterdir()] == [0]


def test_erased_texts_are_gone_from_every_encoder_and_from_the_file(store: TextStore) -> None:
    row = np.frombuffer(b"a row that tells of somebody....", dtype=np.float32)
    for encoder in "ab":
        store.put(encoder, {"mine": row, "yours": ROWS["one"]})
    assert store.forget(["mine", "unknown"]) == 2
    assert store.get("a", ["mine", "yours"]).keys() == {"yours"}
    assert all(b"tells of somebody" not in file.read_bytes() for file in store.path.parent.iterdir())


def test_what_was_not_read_for_longest_makes_room(store: TextStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.limit_bytes = 400_000
    for day in range(3):
        monkeypatch.setattr(cache, "_today", lambda day=day: day)
        store.get("a", [f"0 {i}" for i in range(90)])  # read again every day
        store.put("a", {f"{day} {i}": np.zeros(384, np.float32) for i in range(90)})
    store.put("a", {f"new {i}": np.zeros(384, np.float32) for i in range(20)})
    kept = store.get("a", [f"{day} {i}" for day in range(3) for i in range(90)])
    n_by_day = [sum(text.startswith(f"{day} ") for text in kept) for day in range(3)]
    assert n_by_day[0] > n_by_day[1]
    assert sum(n_by_day) * 384 * 4 < store.limit_bytes


def test_a_damaged_file_is_begun_anew(store: TextStore) -> None:
    store.put("a", ROWS)
    store.path.write_bytes(b"no database" * 1_000)
    assert store.get("a", list(ROWS)) == {}
    store.put("a", ROWS)
    assert store.get("a", list(ROWS)).keys() == ROWS.keys()


def test_where_nothing_can_be_written_nothing_is_kept(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = TextStore(tmp_path / "file" / "texts.sqlite3")
    store.put("a", ROWS)
    assert store.get("a", list(ROWS)) == {}


_WRITER = """
import sys
import numpy as np
from chatbots.encoders.cache import TextStore
store = TextStore(sys.argv[1])
for part in range(int(sys.argv[3])):
    rows = {f"{sys.argv[2]} {part} {i}": np.full(384, i, np.float32) for i in range(50)}
    store.put("a", rows)
    assert len(store.get("a", list(rows))) == 50
    print(part, flush=True)
"""


def writer(store: TextStore, name: str, n_parts: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", _WRITER, str(store.path), name, str(n_parts)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_processes_and_threads_write_at_the_same_time_and_one_is_killed(store: TextStore) -> None:
    running = [writer(store, name, 10) for name in "xy"]
    killed = writer(store, "killed", 100_000)
    assert killed.stdout is not None
    for _ in range(3):
        killed.stdout.readline()
    threads = [
        threading.Thread(target=store.put, args=("a", {f"thread {i}": np.ones(384, np.float32)})) for i in range(4)
    ]
    for thread in threads:
        thread.start()
    os.kill(killed.pid, signal.SIGKILL)
    killed.communicate()
    for thread in threads:
        thread.join()
    for process in running:
        process.communicate()
        assert process.returncode == 0
    texts = [f"{name} {part} {i}" for name in "xy" for part in range(10) for i in range(50)]
    texts += [f"thread {i}" for i in range(4)]
    texts += [f"killed {part} {i}" for part in range(3) for i in range(50)]
    assert store.get("a", texts).keys() == set(texts)
