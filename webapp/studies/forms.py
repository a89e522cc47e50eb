"""The admin's form of a study: its own fields together with those of its newest version."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib.admin.widgets import AdminTextareaWidget
from django.core.exceptions import ValidationError
from django.utils.translation import gettext_lazy as _
from pydantic.fields import FieldInfo

from chatbots.registry import Registry
from chatbots.validation import InputModel
from webapp.bots.selectors import bot_entry_list
from webapp.core.language import LANGUAGES
from webapp.studies.assignment.rules.base import rules
from webapp.studies.assignment.settings import Assignment, by_bot_text
from webapp.studies.chat_settings import Typing
from webapp.studies.models import Rubric, Study
from webapp.studies.protocols.base import protocols
from webapp.studies.questions import questions_from_text, questions_text
from webapp.studies.recruitment.settings import RecruitmentValues
from webapp.studies.rubrics import rubric_default
from webapp.studies.settings import ASKED, SECTION_OF, StudyValues, Texts
from webapp.studies.validation import study_errors
from webapp.studies.versions import values_made


def _count(help_text: Any = "", *, least: int = 0) -> forms.IntegerField:
    return forms.IntegerField(min_value=least, help_text=help_text)


def _line(help_text: Any = "", *, most: int = 200, required: bool = False, **more: Any) -> forms.CharField:
    widget = forms.TextInput(attrs={"class": "vTextField"})
    return forms.CharField(max_length=most, widget=widget, help_text=help_text, required=required, **more)


def _text(help_text: Any = "") -> forms.CharField:
    return forms.CharField(widget=AdminTextareaWidget, help_text=help_text, required=False)


def _said_of(name: str) -> FieldInfo:
    return RecruitmentValues.model_fields[name]


def _recruiting(name: str, **more: Any) -> forms.CharField:
    """Return a line for a setting of recruitment, with the words that the setting has itself."""
    said = _said_of(name)
    return _line(said.description or "", label=said.title, **more)


def _amount(name: str, *, required: bool = False) -> forms.FloatField:
    said = _said_of(name)
    return forms.FloatField(min_value=0, required=required, label=said.title, help_text=said.description or "")


PLATFORMS = [
    ("link", _("A link")),
    ("prolific", _("Prolific")),
    ("mturk", _("Mechanical Turk")),
    ("panel", _("Another panel")),
    ("links", _("One-time links")),
]


def _of(section: type[InputModel], name: str, kind: Any, **more: Any) -> Any:
    """Return the form's field for a setting of a section, with its title and description."""
    field = section.model_fields[name]
    return kind(label=field.title, help_text=field.description, **more)


_LINES = AdminTextareaWidget(attrs={"rows": 4})


def _order(label: Any) -> forms.ChoiceField:
    return forms.ChoiceField(
        label=label,
        choices=[("fixed", _("as they stand")), ("shuffled", _("shuffled for each person"))],
    )


class StudyForm(forms.ModelForm):
    """Bots, protocol and rule are chosen among those there are; a bot once in keeps its place."""

    bots = forms.MultipleChoiceField(
        label=_("Bots"),
        widget=forms.CheckboxSelectMultiple,
        required=False,
        help_text=_("A bot keeps its mark in plots: new ones are put behind those already here."),
    )
    protocol = forms.ChoiceField(label=_("Protocol"))
    rule = forms.ChoiceField(label=_("Assignment rule"))
    rubric = forms.ModelChoiceField(Rubric.objects.order_by("name", "version"))

    language = forms.ChoiceField(
        label=Texts.model_fields["language"].title,
        choices=list(LANGUAGES.items()),
        help_text=Texts.model_fields["language"].description or "",
    )
    title = _line(_("What participants read."), most=120, required=True)
    minutes = _count(_("Shown to participants."))
    payment = _line(_("E.g. “£1.40 per chat”."), most=100)
    promises_pay_on_failure = forms.BooleanField(required=False)
    organisation = _line()
    contact = forms.EmailField(required=False)
    consent_points = _text(_("Short points shown before agreeing, one a line."))
    consent_text = _text(_("The full form. Markdown."))
    instructions_text = _text(_("One point a line."))
    content_notice = _text(_("Shown in a frame of its own before agreeing; empty: none."))
    content_notice_ticked = forms.BooleanField(required=False)
    counts_typing = _of(Typing, "counts_typing", forms.BooleanField, required=False)
    typing_notice = _of(Typing, "typing_notice", forms.CharField, required=False, widget=_LINES)
    thanks_text = _text()

    questions = _text(
        _(
            "Asked once, before the task. A list in YAML or JSON; each with key, title, kind (text, choice, "
            "choices or scale), options for choices, and required: false if it may stay empty."
        )
    )

    after = _text(
        _(
            "Asked after the task, as above; a scale also has low, high, labels ({1: bad, 7: good}) and reversed. "
            "Empty: the questions of the rubric chosen above."
        )
    )
    questions_order = _order(_("Order of the questions before the task"))
    after_order = _order(_("Order of the questions after the task"))
    asks_comment = forms.BooleanField(
        label=_("Box for comments"),
        required=False,
        help_text=_("At the end of the form after a chat."),
    )

    min_exchanges = _count(least=1)
    max_exchanges = _count(least=1)
    max_message_chars = _count(least=1)
    typing_chars_per_s = _count(_("Pace of bots that know their whole text at once; 0: no pacing."))

    n_items = _count(_("How many items each person judges in one go."), least=1)
    show_reference = forms.BooleanField(
        required=False, help_text=_("Show the reply that a person wrote, where an item has one.")
    )

    platform = forms.ChoiceField(choices=PLATFORMS)
    code_rated = _recruiting("code_rated")
    code_bot_failed = _recruiting("code_bot_failed")
    code_screened_out = _recruiting("code_screened_out")
    code_failed_check = _recruiting("code_failed_check")
    code_no_consent = _recruiting("code_no_consent")
    code_withdrawn = _recruiting("code_withdrawn")
    link_rated = _recruiting("link_rated", most=500)
    link_bot_failed = _recruiting("link_bot_failed", most=500)
    link_screened_out = _recruiting("link_screened_out", most=500)
    link_failed_check = _recruiting("link_failed_check", most=500)
    link_no_consent = _recruiting("link_no_consent", most=500)
    link_withdrawn = _recruiting("link_withdrawn", most=500)
    id_parameter = _recruiting("id_parameter")
    session_parameter = _recruiting("session_parameter")
    more_parameters = _recruiting("more_parameters")
    auto_return = forms.BooleanField(required=False)
    frame_ancestors = _line(_("Origins that may show the study in a frame."), most=300)
    pay_each = _amount("pay_each")
    pay_screened_out = _amount("pay_screened_out")
    currency = _recruiting("currency", most=3, required=True)
    fee_share = _amount("fee_share", required=True)
    pays_in_full = forms.BooleanField(required=False, help_text=_said_of("pays_in_full").description or "")

    n_conversations_wanted = _count(_("Completed conversations aimed at; 0: no limit."))
    max_conversations_per_participant = _count(_("0: once with every bot."))
    max_per_bot = _of(Assignment, "max_per_bot", forms.IntegerField, min_value=0)
    bot_quotas = _of(Assignment, "bot_quotas", forms.CharField, required=False, widget=_LINES)
    place_minutes = _of(Assignment, "place_minutes", forms.IntegerField, min_value=1)
    idle_minutes = _of(Assignment, "idle_minutes", forms.IntegerField, min_value=0)
    study_group = _of(Assignment, "study_group", forms.CharField, required=False, max_length=60)
    max_cost = forms.FloatField(
        min_value=0,
        required=False,
        help_text=_(
            "The most that replies of endpoint bots may cost here, in the currency of their prices in "
            "bots.yaml; empty: no cap."
        ),
    )

    class Meta:
        model = Study
        fields = ("name", "key", "state", "protocol", "rule", "seed")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        instance: Study | None = kwargs.get("instance")
        stored = instance is not None and instance.version is not None
        values = instance.values if stored and instance is not None else StudyValues()
        rubric = instance.rubric if stored and instance is not None else rubric_default()
        asked = {name: questions_text(getattr(values, name)) for name in ASKED}
        quotas = by_bot_text(values.assignment.bot_quotas)
        first = {**values.flat(), **asked, "bot_quotas": quotas, "rubric": rubric.pk}
        kwargs["initial"] = {**first, **(kwargs.get("initial") or {})}
        super().__init__(*args, **kwargs)
        # What has no field here stays as it is stored.
        self._stored = values
        self._before: list[str] = list(values.bots)
        if values.after and "rubric" in self.fields:
            self.fields["rubric"].disabled = True
            self.fields["rubric"].help_text = _("Made of the questions after the task, below.")
        if "bots" in self.fields:
            self.fields["bots"].choices = self._bot_choices()  # type: ignore[attr-defined]
        registries: dict[str, Registry[Any]] = {"protocol": protocols, "rule": rules}
        for field, registry in registries.items():
            known = [(entry.name, f"{entry.title}: {entry.description}") for entry in registry]
            current = getattr(self.instance, field)
            if current and current not in registry:
                known.append((current, current))
            if field in self.fields:
                self.fields[field].initial = current
                self.fields[field].choices = known  # type: ignore[attr-defined]

    def _bot_choices(self) -> list[tuple[str, str]]:
        entries = {entry.id: entry for entry in bot_entry_list()}
        choices = []
        for bot_id in dict.fromkeys([*self._before, *entries]):
            entry = entries.get(bot_id)
            if entry is None:
                choices.append((bot_id, f"{bot_id} ({_('not registered here')})"))
            elif entry.reason:
                choices.append((bot_id, f"{entry.name} ({entry.reason})"))
            else:
                choices.append((bot_id, entry.name))
        return choices

    def clean_bots(self) -> list[str]:
        """Return the chosen bots: those that were there in their order, then the new ones."""
        chosen = self.cleaned_data["bots"]
        kept = [bot_id for bot_id in self._before if bot_id in chosen]
        return kept + [bot_id for bot_id in chosen if bot_id not in kept]

    def clean_questions(self) -> Any:
        """Return the questions parsed from the text; they are validated together with the other values."""
        return self._asked("questions")

    def clean_after(self) -> Any:
        """Return the questions parsed from the text, as `clean_questions` does."""
        return self._asked("after")

    @property
    def rubric_chosen(self) -> Rubric | None:
        """The rubric to ask; None where the study's questions make their own."""
        return None if self._stored.after else self.cleaned_data["rubric"]

    def _asked(self, name: str) -> Any:
        try:
            return questions_from_text(self.cleaned_data[name])
        except ValueError as error:
            said = _("This is neither YAML nor JSON: %(why)s") % {"why": error}
            raise ValidationError(said) from None

    def _post_clean(self) -> None:
        """Make the values once every field is valid by itself, and add each error to its field."""
        super()._post_clean()  # type: ignore[misc]
        if self.errors:
            return
        given = {name: value for name, value in self.cleaned_data.items() if name in SECTION_OF}
        try:
            chosen = {name: self.cleaned_data[name] for name in ("bots", *ASKED)}
            self.values = values_made(self._stored.flat(), {**given, **chosen})
        except ValidationError as error:
            self.add_error(None, error)
            return
        before = Study.objects.filter(pk=self.instance.pk).first() if self.instance.pk else None
        rubric = self.rubric_chosen
        wrong = study_errors(before=before, study=self.instance, values=self.values, rubric=rubric)
        if wrong:
            self.add_error(None, ValidationError(wrong))  # type: ignore[arg-type]
