"""Read-only admin of ratings."""

from __future__ import annotations

from django.contrib import admin
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from webapp.core.rights import ReadOnlyAdminMixin, private_search
from webapp.ratings.models import Rating


@admin.register(Rating)
class RatingAdmin(ReadOnlyAdminMixin, admin.ModelAdmin):
    list_display = ("id", "study", "bot", "answers", "rater", "submitted_at")
    list_filter = ("conversation__study", "conversation__bot__bot_id", "rubric")
    list_select_related = ("conversation__study", "conversation__bot", "participant__study")
    search_fields = ("conversation__id", "rater", "comment")
    date_hierarchy = "submitted_at"
    show_full_result_count = False

    def get_search_fields(self, request: HttpRequest) -> list[str]:
        """Add the platform's participant id for users who may see it."""
        return private_search(request, self.search_fields, "participant__platform_ids__external_id")

    @admin.display(description=_("study"))
    def study(self, rating: Rating) -> str:
        """Return the study of the rating."""
        if rating.participant is not None:
            return str(rating.participant.study)
        return str((rating.conversation and rating.conversation.study) or "–")

    @admin.display(description=_("bot"))
    def bot(self, rating: Rating) -> str:
        """Return the rated bot's id, if a single bot was rated."""
        return rating.conversation.bot.bot_id if rating.conversation else "–"
