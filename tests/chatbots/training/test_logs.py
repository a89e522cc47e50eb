"""The metrics log: a line per entry, none twice after going on, and the same numbers for TensorBoard."""

from __future__ import annotations

import math
import struct

from tensorboardX.proto.event_pb2 import Event

from chatbots.training.run_folder import LOG_FILE, TENSORBOARD_FOLDER, MetricsLog, log_read


def scalars(folder) -> dict[tuple[str, int], float]:
    """Return what the event files hold: records of length, checksum, event, checksum."""
    found = {}
    for path in sorted((folder / TENSORBOARD_FOLDER).iterdir()):
        data = path.read_bytes()
        at = 0
        while at < len(data):
            (length,) = struct.unpack_from("<Q", data, at)
            event = Event.FromString(data[at + 12 : at + 12 + length])
            at += 16 + length
            for value in event.summary.value:
                found[value.tag, event.step] = value.simple_value
    return found


def test_lines_and_events(tmp_path):
    with MetricsLog(tmp_path) as log:
        log.write(3, "train", {"loss": 2.5, "broken": math.nan})
        log.write(3, "validation", {"loss": 1.5})
    assert log_read(tmp_path) == [
        {"step": 3, "kind": "train", "loss": 2.5, "broken": None},
        {"step": 3, "kind": "validation", "loss": 1.5},
    ]
    assert scalars(tmp_path) == {("train/loss", 3): 2.5, ("validation/loss", 3): 1.5}


def test_what_came_after_the_saved_state_is_forgotten(tmp_path):
    with MetricsLog(tmp_path) as log:
        for step in (1, 2, 3):
            log.write(step, "train", {"loss": float(step)})
    with (tmp_path / LOG_FILE).open("a") as file:
        file.write('{"step": 4, "ki')  # cut off by a kill
    with MetricsLog(tmp_path, step=2) as log:
        log.write(3, "train", {"loss": 9.0})
    assert [(line["step"], line["loss"]) for line in log_read(tmp_path)] == [(1, 1), (2, 2), (3, 9)]
    with MetricsLog(tmp_path):
        pass  # from the beginning: nothing stays
    assert log_read(tmp_path) == []
