"""App configuration: registers bot hosts' health, the cost meter and personal data."""

from __future__ import annotations

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class ConversationsConfig(AppConfig):
    name = "webapp.conversations"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from chatbots.endpoints.metering import meter_set
        from webapp.conversations import erasure
        from webapp.conversations.bot_host import bots_health
        from webapp.conversations.cost_meter import DatabaseMeter
        from webapp.conversations.erasure import images_texts, turns_texts
        from webapp.conversations.models import (
            ChatCheckAnswer,
            ChatImage,
            Conversation,
            DistressMark,
            PartnerSeat,
            ReplyMark,
            ReplyReport,
            Turn,
            Typing,
        )
        from webapp.core.health import health_check
        from webapp.studies.privacy import erasure_kind, rows_of
        from webapp.studies.privacy.retention import texts_in, texts_kind

        erasure.connect_signals()
        health_check("bots", bots_health)
        meter_set(DatabaseMeter())
        erasure_kind("conversations", _("conversations"), rows_of(Conversation), lock=True)
        erasure_kind("turns", _("messages and replies"), rows_of(Turn, "conversation__participant"))
        erasure_kind("typing", _("how messages were typed"), rows_of(Typing, "turn__conversation__participant"))
        erasure_kind("images", _("images in chats"), rows_of(ChatImage, "conversation__participant"))
        erasure_kind(
            "chat_check_answers",
            _("answers to attention checks in chats"),
            rows_of(ChatCheckAnswer, "conversation__participant"),
        )
        erasure_kind(
            "votes",
            _("votes on replies"),
            lambda people: Turn.objects.filter(conversation__participant__in=people).exclude(vote=0),
        )
        erasure_kind("reports", _("reports of replies"), rows_of(ReplyReport))
        erasure_kind("distress", _("marks of messages"), rows_of(DistressMark, "turn__conversation__participant"))
        erasure_kind("marks", _("marks of filters on replies"), rows_of(ReplyMark, "turn__conversation__participant"))
        texts_kind("turns", turns_texts())
        texts_kind("images", images_texts())
        texts_kind("reports", texts_in(lambda study: ReplyReport.objects.filter(participant__study=study), "words"))
        texts_kind(
            "marks", texts_in(lambda study: ReplyMark.objects.filter(turn__conversation__study=study), "found", [])
        )
        texts_kind("given", texts_in(lambda study: PartnerSeat.objects.filter(conversation__study=study), "given_text"))
        texts_kind(
            "chat_check_answers",
            texts_in(lambda study: ChatCheckAnswer.objects.filter(conversation__study=study), "answer"),
        )
        texts_kind(
            "rating_drafts", texts_in(lambda study: Conversation.objects.filter(study=study), "rating_draft", {})
        )
