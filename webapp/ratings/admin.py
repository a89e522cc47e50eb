"""Records of ratings, to be read."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from webapp.ratings.models import Rating


@admin.register(Rating)
class RatingAdmin(admin.ModelAdmin):
    list_display = ("id", "study", "bot", "answers", "rater", "submitted_at")
    list_filter = ("conversation__study", "conversation__bot__bot_id", "rubric")
    list_select_related = ("conversation__study", "conversation__bot")
    search_fields = ("conversation__id", "rater", "participant__external_id", "comment")
    date_hierarchy = "submitted_at"
    show_full_result_count = False

    @admin.display(description=_("study"))
    def study(self, rating: Rating) -> str:
        """The conversation's study."""
        return str(rating.conversation.study or "–")

    @admin.display(description=_("bot"))
    def bot(self, rating: Rating) -> str:
        """Who was rated."""
        return rating.conversation.bot.bot_id

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False
