"""Temporary participant, conversations and items for a preview of a study.

The caller must be inside a transaction that is rolled back. The rows are as they would be, without the services'
effects for real participants: nothing is frozen, counted or published, and no bot is called.
"""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from django.utils.translation import gettext as _

from webapp.bots.models import BotVersion
from webapp.conversations.models import Conversation, Turn
from webapp.core.clock import database_now
from webapp.participant.steps.base import Standing, standing_of
from webapp.ratings.turn_annotation import marking_begin
from webapp.studies.assignment.cells import DrawnBot
from webapp.studies.assignment.draw import StudyDraw
from webapp.studies.attention_checks import quiz_digest, quiz_rows
from webapp.studies.conditions import Condition, condition_texts
from webapp.studies.items import item_add
from webapp.studies.models import Outcome, Participant, QuestionAnswers, QuizAttempt, Study, Task, TrainingAnswer
from webapp.studies.protocols.base import get_protocol, protocols
from webapp.studies.ready_made import READY_MADE
from webapp.studies.selectors import conversations_given, items_given
from webapp.studies.services import participant_enter, slots_add

_MOST = 40  # number of items and conversations; a preview needs no more


def chat_sample() -> list[str]:
    """Return a short chat of participant and chatbot."""
    return [
        _("Hello! Any idea what I could cook with leftover rice?"),
        _("Fried rice is quick. Do you have eggs or a few vegetables at home?"),
        _("Two eggs and half a leek."),
        _("That is plenty. Fry the leek first, push it aside, scramble the eggs, then add the rice."),
        _("Does cold rice work?"),
        _("Even better, because its grains do not stick. Break up the lumps with your fingers."),
    ]


def turns_add(conversation: Conversation, *, least: int) -> None:
    """Add the opening and the sample's turns to the chat.

    Enough exchanges are counted that it can be rated.

    Args:
        least: number of exchanges that a rating needs.
    """
    speakers = [Turn.Speaker.HUMAN, Turn.Speaker.BOT]
    study = conversation.study
    opening = condition_texts(study.values, conversation.condition).opening if study is not None else ""
    texts = [opening, *chat_sample()] if opening else chat_sample()
    Turn.objects.bulk_create(
        Turn(conversation=conversation, index=i, speaker=speakers[(i + bool(opening)) % 2], text=text)
        for i, text in enumerate(texts)
    )
    conversation.n_exchanges = max(least, len(chat_sample()) // 2)
    conversation.save(update_fields=["n_exchanges"])


def bot_sample() -> BotVersion:
    """Return a bot to chat with.

    No page names it, and the study's own bots may not be loaded or installed.
    """
    name = uuid.uuid4().hex
    return BotVersion.objects.create(key=name, bot_id=name, title="", kind="", version="")


def items_ensure(study: Study, n: int) -> None:
    """Create this many items if the study has none."""
    if items_given(study).exists():
        return
    protocol = protocols.get(study.protocol)
    rubric = protocol.form(study.version)
    talk = chat_sample()
    n_replies = protocol.n_replies or 1
    replies = [{"model": str(i), "text": talk[(3 + 2 * i) % len(talk)]} for i in range(n_replies)]
    for number in range(min(n, _MOST)):
        item_add(
            study=study,
            key=f"{uuid.uuid4().hex}-{number}",
            context=talk[:3],
            responses=replies,
            reference=talk[5],
            reference_score=rubric.high - 1,
            criteria=READY_MADE["talks"][0]["criteria"] if protocol.needs_criteria else (),
        )


def conversations_ensure(study: Study, n: int) -> None:
    """Create this many completed conversations if the study has none."""
    if study.conversations.filter(state=Conversation.State.COMPLETED).exists():
        return
    _conversations_add(study, n)


def _conversations_add(study: Study, n: int) -> None:
    bot = bot_sample()
    for _number in range(min(n, _MOST)):
        chat = Conversation.objects.create(
            source=Conversation.Source.CHAT, state=Conversation.State.COMPLETED, study=study, bot=bot
        )
        turns_add(chat, least=0)


@dataclass(frozen=True, slots=True)
class PreviewDraw(StudyDraw):
    """Draw without counting: any bot, and the first items or samples."""

    def bots(self, n: int = 1) -> list[DrawnBot]:
        return [DrawnBot(f"preview-{number}") for number in range(n)]

    def pairs(self, n: int = 1) -> list[tuple[DrawnBot, DrawnBot]]:
        return [(DrawnBot(f"preview-{number}-a"), DrawnBot(f"preview-{number}-b")) for number in range(n)]

    def conversations(self, n: int = 1) -> list[str]:
        completed = conversations_given(self.study)
        if not completed.exists():
            conversations_ensure(self.study, n)
            completed = self.study.conversations.filter(state=Conversation.State.COMPLETED)
        return [str(pk) for pk in completed.order_by("pk").values_list("pk", flat=True)[:n]]

    def dialogues(self, n: int = 1) -> list[tuple[str, str]]:
        conversations = conversations_given(self.study).order_by("pk")
        first = conversations.first()
        second = first and conversations.exclude(bot__bot_id=first.bot.bot_id).first()
        if first and second:
            return [(str(first.pk), str(second.pk))]
        _conversations_add(self.study, 2)
        a, b = self.study.conversations.order_by("-created_at").values_list("pk", flat=True)[:2]
        return [(str(a), str(b))]

    def items(self, n: int = 1, *, least: int | None = None) -> list[str]:
        items_ensure(self.study, n)
        candidates = items_given(self.study).order_by("pk")
        return [str(pk) for pk in candidates.values_list("pk", flat=True)[: min(n, _MOST)]]

    def sides(self, items: Sequence[str]) -> dict[str, bool]:
        return dict.fromkeys(items, False)

    def shown(self, items: Sequence[str], n: int) -> dict[str, list[int]]:
        return {item: list(range(n)) for item in items}


_TASK_STATES = {
    Outcome.RATED: Task.State.COMPLETED,
    Outcome.BOT_FAILED: Task.State.COMPLETED,
    Outcome.WITHDRAWN: Task.State.WITHDRAWN,
}
_CHAT_STATES = {
    Outcome.RATED: Conversation.State.COMPLETED,
    Outcome.BOT_FAILED: Conversation.State.FAILED,
    Outcome.WITHDRAWN: Conversation.State.WITHDRAWN,
}
# Parameters of a platform's link, with invented ids.
_BROUGHT = {
    "prolific": {"PROLIFIC_PID": "preview", "STUDY_ID": "preview", "SESSION_ID": "preview"},
    "mturk": {
        "workerId": "preview",
        "assignmentId": "preview",
        "hitId": "preview",
        "turkSubmitTo": "https://workersandbox.mturk.com",
    },
}


def condition_shown(study: Study, level: str) -> dict[str, str]:
    """Return the condition whose texts a preview shows.

    Args:
        level: numbers of a factor and of its level, such as "1.2"; other factors have their first level.
    """
    n, _dot, place = level.partition(".")
    return {
        factor.key: next(
            (
                factor_level.key
                for i, factor_level in enumerate(factor.levels, start=1)
                if (n, place) == (str(factor_number), str(i))
            ),
            factor.levels[0].key,
        )
        for factor_number, factor in enumerate(study.values.conditions.factors, start=1)
    }


def standing_staged(
    study: Study, step: str, outcome: Outcome, *, is_missed: bool = False, condition: Condition | None = None
) -> Standing:
    """Return the progress of a new participant who has come to this step.

    The study's newest version is used.

    Args:
        step: a step after consent and instructions.
        outcome: outcome of the task, if the step is `done`.
        is_missed: whether they have missed the first question of the quiz once, if the step is `quiz`.
        condition: condition of their chats.
    """
    platform = study.values.recruitment.platform
    participant = participant_enter(
        study=study, platform=platform if platform in _BROUGHT else "", recruitment=_BROUGHT.get(platform, {})
    )
    participant.consented_at = database_now()
    participant.save(update_fields=["consented_at"])
    task = _task(study, participant)
    if condition:
        task.slots.update(condition=condition)
    for slot in task.slots.exclude(bot_id=""):
        chat = Conversation.objects.create(
            source=Conversation.Source.CHAT,
            bot=bot_sample(),
            study=study,
            participant=participant,
            slot=slot,
            condition=dict(condition or {}),
        )
        turns_add(chat, least=study.values.chat.min_exchanges)
        if get_protocol(study).marks_own_chats and step != "chat":
            Conversation.objects.filter(pk=chat.pk).update(state=Conversation.State.COMPLETED)
            marking_begin(study=study, task=task, conversation=chat)
    if step not in ("quiz", "questions"):
        QuestionAnswers.objects.create(participant=participant, version=task.version, answers={})
    if step not in ("quiz", "questions", "practice"):
        TrainingAnswer.objects.bulk_create(
            TrainingAnswer(participant=participant, pair=pair.digest, attempt=1, answers={}, is_right=True)
            for pair in study.values.training.training_pairs
        )
    _quiz_staged(study, participant, is_before=step == "quiz", is_missed=is_missed)
    if step == "done":
        _end(task, outcome)
    return standing_of(task)


def _quiz_staged(study: Study, participant: Participant, *, is_before: bool, is_missed: bool) -> None:
    """Store an attempt at the quiz.

    It is passed if a later step is shown, and misses the first question otherwise.
    """
    questions = study.values.checking.quiz_questions
    if not questions or (is_before and not is_missed):
        return
    answers = [question.right for question in questions]
    if is_before:
        answers[0] = next(option for option in questions[0].options if option != questions[0].right)
    QuizAttempt.objects.create(
        participant=participant,
        quiz=quiz_digest(questions),
        attempt=1,
        answers=quiz_rows(questions, answers),
        is_right=not is_before,
    )


def _task(study: Study, participant: Participant) -> Task:
    plan = protocols.get(study.protocol).next_task(PreviewDraw(study, participant, study.values, available=()))
    task = Task.objects.create(
        participant=participant,
        version=study.version,
        kind=plan.kind,
        payload=dict(plan.payload),
        submission=participant.submission,
        sitting=next((part.key for part in study.values.sittings.parts), ""),
    )
    slots_add(task=task, plan=plan)
    return task


def _end(task: Task, outcome: Outcome) -> None:
    task.state = _TASK_STATES.get(outcome, Task.State.ENDED)
    task.outcome, task.ended_at = outcome, database_now()
    if outcome != Outcome.WITHDRAWN:
        # Random, like real keys: concurrent previews must not wait for each other.
        task.completion_code = f"AB{secrets.randbelow(10**6):06d}"
    task.save()
    state = _CHAT_STATES.get(outcome, Conversation.State.ENDED)
    Conversation.objects.filter(slot__task=task).update(state=state)
