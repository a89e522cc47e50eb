"""Records of studies, rubrics, participants and tasks, and the editing of study texts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import ValidationError
from django.db.models import CharField, Count, QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.text import Truncator
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from webapp.core.rights import (
    ReadOnlyAdminMixin,
    Right,
    RightsAdminMixin,
    may_see_codes,
    private_search,
)
from webapp.studies.forms import StudyForm
from webapp.studies.models import (
    ConsentText,
    Dimension,
    Item,
    Outcome,
    Participant,
    Rubric,
    Slot,
    Study,
    Task,
)
from webapp.studies.privacy import AGREED_TEXTS, erasure_counts, erasure_kinds, participants_erase
from webapp.studies.questions import questions_text
from webapp.studies.recruitment.completion import ending_of, tasks_with_endings
from webapp.studies.rubrics import rubric_new_version
from webapp.studies.selectors import rubric_is_fixed
from webapp.studies.services import study_copy
from webapp.studies.settings import ASKED, NAMES
from webapp.studies.versions import study_store

_CODES = [(f"code_{outcome}", f"link_{outcome}") for outcome in Outcome.values]


@admin.register(Study)
class StudyAdmin(RightsAdminMixin, admin.ModelAdmin):
    form = StudyForm
    list_display = ("name", "key", "state", "protocol", "rule", "rubric", "pages", "created_at")
    list_filter = ("state", "is_imported", "protocol", "rule")
    search_fields = ("key", "name")
    prepopulated_fields = {"key": ("name",)}
    readonly_fields = ("versions", "questions_asked", "is_imported", "created_at", "updated_at")
    save_on_top = True
    actions = ("copy",)

    @admin.action(description=_("Copy: the same as a draft, without its people"), permissions=["add"])
    def copy(self, request: HttpRequest, queryset: QuerySet[Study]) -> None:
        """Copy each study under the next free key."""
        for study in queryset:
            try:
                made = study_copy(study=study)
            except ValidationError as error:
                self.message_user(
                    request,
                    _("%(study)s was not copied: %(why)s") % {"study": study, "why": " ".join(error.messages)},
                    messages.ERROR,
                )
            else:
                self.message_user(
                    request,
                    format_html(
                        gettext(
                            '<a href="{}">{}</a> is a draft like {}. Prolific’s codes were not copied: '
                            "they belong to one study there."
                        ),
                        reverse("admin:studies_study_change", args=[made.pk]),
                        made.key,
                        study.key,
                    ),
                    messages.SUCCESS,
                )

    def save_model(self, request: HttpRequest, obj: Study, form: Any, change: bool) -> None:
        """Store the study, as a new version if participants have agreed to it."""
        study_store(
            study=obj,
            values=form.values,
            rubric=form.rubric_chosen,
            author=request.user.get_username(),
        )

    fieldsets = (
        (None, {"fields": ("name", "key", "state", "bots", "rubric", "protocol", "rule", "seed")}),
        (
            _("How it runs"),
            {
                "fields": (
                    ("min_exchanges", "max_exchanges"),
                    ("max_message_chars", "typing_chars_per_s"),
                    "counts_typing",
                    ("n_items", "show_reference"),
                    ("n_conversations_wanted", "max_conversations_per_participant"),
                    "max_cost",
                )
            },
        ),
        (
            _("Who gets which chatbot"),
            {
                "fields": (
                    ("max_per_bot", "bot_quotas"),
                    ("place_minutes", "idle_minutes"),
                    "study_group",
                )
            },
        ),
        (
            _("What participants read"),
            {"fields": ("language", *AGREED_TEXTS, "thanks_text")},
        ),
        (
            _("What participants are asked"),
            {"fields": ("questions", "after", ("questions_order", "after_order"), "asks_comment")},
        ),
        (
            _("Recruitment and pay"),
            {
                "fields": (
                    "platform",
                    *_CODES,
                    ("id_parameter", "session_parameter", "more_parameters"),
                    ("pay_each", "pay_screened_out", "currency", "fee_share"),
                    "pays_in_full",
                    "auto_return",
                    "frame_ancestors",
                )
            },
        ),
        (
            _("Record"),
            {"fields": ("versions", "questions_asked", "is_imported", "created_at", "updated_at")},
        ),
    )

    def get_fieldsets(self, request: HttpRequest, obj: Study | None = None) -> Any:
        """Leave out completion codes, and links that hold them, for those who may not see them."""
        found = super().get_fieldsets(request, obj)
        if may_see_codes(request.user):
            return found
        return [
            (title, {**more, "fields": [one for one in more["fields"] if one not in _CODES]}) for title, more in found
        ]

    @admin.display(description=_("versions"))
    def versions(self, study: Study) -> str:
        """List the study's versions, with how many tasks carry each."""
        if study.pk is None:
            return "–"
        numbered = study.versions.annotate(n=Count("tasks")).order_by("number")
        return ", ".join(
            gettext("%(number)d (%(n)d tasks)") % {"number": version.number, "n": version.n} for version in numbered
        )

    @admin.display(description=_("questions of its versions"))
    def questions_asked(self, study: Study) -> str:
        """Show each version's questions before and after the task."""
        versions = study.versions.order_by("number") if study.pk is not None else ()
        rows = [
            (one.number, name, questions_text(getattr(one.values, name)))
            for one in versions
            for name in ASKED
            if getattr(one.values, name)
        ]
        return format_html_join("", "<p><strong>{} {}</strong></p><pre>{}</pre>", rows) or "–"

    @admin.display(description=_("pages"))
    def pages(self, study: Study) -> str:
        """Link to the page where the study is analysed."""
        return format_html('<a href="{}">{}</a>', reverse("dashboard:study", args=[study.key]), _("dashboard"))


def _shown(name: str) -> Callable[[StudyAdmin, Study], Any]:
    @admin.display(description=name.replace("_", " "))
    def show(_admin: StudyAdmin, study: Study) -> Any:
        """Return this value of the study's newest version."""
        if name in ASKED:
            return format_html("<pre>{}</pre>", questions_text(getattr(study.values, name)) or "–")
        return study.rubric if name == "rubric" else study.values.flat()[name]

    return show


# A user who may only read gets no form, and the admin looks here for fields that are no column of the study.
for _name in ("rubric", *NAMES):
    if not hasattr(StudyAdmin, _name):
        setattr(StudyAdmin, _name, _shown(_name))


class DimensionInline(RightsAdminMixin, admin.TabularInline):
    model = Dimension
    extra = 0
    fields = (
        *("position", "key", "title", "question"),
        *("low_label", "high_label", "required", "reversed"),
    )
    # Eight columns side by side need narrower boxes than the admin's.
    formfield_overrides = {CharField: {"widget": forms.TextInput(attrs={"size": 16})}}

    def _open(self, rubric: Rubric | None) -> bool:
        return rubric is None or not rubric_is_fixed(rubric)

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self._open(obj) and super().has_add_permission(request, obj)

    def get_readonly_fields(self, request: HttpRequest, obj: Rubric | None = None) -> Any:
        """Return the fields that are fixed.

        The direction of a question's scale is not shown to participants, so it can be changed afterwards.
        """
        if self._open(obj):
            return ()
        return tuple(field for field in self.fields if field != "reversed")

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self._open(obj) and super().has_delete_permission(request, obj)


@admin.register(Rubric)
class RubricAdmin(RightsAdminMixin, admin.ModelAdmin):
    list_display = ("__str__", "low", "high", "questions", "is_frozen", "frozen_at")
    search_fields = ("name",)
    list_filter = (("frozen_at", admin.EmptyFieldListFilter), "scale_inferred")
    inlines = (DimensionInline,)
    actions = ("new_version",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Rubric]:
        return super().get_queryset(request).prefetch_related("dimensions")

    def get_readonly_fields(self, request: HttpRequest, obj: Rubric | None = None) -> Any:
        """Return the fixed fields: those of a rubric that is answered, or that a participant agreed to answer."""
        fixed = ("frozen_at", "scale_inferred")
        if obj is not None and rubric_is_fixed(obj):
            return ("name", "version", "low", "high", *fixed)
        return fixed

    def has_delete_permission(self, request: HttpRequest, obj: Rubric | None = None) -> bool:
        fixed = obj is not None and rubric_is_fixed(obj)
        return not fixed and super().has_delete_permission(request, obj)

    @admin.display(description=_("questions"))
    def questions(self, rubric: Rubric) -> str:
        """List the rubric's dimensions."""
        return ", ".join(dimension.key for dimension in rubric.dimensions.all())

    @admin.display(description=_("frozen"), boolean=True)
    def is_frozen(self, rubric: Rubric) -> bool:
        """Return True if the rubric has been answered."""
        return rubric.frozen_at is not None

    @admin.action(description=_("Make a new version that can be edited"), permissions=["add"])
    def new_version(self, request: HttpRequest, queryset: QuerySet[Rubric]) -> None:
        """Copy each rubric under the next version number."""
        for rubric in queryset:
            made = rubric_new_version(rubric=rubric)
            self.message_user(
                request,
                _("%(new)s is a copy of %(old)s; choose it in a study to use it.") % {"new": made, "old": rubric},
                messages.SUCCESS,
            )


@admin.register(ConsentText)
class ConsentTextAdmin(ReadOnlyAdminMixin, admin.ModelAdmin):
    """Exact texts that participants agreed to."""

    list_display = ("digest", "title", "n_people", "created_at")
    fields = readonly_fields = ("digest", "created_at", "agreed_to")

    def get_queryset(self, request: HttpRequest) -> QuerySet[ConsentText]:
        return super().get_queryset(request).annotate(n=Count("participants"))

    @admin.display(description=_("title"))
    def title(self, text: ConsentText) -> str:
        """Return the study's title for participants at that time."""
        return text.texts.get("title", "")

    @admin.display(description=_("people"), ordering="n")
    def n_people(self, text: ConsentText) -> int:
        """Return the number of participants who agreed to the text."""
        return text.n  # type: ignore[attr-defined]

    @admin.display(description=_("agreed to"))
    def agreed_to(self, text: ConsentText) -> str:
        """Show every field with its text, as it was."""
        return format_html_join(
            "",
            "<p><strong>{}</strong></p><pre>{}</pre>",
            ((name.replace("_", " "), value) for name, value in text.texts.items()),
        )

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


@admin.register(Participant)
class ParticipantAdmin(ReadOnlyAdminMixin, admin.ModelAdmin):
    """Deleting a participant erases all that is kept of them; it is counted beforehand."""

    right_to_view = Right.PRIVATE
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

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """Return the confirmation's list: participants, and the number of rows of each kind deleted with them."""
        people = Participant.objects.filter(pk__in=[person.pk for person in objs])
        counts = erasure_counts(people)
        kinds = {str(kind.title): counts[table] for table, kind in erasure_kinds().items()}
        return [str(person) for person in objs], kinds, set(), []

    def delete_model(self, request: HttpRequest, obj: Participant) -> None:
        participants_erase(participants=Participant.objects.filter(pk=obj.pk))

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Participant]) -> None:
        participants_erase(participants=queryset)


@admin.register(Item)
class ItemAdmin(ReadOnlyAdminMixin, admin.ModelAdmin):
    """Items that participants judge, read-only: `import_items` stores them, and judged ones are kept."""

    list_display = ("key", "study", "models", "begins", "n_given", "created_at")
    list_filter = ("study",)
    list_select_related = ("study",)
    search_fields = ("key",)
    fields = readonly_fields = ("study", "key", "context", "responses", "reference", "created_at")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Item]:
        return super().get_queryset(request).annotate(n=Count("slots"))

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    @admin.display(description=_("models"))
    def models(self, item: Item) -> str:
        """Return the names of the models that wrote the replies."""
        return ", ".join(response.get("model") or "–" for response in item.responses)

    @admin.display(description=_("first reply"))
    def begins(self, item: Item) -> str:
        """Return the beginning of its first reply."""
        return Truncator(item.responses[0]["text"]).chars(80)

    @admin.display(description=_("given"), ordering="n")
    def n_given(self, item: Item) -> int:
        """Return in how many tasks it is."""
        return item.n  # type: ignore[attr-defined]


class SlotInline(ReadOnlyAdminMixin, admin.TabularInline):
    model = Slot
    fields = readonly_fields = ("order", "side", "bot_id", "conversation", "item")
    extra = 0


@admin.register(Task)
class TaskAdmin(ReadOnlyAdminMixin, admin.ModelAdmin):
    right_to_view = Right.PAY
    list_display = (
        "id",
        "study",
        "kind",
        "bots",
        "state",
        "outcome",
        "code_shown",
        "ended_at",
        "created_at",
    )
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
        """Search also by the participant's id on a platform, for those who may see it."""
        return private_search(request, self.search_fields, "participant__platform_ids__external_id")

    @admin.display(description=_("code shown"))
    def code_shown(self, task: Task) -> str:
        """Return the code that the participant is shown: the platform's own, if it has one."""
        ending = ending_of(task)
        return ending.code if ending else ""

    @admin.display(description=_("study"), ordering="participant__study")
    def study(self, task: Task) -> Study:
        """Return the participant's study."""
        return task.participant.study

    @admin.display(description=_("bots"))
    def bots(self, task: Task) -> str:
        """Return the bots that conversations are made with."""
        return ", ".join(task.bot_ids)
