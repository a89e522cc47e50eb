"""Chat steps: chat, rating form, arena, and picks at every turn.

Messages arrive at the sockets of `consumers.py`, one per conversation.
"""

from __future__ import annotations

from functools import cached_property

from django.http import HttpResponse
from django.shortcuts import redirect

from chatbots.bots.person import PERSON
from webapp.conversations.attention_checks import chat_check_due
from webapp.conversations.images import takes_images
from webapp.conversations.models import Conversation
from webapp.conversations.selectors import can_rate, chat_turn, early_reason, turns_of
from webapp.core.errors import Refused
from webapp.participant.page_texts import arena_notes, chat_notes, condition_lines, place_held_until
from webapp.participant.question_view import (
    RatingForm,
    get_passing_answers,
    mid_chat_question,
    questions_after_task,
    questions_shown,
)
from webapp.participant.reply_reports import report_address, report_shown, turns_reported
from webapp.participant.script_words import arena_words, chat_words, marked_words, picks_words
from webapp.participant.selectors import chats_by_slot
from webapp.participant.steps.base import ConversationStep, Standing, register_step, steps, steps_of
from webapp.participant.steps.judge import RatingsStep
from webapp.ratings.reply_picks import shown_first
from webapp.ratings.services import (
    COMPARISON_CHOICES,
    WAITS_FOR_REPLY,
    comparison_submit,
    rating_draft_store,
    rating_submit,
)
from webapp.ratings.turn_annotation import annotation_request
from webapp.results.refresh import order_refresh_for_rule
from webapp.studies.models import Participant, Slot
from webapp.studies.protocols.base import get_protocol
from webapp.studies.questions import Question
from webapp.studies.refusals import ANSWERS_MISSING
from webapp.studies.rubrics import questions_not_asked


@register_step
class ChatStep(ConversationStep):
    """Chat with the task's bot, until the rating or an early exit."""

    name = "chat"
    route = ""

    def get(self) -> HttpResponse:
        conversation, visit, version = self.conversation, self.visit, self.standing.version
        marked = get_protocol(self.standing.study).marks_own_chats
        return self.render(
            condition=condition_lines(conversation),
            takes_images=takes_images(conversation),
            marked=marked,
            marks=annotation_request(conversation),
            rate_url=visit.link("end" if marked else "rate", conversation.pk),
            words=marked_words(version) if marked else chat_words(version),
            note=chat_notes(version).get(self.request.GET.get("note", "")),
            held_until=place_held_until(conversation),
            n_segments=range(min(version.values.chat.min_exchanges, 20)),
            turn=chat_turn(conversation),
            has_person=version.values.people.disclosure != "none" and conversation.bot.kind == PERSON,
            **mid_chat_question([conversation], version),
            **report_shown(version, visit.link("chat-report", conversation.pk)),
            reported=turns_reported(conversation),
        )


_CHECK = "check"  # note in an address whose form shows errors


@register_step
class RatingFormStep(ConversationStep):
    """Rating form of the chat.

    Saving the answers closes the chat, so the step applies only to open chats.
    """

    name = "form"
    route = "rate/"

    @property
    def page(self) -> str:
        return "rate"

    def is_open(self, standing: Standing) -> bool:
        has_form = any(step.name == self.name for step in steps_of(standing.study))
        return has_form and steps.get("chat").is_open(standing)

    def get(self) -> HttpResponse:
        is_waiting = not can_rate(self.conversation)
        note = self._early
        if is_waiting and not self.conversation.rating_draft:
            note = note or "waiting_for_reply"
        return self._to_chat(note) if note else self._page(is_waiting)

    def post(self) -> HttpResponse:
        """Store the rating, or redirect to the form with its errors.

        Invalid answers are kept.

        A response to a POST cannot be reloaded or returned to without submitting the form again; the page after a
        redirect can.
        """
        if self._early:
            return self._to_chat(self._early)
        conversation, form = self.conversation, RatingForm(self._questions, self.request.POST)
        try:
            if not form.is_valid():
                raise ANSWERS_MISSING.refused()
            rating_submit(
                conversation=conversation,
                participant=self._participant,
                answers=form.answers,
                comment=form.cleaned_data["comments"],
            )
        except Refused as refused:
            if refused.code in ("bad_answers", "waiting_for_reply"):
                rating_draft_store(conversation=conversation, values=form.typed)
                return self.again(note=_CHECK)
            return self.onward()
        if not conversation.is_synthetic:
            order_refresh_for_rule(self.standing.study)
        return redirect(self.visit.link("done", conversation.pk))

    @property
    def _participant(self) -> Participant:
        participant = self.standing.participant
        assert participant is not None, f"chat {self.conversation.pk} without a participant"
        return participant

    @cached_property
    def _questions(self) -> list[Question]:
        version = self.standing.version
        hidden = questions_not_asked(version, self.conversation.condition)
        return [question for question in questions_after_task(self._participant, version) if question.key not in hidden]

    @cached_property
    def _early(self) -> str:
        """Return the note why the chat cannot be rated yet.

        Empty if it can.
        """
        conversation, version = self.conversation, self.standing.version
        if chat_check_due(conversation, version):
            return "check_due"
        return early_reason(conversation)

    def _to_chat(self, note: str) -> HttpResponse:
        return redirect(self.visit.link("chat", self.conversation.pk, note=note))

    def _page(self, is_waiting: bool) -> HttpResponse:
        conversation, visit = self.conversation, self.visit
        # Invalid answers from earlier are kept, however the participant returns to this page.
        is_checked = self.request.GET.get("note") == _CHECK
        sent = conversation.rating_draft if conversation.rating_draft or is_checked else None
        form = RatingForm(self._questions, sent, show_errors=is_checked)
        if is_checked and form.is_valid() and is_waiting:
            form.refuse({"": str(WAITS_FOR_REPLY)})
        reports = visit.link("chat-report", conversation.pk)
        reported = turns_reported(conversation)
        turns = [
            {**turn, "report_url": report_address(reports, turn=turn["turn"]), "is_reported": turn["turn"] in reported}
            for turn in turns_of(conversation)
        ]
        return self.render(
            condition=condition_lines(conversation),
            turns=turns,
            **report_shown(self.standing.version, reports),
            chat_url=visit.link("chat", conversation.pk),
            form=form,
            n_questions=len(self._questions),
            **questions_shown(form.questions()),
            passing=get_passing_answers(self._participant, form.questions()),
            turn=chat_turn(conversation),
        )


@register_step
class ArenaStep(RatingsStep):
    """Chat with the two chatbots of each pair, and the choice.

    Every choice is stored immediately.
    """

    name = "arena"
    are_picked = False
    """True if replies are picked one by one, so there is no final choice."""

    def get(self) -> HttpResponse:
        return self._page(self.n_current, self._form(self.n_current))

    def post(self) -> HttpResponse:
        n = self.n_current
        if self.request.POST.get("_n") != str(n):  # submitted twice or from an older page
            return self.again()
        choice, form = self.request.POST.get("choice", ""), self._form(n)
        if (choice in COMPARISON_CHOICES or self.are_picked) and not form.is_valid():
            return self._page(n, form)
        try:
            comparison_submit(task=self.task, slots=self._slots(n), choice=choice, besides=form.answers)
        except Refused as refused:
            self.task.refresh_from_db()
            if refused.code == "closed" or not self.standing.is_open:
                return self.onward()
            return self.again(note=refused.code)
        order_refresh_for_rule(self.standing.study)
        return self.onward()

    def _form(self, n: int) -> RatingForm:
        """Return the form with the additional questions."""
        questions = [question for question in self.questions_at(n) if not question.is_rated]
        return RatingForm(questions, self.sent)

    def _slots(self, n: int) -> tuple[Slot, Slot]:
        first, second = self.judgements[n - 1].slots
        return first, second

    def _firsts(self, slots: tuple[Slot, Slot]) -> str:
        """Return for each exchange the side of the first reply, 0 or 1."""
        exchanges = range(self.standing.version.values.chat.max_exchanges)
        return " ".join(str(shown_first(slots, 2 * exchange + 1)) for exchange in exchanges)

    def _page(self, n: int, form: RatingForm) -> HttpResponse:
        version, other_questions, slots = self.standing.version, form.questions(), self._slots(n)
        wrong = [question for question in other_questions if question.errors]
        by_slot = chats_by_slot(slots)
        sides = [(slot.side, by_slot[slot.pk]) for slot in slots]
        chats: list[Conversation] = [chat for _side, chat in sides]
        reports = [self.visit.link("chat-report", chat.pk) for chat in chats]
        return self.render(
            sides=sides,
            conversation=chats[0],
            condition=condition_lines(chats[0]),  # both sides have the same condition
            n=n,
            of=len(self.judgements),
            segments=self.segments(number < n for number in range(1, len(self.judgements) + 1)),
            note=arena_notes().get(self.request.GET.get("note", "")),
            held_until=place_held_until(chats[0]),
            firsts=self._firsts(slots) if self.are_picked else "",
            words=picks_words(version) if self.are_picked else arena_words(version),
            **mid_chat_question(chats, version),
            choice=self.request.POST.get("choice", ""),
            others=other_questions,
            passing=get_passing_answers(self.task.participant, other_questions),
            wrong=wrong,
            some_refused=any(question.answer for question in wrong),
            **report_shown(version, reports[0]),
            reports=[
                (side, chat, address, turns_reported(chat))
                for (side, chat), address in zip(sides, reports, strict=True)
            ],
        )


@register_step
class PicksStep(ArenaStep):
    """Pick of one of two replies to each message.

    The socket stores the picks, and the form ends the chat.
    """

    name = "picks"
    are_picked = True
