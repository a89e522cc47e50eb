"""Content of a page of the step `judge`.

It contains no name of a bot, model or item.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.utils.translation import gettext as _

from webapp.conversations.images import images_of, with_image
from webapp.conversations.models import Conversation, Turn
from webapp.conversations.selectors import reply_html, shown_trace
from webapp.participant.page_texts import ConditionLine, condition_lines
from webapp.ratings.rating_tasks import RequestedRating
from webapp.studies.models import Item, Slot, Task
from webapp.studies.protocol_settings import TrainingPair
from webapp.studies.rubrics import post_task_questions
from webapp.studies.settings import StudyValues


@dataclass(frozen=True, slots=True)
class DialogueLine:
    """One utterance and its speaker.

    `html` and `trace` belong to a bot's reply in a study that shows them.
    """

    speaker: str
    text: str
    is_bot: bool = False
    html: str = ""
    trace: Sequence[dict[str, Any]] = ()
    has_image: bool = False


@dataclass(frozen=True, slots=True)
class ShownPlace:
    """Place on a page: a reply of an item, or the slot's conversation."""

    slot: Slot
    item: Item | None = None
    response: int | None = None


@dataclass(frozen=True, slots=True)
class ShownText:
    """Text to rate: a reply, or a whole conversation.

    Attributes:
        side: its letter if several are side by side; empty for a single one.
        before: earlier utterances, if they differ between the texts.
        lines: lines of a conversation; text: text of a reply, with its html in a study that shows Markdown.
        place: its number on the page, from 0.
        condition: texts of the conversation's condition.
    """

    side: str
    title: str
    before: tuple[DialogueLine, ...] = ()
    lines: tuple[DialogueLine, ...] = ()
    text: str = ""
    html: str = ""
    place: int = 0
    condition: Sequence[ConditionLine] = ()


@dataclass(frozen=True, slots=True)
class ContextPanel:
    """Context next to a conversation: a speaker's facts, a feeling, a topic."""

    persona: tuple[str, ...] = ()
    emotion: str = ""
    topic: str = ""


@dataclass(frozen=True, slots=True)
class MarkedTurn:
    """One turn of a conversation whose replies are labelled.

    Attributes:
        kind: the speaker, "person" or "bot"; speaker: its label on the page.
        reply: its number among the labelled replies, from 1; 0 for a turn that is not labelled.
        is_current: True if this page labels it.
        is_done: True if it is already labelled; marks: the ticked labels.
    """

    kind: str
    speaker: str
    text: str
    reply: int = 0
    is_current: bool = False
    is_done: bool = False
    marks: tuple[str, ...] = ()
    html: str = ""
    trace: Sequence[dict[str, Any]] = ()


@dataclass(frozen=True, slots=True)
class RatingPage:
    """Content of one page.

    Attributes:
        before: earlier utterances shared by all texts.
        panel: panel above them; None if there is none.
        condition: condition texts of the conversation whose turns are labelled.
        reference: reply written by a person; empty if none is shown.
    """

    texts: list[ShownText]
    before: tuple[DialogueLine, ...] = ()
    reference: str = ""
    panel: ContextPanel | None = None
    turns: tuple[MarkedTurn, ...] = ()
    condition: Sequence[ConditionLine] = ()

    @property
    def is_markdown(self) -> bool:
        """True if a reply is shown as Markdown."""
        lines = (*self.before, *(line for text in self.texts for line in (*text.before, *text.lines)))
        html_parts = (
            *(text.html for text in self.texts),
            *(line.html for line in lines),
            *(turn.html for turn in self.turns),
        )
        return any(html_parts)


def judged_shown(task: Task, judgement: RequestedRating, judgements: Sequence[RequestedRating] = ()) -> RatingPage:
    """Return the content of one judgement's page.

    Texts are in their stored order. Each conversation takes one query.

    Args:
        judgements: all judgements of the task, if single turns are rated.
    """
    if judgement.turn is not None:
        [slot] = judgement.slots
        condition = condition_lines(slot.conversation or slot.chat, is_own=bool(slot.bot_id))
        return RatingPage([], turns=_marked(task, judgement, judgements), condition=condition)
    texts: list[ShownText] = []
    references: list[str] = []
    for slot in judgement.slots:
        if slot.item is None:
            texts.append(_conversation(slot.conversation or slot.chat, slot.side))
        else:
            texts += _replies(slot, slot.item, task.version.values) if _has_text(slot.item) else []
            references.append(slot.item.reference or "")
    texts = [replace(text, place=number) for number, text in enumerate(texts)]
    if not texts:  # the question needs no text
        return RatingPage([])
    before = texts[0].before
    if any(text.before != before for text in texts):
        return RatingPage(texts)
    is_one = len(set(references)) == 1 and task.version.values.judging.show_reference
    shared = [replace(text, before=()) for text in texts]
    item = judgement.slots[0].item
    panel = _panel(item) if item is not None and item.panel else None
    return RatingPage(shared, before, references[0] if is_one else "", panel)


def places_shown(judgement: RequestedRating) -> list[ShownPlace]:
    """Return the places on a judgement's page, in display order."""
    places: list[ShownPlace] = []
    for slot in judgement.slots:
        if slot.item is None:
            places.append(ShownPlace(slot))
        elif _has_text(slot.item):
            places += [ShownPlace(slot, slot.item, number) for number in replies_shown(slot, slot.item)]
    return places


def replies_shown(slot: Slot, item: Item) -> list[int]:
    """Return the item's displayed replies by number, in display order."""
    drawn_numbers = slot.task.payload.get("shown", {}).get(str(item.pk))
    if drawn_numbers is not None:
        return [number for number in drawn_numbers if number < len(item.responses)]
    numbers = list(range(len(item.responses)))
    return numbers[::-1] if slot.is_flipped else numbers


def _has_text(item: Item) -> bool:
    """Return True if the item shows any text.

    A question without context shows none.
    """
    return bool(item.context or item.responses[0]["text"])


def _marked(task: Task, judgement: RequestedRating, judgements: Sequence[RequestedRating]) -> tuple[MarkedTurn, ...]:
    """Return the turns of the judged turn's conversation, in two queries."""
    assert judgement.turn is not None
    words = {label.key: label.title for label in post_task_questions(task.version) if label.is_rated}
    numbered = {
        requested.turn.pk: (number, requested)
        for number, requested in enumerate(judgements, start=1)
        if requested.turn is not None
    }
    marked_turns = []
    [slot] = judgement.slots
    person_name = _("You") if slot.bot_id else _other_speaker(slot.conversation)
    chat = slot.conversation or slot.chat
    turns = Turn.objects.filter(conversation=judgement.turn.conversation_id, is_refused=False).order_by("index")
    images = images_of(chat)
    for turn in turns:
        is_bot = turn.speaker == Turn.Speaker.BOT
        kind, speaker = ("bot", _("Chatbot")) if is_bot else ("person", person_name)
        number, rated = numbered.get(turn.pk, (0, None))
        answers = rated.rating.answers if rated is not None and rated.rating is not None else {}
        # Keep the order of the labels; the database does not.
        marks = tuple(text for key, text in words.items() if answers.get(key))
        is_current = turn.pk == judgement.turn.pk
        html = with_image(reply_html(chat, turn.text) if is_bot else "", turn.text, images.get(turn.index))
        trace = shown_trace(chat, turn) if is_bot else ()
        marked_turns.append(MarkedTurn(kind, speaker, turn.text, number, is_current, bool(answers), marks, html, trace))
    return tuple(marked_turns)


def _panel(item: Item) -> ContextPanel:
    known = item.panel
    persona = tuple(known.get("persona", ()))
    return ContextPanel(persona, known.get("emotion", ""), known.get("topic", ""))


def practice_shown(pair: TrainingPair, values: StudyValues) -> RatingPage:
    """Return the content of a practice pair's page.

    It is laid out like a real pair.
    """
    texts = [
        ShownText(side=side, title=_("Reply %(side)s") % {"side": side}, text=text, html=values.reply_html(text))
        for side, text in (("A", pair.first), ("B", pair.second))
    ]
    return RatingPage(texts, _context_lines(pair.context, values))


def _context_lines(context: Sequence[str], values: StudyValues) -> tuple[DialogueLine, ...]:
    """Return the lines before a reply.

    Counted from the reply, every second one belongs to the speaker who replies.
    """
    speakers = (_("First person"), _("Second person"))
    return tuple(
        DialogueLine(
            speakers[number % 2], text, html=values.reply_html(text) if (len(context) - number) % 2 == 0 else ""
        )
        for number, text in enumerate(context)
    )


def _replies(slot: Slot, item: Item, values: StudyValues) -> list[ShownText]:
    before = _context_lines(item.context, values)
    numbers = replies_shown(slot, item)
    n = len(numbers)
    sides = [slot.side] if n == 1 else [chr(ord("A") + number) for number in range(n)]
    if chats := item.chats:
        return [_conversation(chats[number], side) for side, number in zip(sides, numbers, strict=True)]
    responses = [item.responses[number] for number in numbers]
    return [
        ShownText(
            side=side,
            title=_("Reply %(side)s") % {"side": side} if side else _("The reply"),
            before=before,
            text=response["text"],
            html=values.reply_html(response["text"]),
        )
        for side, response in zip(sides, responses, strict=True)
    ]


def _conversation(chat: Conversation, side: str) -> ShownText:
    bot = _("Chatbot %(side)s") % {"side": side} if side else _("Chatbot")
    speakers = {Turn.Speaker.HUMAN: _other_speaker(chat), Turn.Speaker.BOT: bot}
    title = _("Conversation %(side)s") % {"side": side}
    images = images_of(chat)
    return ShownText(
        side=side,
        title=title if side else _("The conversation"),
        condition=condition_lines(chat, is_own=False),
        lines=tuple(
            DialogueLine(
                speakers[Turn.Speaker(t.speaker)],
                t.text,
                is_bot,
                with_image(html, t.text, images.get(t.index)),
                shown_trace(chat, t) if is_bot else (),
                t.index in images,
            )
            for t in chat.turns.all()
            if not t.is_refused
            for is_bot in [t.speaker == Turn.Speaker.BOT]
            for html in [reply_html(chat, t.text) if is_bot else ""]
        ),
    )


def _other_speaker(chat: Conversation | None) -> str:
    """Return the label of the speaker who is not the chatbot.

    In self-play this is not a person.
    """
    is_played = chat is not None and chat.source in Conversation.WITHOUT_PEOPLE
    return _("Other speaker") if is_played else _("Person")
