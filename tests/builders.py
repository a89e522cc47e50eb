"""The one way to make data in tests: through services, but for the exchanges that a chat begins with."""

import uuid
from collections.abc import Mapping
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import AbstractBaseUser, Permission
from django.core.cache import caches
from django.core.cache.backends.locmem import LocMemCache
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from evaluation.data.ratings import RatingDimension
from webapp.bots.services import bot_answered
from webapp.conversations import services as conversation_services
from webapp.conversations.models import Conversation, Turn
from webapp.conversations.pacing import ReplyTimes
from webapp.conversations.task_start import conversation_start
from webapp.core.rights import Right
from webapp.ratings.selectors import BotInfo
from webapp.ratings.services import RatingOutcome, rating_submit
from webapp.results.study_data import Facts, StudyFrame
from webapp.studies.items import item_add
from webapp.studies.models import Item, Participant, Study, StudyVersion
from webapp.studies.rubrics import rubric_default
from webapp.studies.services import consent_record, participant_enter, study_create
from webapp.studies.versions import study_edit

BY_PROLIFIC = {
    "platform": "prolific",
    "code_rated": "RATED1",
    "code_bot_failed": "FAILED1",
    "code_screened_out": "SCREEN1",
    "code_failed_check": "CHECK1",
    "code_no_consent": "REFUSED1",
    "code_withdrawn": "GONE1",
}
"""Settings of a study that Prolific's people come to."""


TRAINING_PAIR = {
    "context": ["My dog died last week."],
    "first": "Oh no. How long did you have him?",
    "second": "Dogs are animals.",
    "answers": {"quality": "first", "fluency": "same"},
    "why": "The first asks about the loss; both are good English.",
}

QUIZ = [
    {
        "question": "How many messages do you write at least?",
        "options": ["Two", "Five"],
        "right": "Five",
        "why": "It is five.",
    },
    {
        "question": "Who is answering you?",
        "options": ["A person", "A computer program", "Both"],
        "right": "A computer program",
        "point": 2,
    },
]
"""Questions about the instructions."""


BLUE = {
    "key": "colour",
    "title": "Please choose blue.",
    "kind": "choice",
    "options": ["Red", "Blue"],
    "expected": ["Blue"],
}
"""Attention check among the questions after a task."""


FACTORS = [
    {
        "key": "scenario",
        "varies": "within",
        "levels": [
            {
                "key": "trip",
                "scenario": "You plan a weekend in Rome.",
                "goal": "Find a hotel.",
                "success": "You chose.",
            },
            {"key": "refund", "scenario": "Your parcel is broken.", "persona": "You are in a hurry."},
        ],
    },
    {
        "key": "told",
        "label": "Disclosure",
        "levels": [
            {"key": "program", "disclosure": "You talk with a program.", "bot_prompt": "Say that you are a program."},
            {"key": "nothing", "is_control": True},
        ],
    },
]
"""Factors of a study: a scenario within participants, crossed with a disclosure between them."""


def calls_forget() -> None:
    """Forget how often programs called the API, where this process counts for itself.

    Redis is left alone: to empty it would take the counts, and the queues, of tests that run beside this one. There
    every token has a number of its own, for PostgreSQL never gives one twice.
    """
    shared = caches["shared"]
    if isinstance(shared, LocMemCache):
        shared.clear()


def make_staff(*rights: Right, username: str = "r") -> AbstractBaseUser:
    """Make a member of staff with these rights."""
    user = get_user_model().objects.create_user(username, password="x", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(content_type__app_label="core", codename__in=rights))
    return user


def signed_in(*rights: Right, username: str = "r") -> Client:
    """Return the browser of a new member of staff with these rights."""
    client = Client()
    client.force_login(make_staff(*rights, username=username))
    return client


def make_study(key: str = "s", **fields: Any) -> Study:
    """Make a collecting study with two bots, three exchanges needed, no pacing."""
    defaults: dict[str, Any] = {
        "name": key,
        "bots": ["eliza", "parrot"],
        "state": Study.State.COLLECTING,
        "min_exchanges": 3,
        "max_exchanges": 5,
        "typing_chars_per_s": 0,
    }
    return study_create(key=key, **{**defaults, **fields})


def make_items(study: Study, n: int, **fields: Any) -> list[Item]:
    """Make items `i0`, `i1`, … with a reply each, of the models `a` and `b` in turn."""
    return [
        item_add(
            study=study,
            key=f"i{number}",
            **{
                "context": ["hi", "hello, how are you?"],
                "responses": [{"model": "ab"[number % 2], "text": f"reply {number}"}],
                **fields,
            },
        )
        for number in range(n)
    ]


def make_annotated(key: str = "a", *, n_items: int = 6, **fields: Any) -> Study:
    """Make a collecting study whose people judge three of its items each, on the questions of chats."""
    if "after" not in fields:
        fields.setdefault("rubric", rubric_default())
    study = make_study(key, protocol="annotate", bots=[], state=Study.State.DRAFT, n_items=3, **fields)
    make_items(study, n_items)
    return study_edit(study=study, state=Study.State.COLLECTING)


def make_pairwise(key: str = "p", *, n_items: int = 3, n_in_task: int | None = None, **fields: Any) -> Study:
    """Make a collecting study whose people compare the replies of models `a` and `b`."""
    study = make_study(
        key, protocol="pairwise", bots=[], state=Study.State.DRAFT, n_items=n_in_task or n_items, **fields
    )
    replies = [{"model": model, "text": f"reply of {model}"} for model in "ab"]
    make_items(study, n_items, responses=replies)
    return study_edit(study=study, state=Study.State.COLLECTING)


def force_bots(study: Study, bots: list[str]) -> None:
    """Give a study bots that may not be registered: it may outlive a bot's registration."""
    values = study.values.model_copy(update={"bots": tuple(bots)})
    StudyVersion.objects.filter(pk=study.version_id).update(values=values)
    study.refresh_from_db()


def make_participant(study: Study, **fields: Any) -> Participant:
    """Make a participant who agreed."""
    return consent_record(participant=participant_enter(study=study, **fields))


def make_participants(study: Study, n: int) -> list[Participant]:
    """Make participants who agreed, all but the first in one statement."""
    first = make_participant(study)
    agreed = {name: getattr(first, name) for name in ("consented_at", "consent_version", "consent", "language")}
    return [first, *Participant.objects.bulk_create(Participant(study=study, **agreed) for _ in range(n - 1))]


def make_conversation(study: Study, *, n_exchanges: int = 0, **fields: Any) -> Conversation:
    """Start a chat with this many exchanges."""
    conversation = conversation_start(participant=make_participant(study, **fields))
    first_exchanges(conversation, n_exchanges)
    conversation.refresh_from_db()
    return conversation


def first_exchanges(conversation: Conversation, n: int) -> None:
    """Add the exchanges that a chat begins with, in one statement.

    One by one by the services they were a third of what all tests with a database took. `tests/webapp/test_builders.py`
    holds the rows against theirs.
    """
    assert conversation.n_exchanges == 0
    assert n <= conversation.version.values.chat.max_exchanges  # type: ignore[union-attr]
    in_ms = ReplyTimes(whole_s=0.005).in_ms()
    turns = []
    for number in range(n):
        said = {"text": f"message {number}", "speaker": Turn.Speaker.HUMAN}
        turns.append(Turn(conversation=conversation, index=2 * number, client_id=uuid.uuid4(), **said))
        said = {"text": f"reply {number}", "speaker": Turn.Speaker.BOT}
        turns.append(Turn(conversation=conversation, index=2 * number + 1, **said, **in_ms))
        bot_answered(bot_id=conversation.bot.bot_id)
    if turns:
        Turn.objects.bulk_create(turns)
        conversation.n_exchanges = n
        conversation.save()


def exchange(conversation: Conversation, message: str, reply: str) -> None:
    """Add one message and its reply."""
    conversation_services.turn_add_human(conversation_id=conversation.pk, client_id=uuid.uuid4(), text=message)
    answer(conversation, reply)


def answer(conversation: Conversation, reply: str) -> None:
    """Add the reply to the message that waits."""
    lease = uuid.uuid4()
    assert conversation_services.reply_claim(conversation_id=conversation.pk, lease=lease, lease_s=30)
    assert conversation_services.turn_add_bot(conversation_id=conversation.pk, lease=lease, text=reply)


def fail_reply(conversation: Conversation) -> None:
    """Add one message to which the bot breaks."""
    conversation_services.turn_add_human(conversation_id=conversation.pk, client_id=uuid.uuid4(), text="hello")
    lease = uuid.uuid4()
    conversation_services.reply_claim(conversation_id=conversation.pk, lease=lease, lease_s=30)
    conversation_services.reply_fail(conversation_id=conversation.pk, lease=lease, error="broken")


def make_rating(conversation: Conversation, **answers: float) -> RatingOutcome:
    """Submit a rating of all five dimensions, 4 where nothing else is said."""
    assert conversation.participant is not None
    keys = ["quality", "fluency", "diversity", "contingency", "empathy"]
    return rating_submit(
        conversation=conversation,
        participant=conversation.participant,
        answers={key: answers.get(key, 4) for key in keys},
    )


def make_arena(key: str = "a", **fields: Any) -> Study:
    """Make a collecting study whose people compare two pairs of its three bots, one exchange each."""
    defaults: dict[str, Any] = {
        "protocol": "arena",
        "bots": ["eliza", "parrot", "generic"],
        "n_comparisons": 2,
        "min_exchanges": 1,
    }
    return make_study(key, **{**defaults, **fields})


def frame_of(bots: Mapping[str, BotInfo], *dimensions: RatingDimension) -> StudyFrame:
    """Return the context of results on these bots, of a study that is not stored."""
    return StudyFrame(Study(key="k"), False, bots, Facts(0, 0, 0, tuple(bots), dimensions, dimensions))


def import_upload(client: Client, file: SimpleUploadedFile, **fields: Any) -> Any:
    """Send a file, and import it as its preview proposes but for these fields; return the last response."""
    sent = client.post("/dashboard/imports/", {"file": file})
    if sent.status_code != 302:
        return sent
    form = client.get(sent["Location"]).context["form"]
    given = {} if form is None else {"study": form["study"].value(), "controls": form.initial["controls"]}
    return client.post(sent["Location"], {**given, "_import": "1", **fields}, follow=True)
