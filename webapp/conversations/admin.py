"""Read-only admin of conversations and their turns."""

from __future__ import annotations

from django.contrib import admin
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _

from webapp.conversations.models import BotHostHeartbeat, Conversation, Turn
from webapp.core.rights import ReadOnlyAdminMixin, private_search


class TurnInline(ReadOnlyAdminMixin, admin.TabularInline):
    right_to_delete = None
    model = Turn
    fields = ("index", "speaker", "text", "vote", "latency_ms", "created_at")
    readonly_fields = fields
    ordering = ("index",)
    extra = 0
    show_change_link = False


@admin.register(Conversation)
class ConversationAdmin(ReadOnlyAdminMixin, admin.ModelAdmin):
    list_display = ("id", "study", "bot", "source", "state", "n_exchanges", "is_synthetic", "reader", "created_at")
    list_filter = ("study", "source", "state", "is_synthetic", "bot__bot_id")
    list_select_related = ("study", "bot")
    search_fields = ("id", "external_id")
    date_hierarchy = "created_at"
    inlines = (TurnInline,)
    show_full_result_count = False

    def get_search_fields(self, request: HttpRequest) -> list[str]:
        """Add the platform's participant id for users who may see it."""
        return private_search(request, self.search_fields, "participant__platform_ids__external_id")

    @admin.display(description=_("reader"))
    def reader(self, conversation: Conversation) -> str:
        """Link to the page that shows the conversation with its metrics."""
        return format_html('<a href="{}">{}</a>', reverse("dashboard:conversation", args=[conversation.pk]), _("read"))


@admin.register(BotHostHeartbeat)
class BotHostHeartbeatAdmin(ReadOnlyAdminMixin, admin.ModelAdmin):
    list_display = ("host_id", "pool", "beat_at")
    list_filter = ("pool",)
