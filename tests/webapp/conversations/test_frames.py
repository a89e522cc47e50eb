from __future__ import annotations

import json
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webapp.conversations.frames import (
    FRAME_MAX_CHARS,
    MessageFrame,
    RetryFrame,
    VoteFrame,
    frame_parse,
)
from webapp.core.errors import Refused

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@given(st.text())
def test_any_text_is_a_frame_or_refused(text: str) -> None:
    try:
        frame_parse(text)
    except Refused as refused:
        assert refused.code == "bad_frame"


@given(
    st.dictionaries(
        st.sampled_from(["type", "text", "client_id", "turn", "value"]),
        json_values | st.sampled_from(["message", "vote", "retry", str(uuid.UUID(int=1))]),
    )
)
def test_any_object_is_a_frame_or_refused(data: dict) -> None:
    try:
        frame = frame_parse(json.dumps(data))
    except Refused as refused:
        assert refused.code == "bad_frame"
        assert refused.message
    else:
        assert isinstance(frame, MessageFrame | VoteFrame | RetryFrame)


@given(st.uuids(), st.text())
def test_messages_survive_the_way(client_id: uuid.UUID, text: str) -> None:
    frame = frame_parse(json.dumps({"type": "message", "client_id": str(client_id), "text": text}))
    assert frame == MessageFrame(client_id, text)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ({"type": "vote", "turn": 1, "value": 2}, "value is 2"),
        ({"type": "vote", "turn": True, "value": 1}, "turn is True"),
        ({"type": "vote", "turn": -1, "value": 1}, "turn is -1"),
        ({"type": "message", "text": "x", "client_id": "7"}, "must be a UUID"),
        ({"type": "message", "text": 3, "client_id": str(uuid.uuid4())}, "text is 3"),
        ({"type": "shout"}, "type is 'shout'"),
        ([], "not a JSON object"),
    ],
)
def test_refusals_name_the_value_and_what_is_right(data: object, says: str) -> None:
    with pytest.raises(Refused, match=says):
        frame_parse(json.dumps(data))


def test_huge_frames_are_refused() -> None:
    with pytest.raises(Refused, match="at most"):
        frame_parse("x" * (FRAME_MAX_CHARS + 1))
    with pytest.raises(Refused):
        frame_parse("[" * 60_000)
