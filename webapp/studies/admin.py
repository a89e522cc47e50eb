"""Read-only records of studies, rubrics, participants and tasks."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import Count, QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.text import Truncator
from django.utils.translation import gettext_lazy as _

from webapp.core.audit_trail import PRIVATE_OPEN, record
from webapp.core.rights import ReadOnlyAdminMixin, Right, private_search
from webapp.studies.models import ConsentText, Dimension, Item, Participant, Rubric, Slot, Study, Task
from webapp.studies.recruitment.completion import ending_of, tasks_with_endings
from webapp.studies.study_file import study_file_of, study_file_text, without_codes


@admin.register(Study)
class StudyAdmin(ReadOnlyAdminMixin, admin.ModelAdmin):
    """Studies, read-only: the builder edits and deletes them."""

    right_to_delete = None
    list_display = ("name", "key", "state", "protocol", "rule", "rubric", "pages", "created_at")
    list_filter = ("state", "is_imported", "protocol", "rule")
    search_fields = ("key", "name")
    fields = readonly_fields = ("name", "state", "pages", "is_imported", "created_at", "updated_at", "file")

    @admin.display(description=_("study file"))
    def file(self, study: Study) -> str:
        """Show the study's file without items, codes and links.

        Completion codes are left out, and so are links that may contain them.
        """
        file = without_codes(study_file_of(study), links=True).model_copy(update={"items": ()})
        return format_html("<pre>{}</pre>", study_file_text(file))

    @admin.display(description=_("pages"))
    def pages(self, study: Study) -> str:
        """Link to the study's overview and to its settings."""
        return format_html(
            '<a href="{}">{}</a>, <a href="{}">{}</a>',
            *(reverse("dashboard:study", args=[study.key]), _("overview")),
            *(reverse("dashboard:study_build", args=[study.key]), _("settings")),
        )


class DimensionInline(ReadOnlyAdminMixin, admin.TabularInline):
    model = Dimension
    extra = 0
    fields = ("position", "key", "title", "question", "low_label", "high_label", "required", "reversed")


@admin.register(Rubric)
class RubricAdmin(ReadOnlyAdminMixin, admin.ModelAdmin):
    """Rubrics, read-only: they are created from the questions of studies and imports."""

    right_to_delete = None
    list_display = ("__str__", "low", "high", "questions", "frozen_at")
    search_fields = ("name",)
    list_filter = (("frozen_at", admin.EmptyFieldListFilter), "scale_inferred")
    inlines = (DimensionInline,)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Rubric]:
        return super().get_queryset(request).prefetch_related("dimensions")

    @admin.display(description=_("questions"))
    def questions(self, rubric: Rubric) -> str:
        """List the rubric's dimensions."""
        return ", ".join(dimension.key for dimension in rubric.dimensions.all())


@admin.register(ConsentText)
class ConsentTextAdmin(ReadOnlyAdminMixin, admin.ModelAdmin):
    """Exact texts that participants agreed to."""

    right_to_delete = None
    list_display = ("digest", "title", "n_people", "created_at")
    fields = readonly_fields = ("digest", "created_at", "agreed_to")

    def get_queryset(self, request: HttpRequest) -> QuerySet[ConsentText]:
        return super().get_queryset(request).annotate(n=Count("participants"))

    @admin.display(description=_("title"))
    def title(self, text: ConsentText) -> str:
        """Return the study's title for participants at the time of consent."""
        return text.texts.get("title", "")

    @admin.display(description=_("people"), ordering="n")
    def n_people(self, text: ConsentText) -> int:
        """Return the number of participants who agreed to the text."""
        return text.n  # type: ignore[attr-defined]

    @admin.display(description=_("agreed to"))
    def agreed_to(self, text: ConsentText) -> str:
        """Show the exact text of every field."""
        return format_html_join(
            "",
            "<p><strong>{}</strong></p><pre>{}</pre>",
            ((name.replace("_", " "), value) for name, value in text.texts.items()),
        )


@admin.register(Participant)
class ParticipantAdmin(ReadOnlyAdminMixin, admin.ModelAdmin):
    """Participants, read-only: their page under a study's *People* erases them."""

    right_to_view = Right.PRIVATE
    right_to_delete = None
    list_display = ("id", "study", "platform", "external_id", "is_synthetic", "consented_at")
    list_filter = ("study", "platform", "is_synthetic")
    list_select_related = ("study", "platform_ids")
    search_fields = ("id", "platform_ids__external_id")
    readonly_fields = (
        "id",
        "study",
        "platform",
        "external_id",
        "recruitment",
        "is_synthetic",
        "consent_version",
        "consent",
        "consented_at",
        "created_at",
    )
    exclude = ("updated_at",)

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Show the list, and record that it was opened."""
        record(PRIVATE_OPEN, page="admin")
        return super().changelist_view(request, extra_context)

    def change_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Show a participant, and record that it was opened."""
        record(PRIVATE_OPEN, page="admin")
        return super().change_view(request, *args, **kwargs)


@admin.register(Item)
class ItemAdmin(ReadOnlyAdminMixin, admin.ModelAdmin):
    """Items to rate, read-only: `import_items` stores them, and rated ones are kept."""

    right_to_delete = None
    list_display = ("key", "study", "models", "begins", "n_given", "created_at")
    list_filter = ("study",)
    list_select_related = ("study",)
    search_fields = ("key",)
    fields = readonly_fields = ("study", "key", "context", "responses", "reference", "created_at")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Item]:
        return super().get_queryset(request).annotate(n=Count("slots"))

    @admin.display(description=_("models"))
    def models(self, item: Item) -> str:
        """Return the names of the models that wrote the replies."""
        return ", ".join(response.get("model") or "–" for response in item.responses)

    @admin.display(description=_("first reply"))
    def begins(self, item: Item) -> str:
        """Return the beginning of the first reply."""
        return Truncator(item.responses[0]["text"]).chars(80)

    @admin.display(description=_("given"), ordering="n")
    def n_given(self, item: Item) -> int:
        """Return the number of tasks with the item."""
        return item.n  # type: ignore[attr-defined]


class SlotInline(ReadOnlyAdminMixin, admin.TabularInline):
    model = Slot
    fields = readonly_fields = ("order", "side", "bot_id", "conversation", "item")
    extra = 0


@admin.register(Task)
class TaskAdmin(ReadOnlyAdminMixin, admin.ModelAdmin):
    right_to_view = Right.PAY
    list_display = ("id", "study", "kind", "bots", "state", "outcome", "code_shown", "ended_at", "created_at")
    list_filter = ("state", "outcome", "participant__study", "kind", "slots__bot_id")
    search_fields = ("completion_code", "participant__id", "slots__bot_id")
    fields = readonly_fields = (
        "participant",
        "kind",
        "payload",
        "drawn_by",
        "state",
        "outcome",
        "code_shown",
        "ended_at",
        "created_at",
    )
    date_hierarchy = "created_at"
    inlines = (SlotInline,)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Task]:
        return tasks_with_endings(super().get_queryset(request)).prefetch_related("slots")

    def get_search_fields(self, request: HttpRequest) -> list[str]:
        """Add the platform id to the search for users who may see it."""
        return private_search(request, self.search_fields, "participant__platform_ids__external_id")

    @admin.display(description=_("code shown"))
    def code_shown(self, task: Task) -> str:
        """Return the completion code that the participant saw.

        It is the platform's own if it has one.
        """
        ending = ending_of(task)
        return ending.code if ending else ""

    @admin.display(description=_("study"), ordering="participant__study")
    def study(self, task: Task) -> Study:
        """Return the participant's study."""
        return task.participant.study

    @admin.display(description=_("bots"))
    def bots(self, task: Task) -> str:
        """Return the bots that the task's conversations use."""
        return ", ".join(task.bot_ids)
