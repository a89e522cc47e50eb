"""Sample conversations and items for a preview of a study that has none of its own yet."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from django.utils.translation import gettext as _

from webapp.bots.models import BotVersion
from webapp.conversations.models import Conversation, Turn
from webapp.studies.drawing import StudyDraw
from webapp.studies.items import item_add
from webapp.studies.models import Study
from webapp.studies.protocols.base import protocols
from webapp.studies.selectors import conversations_given, items_given

_MOST = 40  # of items and conversations: more are not looked at in a preview


def chat_sample() -> list[str]:
    """Return a short chat: messages of the participant and the chatbot in turn."""
    return [
        _("Hello! Any idea what I could cook with leftover rice?"),
        _("Fried rice is quick. Do you have eggs or a few vegetables at home?"),
        _("Two eggs and half a leek."),
        _(
            "That is plenty. Fry the leek first, push it aside, scramble the eggs, then add the rice."
        ),
        _("Does cold rice work?"),
        _("Even better, because its grains do not stick. Break up the lumps with your fingers."),
    ]


def turns_add(conversation: Conversation, *, least: int) -> None:
    """Give the chat the sample's turns, and count so many exchanges that it can be rated.

    Args:
        least: exchanges that are needed for a rating.
    """
    speakers = [Turn.Speaker.HUMAN, Turn.Speaker.BOT]
    Turn.objects.bulk_create(
        Turn(conversation=conversation, index=i, speaker=speakers[i % 2], text=text)
        for i, text in enumerate(chat_sample())
    )
    conversation.n_exchanges = max(least, len(chat_sample()) // 2)
    conversation.save(update_fields=["n_exchanges"])


def bot_sample() -> BotVersion:
    """Return a bot to chat with, which no page names; the study's own need not be loaded or even be here."""
    name = uuid.uuid4().hex
    return BotVersion.objects.create(key=name, bot_id=name, title="", kind="", version="")


def items_ensure(study: Study, n: int) -> None:
    """Make so many items, if the study has none."""
    if items_given(study).exists():
        return
    protocol = protocols.get(study.protocol)
    rubric = protocol.form(study.version)
    talk = chat_sample()
    n_replies = protocol.n_replies or 1
    replies = [{"model": str(i), "text": talk[3 + 2 * (i % 2)]} for i in range(n_replies)]
    for number in range(min(n, _MOST)):
        item_add(
            study=study,
            key=f"{uuid.uuid4().hex}-{number}",
            context=talk[:3],
            responses=replies,
            reference=talk[5],
            reference_score=rubric.high - 1,
        )


def conversations_ensure(study: Study, n: int) -> None:
    """Make so many completed conversations, if the study has none."""
    if study.conversations.filter(state=Conversation.State.COMPLETED).exists():
        return
    _conversations_add(study, n)


def _conversations_add(study: Study, n: int) -> None:
    bot = bot_sample()
    for _number in range(min(n, _MOST)):
        chat = Conversation.objects.create(
            source=Conversation.Source.CHAT,
            state=Conversation.State.COMPLETED,
            study=study,
            bot=bot,
        )
        turns_add(chat, least=0)


@dataclass(frozen=True, slots=True)
class PreviewDraw(StudyDraw):
    """Draws without counting: any bot, the first items and conversations, and samples where there are none."""

    def bots(self, n: int = 1) -> list[str]:
        return [f"preview-{number}" for number in range(n)]

    def pairs(self, n: int = 1) -> list[tuple[str, str]]:
        return [(f"preview-{number}-a", f"preview-{number}-b") for number in range(n)]

    def conversations(self, n: int = 1) -> list[str]:
        conversations_ensure(self.study, n)
        found = self.study.conversations.filter(state=Conversation.State.COMPLETED)
        return [str(pk) for pk in found.order_by("pk").values_list("pk", flat=True)[:n]]

    def dialogues(self, n: int = 1) -> list[tuple[str, str]]:
        given = conversations_given(self.study).order_by("pk")
        first = given.first()
        other = first and given.exclude(bot__bot_id=first.bot.bot_id).first()
        if first and other:
            return [(str(first.pk), str(other.pk))]
        _conversations_add(self.study, 2)
        a, b = self.study.conversations.order_by("-created_at").values_list("pk", flat=True)[:2]
        return [(str(a), str(b))]

    def items(self, n: int = 1, *, least: int | None = None) -> list[str]:
        items_ensure(self.study, n)
        found = items_given(self.study).order_by("pk")
        return [str(pk) for pk in found.values_list("pk", flat=True)[: min(n, _MOST)]]

    def sides(self, items: Sequence[str]) -> dict[str, bool]:
        return dict.fromkeys(items, False)
