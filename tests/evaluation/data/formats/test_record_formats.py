"""Formats of other programs: each is read from two files that differ in detail, with a broken record between them."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import confab
from evaluation.data.formats.mapping import guess_speakers
from evaluation.data.formats.record_formats import record_formats

USER, BOT = {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}
FORMATS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "openai": (
        {"messages": [{"role": "system", "content": "Be kind."}, USER, BOT], "model": "m"},
        {"extra": 1, "id": "x", "messages": [{"content": [{"type": "text", "text": "Hi"}], "role": "user"}, BOT]},
    ),
    "sharegpt": (
        {"id": "a", "conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello"}]},
        {"conversations": [{"value": "x", "from": "system"}, {"value": "Hi", "from": "user"}], "model": "m"},
    ),
    "chatgpt": (
        {
            "title": "t",
            "current_node": "3",
            "mapping": {
                "1": {"message": None, "parent": None, "children": ["2"]},
                "2": {"message": {"author": {"role": "user"}, "content": {"parts": ["Hi"]}}, "parent": "1"},
                "x": {"message": {"author": {"role": "assistant"}, "content": {"parts": ["No"]}}, "parent": "2"},
                "3": {
                    "message": {
                        "author": {"role": "assistant"},
                        "content": {"content_type": "text", "parts": ["Hello"]},
                        "metadata": {"model_slug": "gpt-4o"},
                    },
                    "parent": "2",
                },
            },
        },
        {
            "id": "c1",
            "mapping": {"1": {"message": {"author": {"role": "user"}, "content": {"parts": ["Hi"]}}, "children": []}},
        },
    ),
    "parlai": (
        {"dialog": [[{"id": "human", "text": "Hi"}, {"id": "model", "text": "Hello", "episode_done": True}]]},
        {"dialog": [{"text": "Hi", "id": "A"}, {"text": "Hello", "id": "B"}]},
    ),
    "chats": (
        {"key": "k", "dialogue": [{"speaker": "Nutzer", "text": "Hi"}, {"speaker": "1", "text": "Hello"}]},
        {"data": {"transcript": "Caller: Hi\nAgent: Hello", "x": 1}, "transcript": "User: Hi\nBot: Hello"},
    ),
    "arena": (
        {
            "model_a": "m",
            "model_b": "n",
            "winner": "model_b",
            "conversation_a": [USER, BOT],
            "conversation_b": [USER, BOT],
        },
        {
            "id": 3,
            "model_a": "m",
            "model_b": "n",
            "prompt": '["Hi"]',
            "response_a": '["Hello"]',
            "response_b": '["Yo"]',
            "winner_model_a": 1,
            "winner_model_b": 0,
            "winner_tie": 0,
        },
    ),
    "mtbench": (
        {
            "question_id": 81,
            "model_a": "m",
            "model_b": "n",
            "winner": "tie",
            "judge": "expert_1",
            "conversation_a": [USER, BOT],
            "conversation_b": [USER, BOT],
            "turn": 1,
        },
        {
            "turn": 2,
            "judge": ["gpt-4", "pair-v2"],
            "g1_winner": "model_1",
            "model_1": "m",
            "model_2": "n",
            "question_id": "82",
            "conversation_a": [USER, BOT],
            "conversation_b": [USER, BOT],
            "score": None,
        },
    ),
    "hh": (
        {"chosen": "\n\nHuman: Hi\n\nAssistant: Hello", "rejected": "\n\nHuman: Hi\n\nAssistant: What"},
        {"prompt": "Hi", "rejected": [USER, BOT], "chosen": [USER, BOT], "score_chosen": 8, "prompt_id": "p"},
    ),
    "labelstudio": (
        {
            "id": 7,
            "data": {"dialogue": [{"author": "User", "text": "Hi"}, {"author": "Bot", "text": "Hello"}]},
            "annotations": [
                {"completed_by": 1, "result": [{"from_name": "q", "type": "rating", "value": {"rating": 4}}]},
                {"completed_by": 2, "was_cancelled": True, "result": []},
            ],
        },
        {
            "predictions": [],
            "data": {"text": "User: Hi\nBot: Hello", "model": "m"},
            "annotations": [
                {
                    "completed_by": {"id": 5, "email": "a@b.c"},
                    "result": [{"from_name": "q", "type": "choices", "value": {"choices": ["4 good"]}}],
                }
            ],
        },
    ),
    "labelstudio_min": (
        {"id": 1, "annotation_id": 2, "annotator": 3, "dialogue": [USER, BOT], "q": [{"rating": 4}]},
        {"annotator": "x", "annotation_id": 2, "prompt": "Hi", "response": "Hello", "q": 4, "lead_time": 3.5},
    ),
    "argilla": (
        {
            "id": "a",
            "status": "completed",
            "fields": {"chat": [USER, BOT]},
            "responses": {"q": [{"value": 4, "user_id": "u", "status": "submitted"}, {"value": 1, "status": "draft"}]},
        },
        {
            "fields": {"prompt": "Hi", "response": "Hello"},
            "responses": [{"user_id": None, "values": {"q": {"value": 4}}, "status": "submitted"}],
            "metadata": {"model": "m"},
            "external_id": "e",
        },
    ),
    "argilla_rows": (
        {"chat": [USER, BOT], "q.responses": [4], "q.responses.users": ["u"], "q.responses.status": ["submitted"]},
        {"prompt": "Hi", "response": "Hello", "q": [{"user_id": "u", "value": 4, "status": "submitted"}]},
    ),
    "potato": (
        {
            "user_id": "u",
            "instance_id": "i1",
            "displayed_text": "User: Hi<br>Bot: Hello",
            "label_annotations": {"q": {"scale_4": "4"}},
        },
        {"id": "i1", "user": "v", "text": ["User: Hi", "Bot: Hello"], "label_annotations": {"q": {"2": "true"}}},
    ),
    "wildchat": (
        {"conversation_hash": "h", "model": "m", "conversation": [USER, BOT], "toxic": False, "hashed_ip": "ab"},
        {"toxic": True, "conversation": [{**USER, "country": "Peru"}, BOT], "model": "m", "conversation_hash": "g"},
    ),
    "lmsys": (
        {"conversation_id": "c", "model": "m", "conversation": [USER, BOT], "turn": 1, "redacted": False},
        {"turn": 2, "openai_moderation": [], "conversation": [USER, BOT], "conversation_id": "d", "model": "m"},
    ),
    "oasst_thread": (
        {"thread": [{"text": "Hi", "role": "prompter"}, {"text": "Hello", "role": "assistant"}], "source": "x"},
        {"meta": {}, "thread": [{"role": "prompter", "text": "Hi", "meta": {}}]},
    ),
    "oasst_tree": (
        {
            "message_tree_id": "t",
            "prompt": {
                "role": "prompter",
                "text": "Hi",
                "replies": [{"role": "assistant", "text": "Hello", "replies": []}, {"role": "assistant", "text": "Yo"}],
            },
        },
        {"prompt": {"text": "Hi", "role": "prompter", "replies": []}, "tree_state": "ready"},
    ),
    "oasst_messages": (
        {"message_id": "1", "parent_id": None, "text": "Hi", "role": "prompter", "message_tree_id": "1"},
        {"message_tree_id": "1", "parent_id": "1", "text": "Hello", "role": "assistant", "message_id": "2", "x": 1},
    ),
    "fed": (
        {
            "context": "User: Hi\nSystem: Hey",
            "system": "m",
            "response": "System: Hello",
            "annotations": {"Overall": [4]},
        },
        {"system": "m", "annotations": {"Overall": [4, 3], "Depth": [1]}, "context": "User: Hi\nSystem: Hello"},
    ),
    "usr": (
        {"context": "Hi\n", "fact": "f", "responses": [{"response": "Hello", "model": "m", "Natural": [3, 2]}]},
        {"responses": [{"model": "m", "response": "Hello", "Natural": [3]}], "context": ["Hey", "Hi"]},
    ),
    "dstc_replies": (
        {"dialogue_id": "d", "context": "Hi", "response": "Hello", "model": "m", "annotations": {"quality": [4, 3]}},
        {"context": ["Hi"], "response": "Hello", "system": "m.txt", "gold_score": 4.5, "id": 3},
    ),
    "dstc_logs": (
        {
            "session-id": "s",
            "turns": [
                {"output": {"transcript": "Welcome"}, "input": {"live": {"asr-hyps": [{"asr-hyp": "Hi", "score": 0}]}}}
            ],
        },
        {"dialogue_id": "d", "services": [], "turns": [{"speaker": "USER", "utterance": "Hi", "frames": []}]},
    ),
    "convai": (
        {
            "dialog_id": "d",
            "eval_score": 4,
            "dialog": [
                {"sender": "participant1", "text": "Hi", "sender_class": "Human"},
                {"sender": "participant2", "text": "Hello", "sender_class": "Bot", "evaluation_score": 1},
            ],
            "participant1_id": {"class": "User", "user_id": "u"},
            "participant2_id": {"class": "Bot", "user_id": "m"},
        },
        {
            "users": [{"id": "u", "userType": "Human"}, {"id": "m", "userType": "ai.ipavlov.Bot"}],
            "thread": [{"userId": "u", "text": "Hi"}, {"userId": "m", "text": "Hello", "evaluation": 0}],
            "evaluation": [{"userId": "u", "quality": 4}, {"userId": "m", "quality": 1}],
        },
    ),
    "esconv": (
        {
            "emotion_type": "fear",
            "survey_score": {"seeker": {"empathy": "4", "initial_emotion_intensity": "5"}, "supporter": {}},
            "dialog": [{"speaker": "seeker", "content": "Hi"}, {"speaker": "supporter", "content": "Hello"}],
        },
        {"dialog": [{"text": "Hi", "speaker": "usr"}, {"text": "Hello", "speaker": "sys"}], "problem_type": "job"},
    ),
    "topicalchat": (
        {
            "content": [{"agent": "agent_1", "message": "Hi"}, {"agent": "agent_2", "message": "Hello"}],
            "conversation_rating": {"agent_1": "Good", "agent_2": "Not Good"},
        },
        {"config": "A", "content": [{"message": "Hi", "agent": "agent_2"}, {"message": "Hello", "agent": "agent_1"}]},
    ),
    "inspect_sample": (
        {
            "id": 1,
            "epoch": 1,
            "input": "Hi",
            "target": "",
            "messages": [USER, BOT],
            "output": {"model": "m"},
            "scores": {"match": {"value": "C"}},
        },
        {"messages": [USER, BOT], "epoch": 2, "input": [USER], "id": "1", "scores": {"model_graded": {"value": 0.5}}},
    ),
    "inspect": (
        {"version": 2, "eval": {"model": "m"}, "samples": [{"id": 1, "epoch": 1, "messages": [USER, BOT]}]},
        {"samples": [{"messages": [USER, BOT], "id": "x"}], "results": {}, "eval": {"model": "m", "task": "t"}},
    ),
    "langfuse": (
        {
            "id": "t",
            "sessionId": "s",
            "timestamp": "2025-01-01T00:00:00Z",
            "input": {"messages": [USER]},
            "output": BOT,
            "observations": [
                {"type": "SPAN", "name": "lookup", "input": {"q": "x"}, "output": "found"},
                {"type": "GENERATION", "model": "m"},
            ],
            "scores": [{"name": "helpful", "value": 1, "source": "ANNOTATION"}],
        },
        {"output": "Hello", "input": "Hi", "id": "u", "scores": [], "session_id": None},
    ),
    "langfuse_session": (
        {
            "id": "s",
            "traces": [{"id": "t", "input": "Hi", "output": "Hello"}, {"id": "u", "input": "So?", "output": "Ok"}],
        },
        {
            "traces": [{"output": {"answer": "Hello"}, "input": {"question": "Hi"}, "timestamp": "2025"}],
            "id": "r",
            "x": 1,
        },
    ),
}


def test_every_record_format_has_two_files() -> None:
    assert FORMATS.keys() | {"potato_state"} == {entry.name for entry in record_formats}
    assert all(entry.loses for entry in record_formats)


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_is_read_from_files_that_differ_in_detail(name: str, tmp_path: Path) -> None:
    title = record_formats.get(name).title
    first, second = FORMATS[name]
    lines = [json.dumps(first), '{"broken', json.dumps(second)]
    if name == "oasst_messages":
        lines = [lines[0], lines[2], lines[1]]
    path = tmp_path / "data.jsonl"
    path.write_text("\n".join(lines) + "\n")
    study = confab.read(path)
    assert f"Recognised: {title}" in study.notes
    assert [one.line for one in study.skipped] == [lines.index('{"broken') + 1]
    texts = {(turn.speaker, turn.text) for turn in study.dialogues[0].conversation.turns}
    assert texts & {("human", "Hi"), ("bot", "Hello")}
    in_array = tmp_path / "array.json"
    in_array.write_text(json.dumps({"data": [first, second]}, indent=1))
    nested = confab.read(in_array)
    assert [dialogue.conversation.turns for dialogue in nested.dialogues] == [
        dialogue.conversation.turns for dialogue in study.dialogues
    ]


def test_answers_keep_their_raters_and_values(tmp_path: Path) -> None:
    expected = {
        "labelstudio": [("1", {"q": 4}), ("5", {"q": 4})],
        "argilla": [("u", {"q": 4}), ("#1", {"q": 4})],
        "potato": [("u", {"q": 4}), ("", {"q": 2})],
        "convai": [("u", {"quality": 4}), ("u", {"quality": 4})],
        "mtbench": [("expert_1", {"preferred": 0.5})] * 2
        + [("gpt-4/pair-v2", {"preferred_turn_2": 1}), ("gpt-4/pair-v2", {"preferred_turn_2": 0})],
        "esconv": [("", {"empathy": 4, "initial_emotion_intensity": 5})],
        "topicalchat": [("agent_1", {"conversation_rating": 4}), ("agent_2", {"conversation_rating": 2})],
        "inspect_sample": [("match", {"match": 1}), ("model_graded", {"model_graded": 0.5})],
        "langfuse": [("ANNOTATION", {"helpful": 1})],
    }
    for name, ratings in expected.items():
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps(list(FORMATS[name])))
        study = confab.read(path)
        assert [(r.rater, dict(r.answers)) for dialogue in study.dialogues for r in dialogue.ratings] == ratings, name


def test_tool_calls_become_traces(tmp_path: Path) -> None:
    from evaluation.data.formats.base import Record
    from evaluation.data.formats.text_files import format_for

    call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": '{"q": 1}'}}
    messages = [
        USER,
        {"role": "assistant", "content": None, "reasoning_content": "hm", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "found"},
        BOT,
    ]
    path = tmp_path / "x.jsonl"
    path.write_text(json.dumps({"messages": messages}) + "\n")
    [record] = [item for item in format_for(path).read(path) if isinstance(item, Record)]
    assert [turn.text for turn in record.turns] == ["Hi", "Hello"]
    assert [(step["kind"], step["name"], step["text"]) for step in record.traces[1]] == [
        ("reasoning", "", "hm"),
        ("tool", "look", "found"),
    ]


@pytest.mark.parametrize(
    ("names", "roles"),
    [
        (["0", "1"], {"0": "human", "1": "bot"}),
        (["B", "A"], {"B": "human", "A": "bot"}),
        (["Nutzer", "Luna"], {"Nutzer": "human", "Luna": "bot"}),
        (["system", "user", "assistant"], {"system": "", "user": "human", "assistant": "bot"}),
        (["USER", "SYSTEM"], {"USER": "human", "SYSTEM": "bot"}),
        (["Tom", "Ann", "Eve"], {}),
    ],
)
def test_speakers_are_guessed_over_the_file(names: list[str], roles: dict[str, str]) -> None:
    assert guess_speakers(names) == roles


def test_pairs_are_ranked_even_without_texts(tmp_path: Path) -> None:
    path = tmp_path / "battles.csv"
    rows = ["m,n,model_a,u1"] * 6 + ["n,m,model_a,u2"] * 2 + ["m,n,tie (bothbad),u3"]
    path.write_text("model_a,model_b,winner,judge\n" + "\n".join(rows) + "\n")
    ranking = confab.rank(path)
    assert ranking.fit.n == 9
    first, second = FORMATS["arena"]
    both = tmp_path / "battles.json"
    both.write_text(json.dumps([first, second]))
    assert confab.rank(both).fit.n == 2


MISSING = object()
WRONG = (MISSING, None, 7, "x", [], {}, [None], "a\x00b")
PYTHON_WORDS = ("NoneType", "object has no", "not subscriptable", "indices must", "iterable", "unhashable", "attribute")


def places(data: Any, depth: int = 4) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every value, down to a depth."""
    items = data.items() if isinstance(data, dict) else enumerate(data[:2]) if isinstance(data, list) else ()
    for key, value in items:
        yield (key,)
        if depth > 1:
            yield from ((key, *rest) for rest in places(value, depth - 1))


def changed(data: Any, place: tuple[Any, ...], value: Any) -> Any:
    """Return a copy with another value in one place, or without it."""
    data = outer = copy.deepcopy(data)
    for key in place[:-1]:
        outer = outer[key]
    if value is MISSING:
        del outer[place[-1]]
    else:
        outer[place[-1]] = value
    return data


@pytest.mark.parametrize("name", FORMATS)
def test_a_wrong_value_anywhere_skips_at_most_its_record(name: str, tmp_path: Path) -> None:
    for record in FORMATS[name]:
        broken = [changed(record, place, value) for place in places(record) for value in WRONG]
        path = tmp_path / "x.jsonl"
        path.write_text("\n".join(map(json.dumps, [record, *broken, {**record, "id": "last"}])) + "\n")
        study = confab.read(path)
        texts = {turn.text for dialogue in study.dialogues for turn in dialogue.conversation.turns}
        assert texts & {"Hi", "Hello"}
        for skipped in study.skipped:
            assert not any(word in skipped.reason for word in PYTHON_WORDS), skipped
            assert 1 < skipped.line < len(broken) + 2 or name in ("oasst_messages", "langfuse")


def test_field_names_and_values_of_the_real_files(tmp_path: Path) -> None:
    """Details that differ between documentation and files: each was read wrongly before."""
    hub = {
        "id": "0x1",
        "dialog_id": "0x1",
        "dialog": [
            {"id": 0, "sender": "participant2", "text": "Hello"},
            {"id": 1, "sender": "participant1", "text": "Hi"},
        ],
        "bot_profile": [["i am a bot."]],
        "user_profile": [["i like tea."]],
        "eval_score": 4,
        "profile_match": -1,
    }
    log = {"session-id": "s", "turns": [{"turn-index": 0, "transcription": "Hi"}, {"transcription": "south"}]}
    log["task-information"] = {"feedback": {"success": True, "questionnaire": [["It understood me.", "agree"]]}}  # type: ignore[assignment]
    named = {"id": "a", "log": [{"who": "luna", "text": "Hello"}, {"who": "user", "text": "Hi"}]}
    category = {"name": "tone", "value": 0, "stringValue": "warm", "dataType": "CATEGORICAL", "source": "ANNOTATION"}
    trace = {"id": "t", "sessionId": "s", "input": "Hi", "output": "Hello", "scores": [category]}
    cases: list[tuple[Any, list[tuple[str, str]], list[dict[str, float]]]] = [
        (hub, [("bot", "Hello"), ("human", "Hi")], [{"quality": 4}]),
        (log, [("human", "Hi"), ("human", "south")], [{"success": 1}]),
        (named, [("bot", "Hello"), ("human", "Hi")], []),
        (trace, [("human", "Hi"), ("bot", "Hello")], []),
    ]
    for data, turns, answers in cases:
        path = tmp_path / "x.json"
        path.write_text(json.dumps([data]))
        [dialogue] = confab.read(path).dialogues
        assert [(turn.speaker, turn.text) for turn in dialogue.conversation.turns] == turns
        assert [dict(rating.answers) for rating in dialogue.ratings] == answers
