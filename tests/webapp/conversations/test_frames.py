from __future__ import annotations

import json
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webapp.conversations.frames import FRAME_MAX_CHARS, MessageFrame, RetryFrame, VoteFrame, frame_parse
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
    assert frame == MessageFrame(client_id=client_id, text=text)


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


def test_all_mistakes_are_told_at_once_and_by_whose_frame() -> None:
    data = {"type": "vote", "turn": -1, "value": True, "client_id": "mine"}
    with pytest.raises(Refused) as caught:
        frame_parse(json.dumps(data))
    assert caught.value.message == (
        "This frame was not understood: 2 mistakes: (1) turn is -1; it must be a whole number at least 0 and below "
        "1000000; (2) value is True; it must be a whole number from -1 to 1."
    )
    assert caught.value.details == {"client_id": "mine"}


def test_keys_that_are_not_known_are_let_pass_and_half_an_emoji_is_text() -> None:
    assert frame_parse('{"type": "retry", "sent_at": 5}') == RetryFrame()
    id_ = uuid.uuid4()
    text = f'{{"type": "message", "client_id": "{id_}", "text": "\\ud83d"}}'
    assert frame_parse(text) == MessageFrame(client_id=id_, text="\ud83d")


def test_huge_frames_are_refused() -> None:
    with pytest.raises(Refused, match="at most"):
        frame_parse("x" * (FRAME_MAX_CHARS + 1))
    with pytest.raises(Refused):
        frame_parse("[" * 60_000)
