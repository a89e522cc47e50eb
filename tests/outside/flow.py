"""A study of each protocol and a participant's browser, all in this process and in one transaction.

Pages come through the WSGI application and chats through their socket, as from a server. The bot of a chat is scripted:
its reply is stored, or fails, by the services that a bot host calls.
"""

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx
from asgiref.sync import async_to_sync
from channels.testing import WebsocketCommunicator
from django.core.handlers.wsgi import WSGIHandler

from chatbots.trace import TraceStep
from tests.builders import BY_PROLIFIC, QUIZ, TRAINING_PAIR
from tests.outside.browser import Answers, Browser, Form, Frame, Page
from webapp.asgi import application
from webapp.conversations import services
from webapp.conversations.models import Conversation, Turn
from webapp.conversations.reply_pipeline import reply_begin
from webapp.core.database import in_database
from webapp.ratings.models import Rating, RatingRevision
from webapp.studies.lifecycle import study_import
from webapp.studies.models import Outcome, Participant, QuestionAnswers, Study, Task
from webapp.studies.models.participants import QuizAttempt, TrainingAnswer
from webapp.studies.protocols.base import get_protocol, protocols
from webapp.studies.settings import SECTIONS
from webapp.studies.study_file import study_example
from webapp.studies.versions import study_edit
from webapp.transfer.import_file import conversations_sample
from webapp.transfer.services import records_store

PAGES = WSGIHandler()
PATIENCE_S = 30.0
QUESTIONS = [
    {"key": "age", "title": "How old are you?", "kind": "choice", "options": ["Young", "Old"]},
    {"key": "uses", "title": "What do you use?", "kind": "choices", "options": ["Phone", "Computer"]},
]
AFTER = [
    {"key": "colour", "title": "Choose blue.", "kind": "choice", "options": ["Red", "Blue"], "expected": ["Blue"]},
    {"key": "why", "title": "Why?", "kind": "text"},
]
IN_CHAT = {"after": 1, "question": "Please write the word yes.", "expected": ["yes"]}
SHORT: dict[str, Any] = {
    "n_items": 2,
    "n_comparisons": 2,
    "n_dialogues": 2,
    "n_conversations": 1,
    "n_replies_marked": 2,
    "n_own_marked": 2,
    "training_pairs": [TRAINING_PAIR],
    "min_exchanges": 1,
    "max_exchanges": 3,
    "typing_chars_per_s": 0,
}
"""Settings of a short task, of the sections that a protocol reads."""
RIGHT = {
    **{f"quiz_{number}": one["right"] for number, one in enumerate(QUIZ, start=1)},
    **{key: {"first": "a", "same": "same", "second": "b"}[side] for key, side in TRAINING_PAIR["answers"].items()},
    "colour": "Blue",
    "answer": "yes",
}
"""Right answers by the field of the page that asks for them."""
THOUGHT = TraceStep(kind="reasoning", text="They want to go on.")
"""Trace of every reply of the scripted bot."""
LINKS: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "prolific": (BY_PROLIFIC, {"PROLIFIC_PID": "p1", "STUDY_ID": "st1", "SESSION_ID": "se1"}),
    "mturk": (
        {"platform": "mturk"},
        {"workerId": "w1", "hitId": "h1", "assignmentId": "a1", "turkSubmitTo": "https://www.mturk.com"},
    ),
    "panel": (
        {
            "platform": "panel",
            "id_parameter": "pid",
            "session_parameter": "sid",
            "code_bot_failed": "FAILED",
            **{f"link_{outcome}": "https://panel.example/back?id={id}&code={code}" for outcome in Outcome},
        },
        {"pid": "p1", "sid": "s1"},
    ),
}
"""Recruitment settings of a study, and the parameters of one visit's link, by the platform."""
VISIT_PARAMETERS = ("SESSION_ID", "assignmentId", "sid")


def study_open(protocol: str, platform: str, settings: Mapping[str, Any]) -> Study:
    """Open the protocol's example, with short tasks and every step before and beside them."""
    result = protocols.get(protocol)
    study = study_import(file=study_example(protocol), opens=False).study
    if get_protocol(study).judges_conversations:
        records_store(study=study, records=conversations_sample())
    # Nothing but the labels is asked in a chat that is marked while it goes on.
    after = [] if settings.get("marked_when") == "during" else AFTER[result.has_one_item :]
    short: dict[str, Any] = {"questions": QUESTIONS, "quiz_questions": QUIZ, "after": [*study.values.after, *after]}
    if result.gives == "bots":
        short |= {"chat_checks": [IN_CHAT], "bots": ["eliza", "parrot", "generic", "retrieval"]}
    short |= {
        name: SHORT[name] for section in result.settings for name in SECTIONS[section].model_fields if name in SHORT
    }
    return study_edit(study=study, state=Study.State.COLLECTING, **{**short, **LINKS[platform][0], **settings})


def stored(study: Study) -> dict[str, list[Any]]:
    """Return all rows that a participant's acts make, without times and drafts."""
    theirs = {"participant__study": study}
    chats = Conversation.objects.filter(study=study, source=Conversation.Source.CHAT)
    return {
        "participants": list(
            Participant.objects.filter(study=study, platform__in=LINKS).values_list(
                "pk", "consented_at", "withdrawn_at"
            )
        ),
        "tasks": list(
            Task.objects.filter(**theirs)
            .order_by("pk")
            .values_list("pk", "state", "outcome", "completion_code", "told", "ended_at")
        ),
        "chats": list(
            chats.order_by("created_at").values_list("pk", "state", "ended_at", "slot", "n_exchanges", "due_turn")
        ),
        "turns": list(
            Turn.objects.filter(conversation__in=chats)
            .order_by("pk")
            .values_list("conversation", "index", "vote", "goes_on")
        ),
        "ratings": list(
            Rating.objects.filter(participant__platform__in=LINKS, participant__study=study)
            .order_by("pk")
            .values_list("pk", "at_turn", "answers", "other_answers", "comment")
        ),
        "revisions": list(RatingRevision.objects.order_by("pk").values_list("pk")),
        "quiz": list(QuizAttempt.objects.filter(**theirs).values_list("attempt", "is_right")),
        "practice": list(TrainingAnswer.objects.filter(**theirs).values_list("attempt", "is_right")),
        "questions": list(QuestionAnswers.objects.filter(**theirs).values_list("answers")),
    }


@dataclass(frozen=True)
class Heard:
    """Frames that a chat's page heard since it connected."""

    frames: list[Frame]

    def last(self, *types: str) -> Frame | None:
        """Return the last frame of one of these types; None if none was heard."""
        return next((frame for frame in reversed(self.frames) if frame["type"] in types), None)

    @property
    def can_rate(self) -> bool:
        """True if the page lets its participant go on to the rating."""
        return bool((self.last("history", "reply") or {}).get("can_rate"))

    @property
    def ways_out(self) -> tuple[str, ...]:
        """Buttons that the page shows after a failed reply; empty if none failed."""
        last = self.last("error", "reply")
        return tuple(last["can"]) if last and last.get("code") == "bot_failed" else ()


class InsideBrowser(Browser):
    """One browser whose requests are answered by this thread; `sent` are its forms, the newest last."""

    def __init__(self) -> None:
        super().__init__("http://testserver", httpx.WSGITransport(app=PAGES))
        self.sent: list[tuple[Form, Answers]] = []
        self.is_newest_sent = False

    def post(self, form: Form, answers: Answers) -> Page:
        """Send a form, and keep it for a second click or the browser's Back."""
        self.sent.append((form, answers))
        self.is_newest_sent = True
        return self.send(form, answers)

    def upload(self, chat: str, image: bytes) -> httpx.Response:
        """Send an image file as the chat's page does."""
        token = next(form.hidden["csrfmiddlewaretoken"] for form in self.page.forms)
        fields = {"client_id": str(uuid.uuid4()), "csrfmiddlewaretoken": token}
        return self.http.post(f"/chat/{chat}/image/", data=fields, files={"image": ("image.png", image)})

    def chat(self, chat: str, *frames: Mapping[str, Any], fails: bool | None = None) -> Heard:
        """Open a chat's socket, send these frames, and hear one frame after each.

        Args:
            fails: let the scripted bot's due reply fail, or arrive, before the page leaves; None: it does nothing.
        """
        cookies = "; ".join(f"{one.name}={one.value}" for one in self.http.cookies.jar)
        return Heard(async_to_sync(_talk)(chat, cookies, frames, fails))


async def _talk(chat: str, cookies: str, sent: tuple[Mapping[str, Any], ...], fails: bool | None) -> list[Frame]:
    await in_database(_reply)(uuid.UUID(chat), False)  # what a partner has written meanwhile
    socket = WebsocketCommunicator(application, f"/ws/chat/{chat}/", headers=[(b"cookie", cookies.encode())])
    assert (await socket.connect(PATIENCE_S))[0]
    heard: list[Frame] = []

    async def hear(*types: str) -> None:
        heard.append(json.loads(await socket.receive_from(timeout=PATIENCE_S)))
        if heard[-1]["type"] not in types if types else heard[-1]["type"] == "waiting":
            await hear(*types)

    await hear("history", "error")
    if heard[-1].get("pending"):
        await hear("error", "waiting")  # replies come at once here: one that is due has failed, or is a partner's
    for frame in sent:
        await socket.send_to(json.dumps(frame))
        await hear()
    if fails is not None and await in_database(_reply)(uuid.UUID(chat), fails):
        await hear("error" if fails else "reply")
    await socket.disconnect()
    return heard


def _reply(chat: uuid.UUID, fails: bool) -> bool:
    """Do with the due reply what a bot host does; False if none is due."""
    lease = uuid.uuid4()
    if (due := reply_begin(chat, lease)) is None:
        return False
    if fails:
        return services.reply_fail(conversation_id=chat, lease=lease, error="scripted failure") is not None
    text = "And then?" if due.partner_text is None else due.partner_text
    return services.turn_add_bot(conversation_id=chat, lease=lease, text=text, trace=[THOUGHT]) is not None


def filled(form: Form, pick: int, *, wrong: bool = False) -> Answers:
    """Return an answer to everything that the form asks.

    Args:
        pick: number of the chosen option of each row, around its end.
        wrong: miss everything that has a right answer.
    """
    result: dict[str, str | list[str]] = dict.fromkeys(form.texts, "because it is kind")
    result |= {name: values[pick % len(values)] for name, values in form.radios.items()}
    if "worst" in form.radios:  # not the best one
        result["worst"] = form.radios["worst"][(pick + 1) % 4]
    result |= {name: values[:1] for name, values in form.boxes.items()}
    result |= form.numbers
    if exactly := int(form.hidden.get("_exactly", 0)):
        result |= {name: values[:exactly] for name, values in form.boxes.items()}
    for name, right in RIGHT.items():
        options = form.radios.get(name) or ([right, "no"] if name in form.texts else [])
        if right in options:
            result[name] = next(option for option in options if option != right) if wrong else right
    return result
