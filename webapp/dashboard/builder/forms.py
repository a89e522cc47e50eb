"""Form fields made from a study's settings.

Any section of the settings gets its fields automatically. Lists of entries are cards (`cards.py`).
"""

from __future__ import annotations

import hashlib
import types
from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, Union, get_args, get_origin

import yaml
from django import forms
from pydantic.fields import FieldInfo

from chatbots.validation import InputModel
from webapp.core.language import LANGUAGES
from webapp.studies.assignment.settings import by_bot_text
from webapp.studies.protocol_settings import is_of_lines, text_lines
from webapp.studies.reply_filters.base import reply_filters
from webapp.studies.settings import SECTION_OF, SECTIONS

FILTER_ACTIONS = [("", "Off"), ("mark", "Mark"), ("withhold", "Withhold")]
_ROWS = {"consent_text": 9}
"""Rows of boxes for long texts; 4 by default."""


def titled(message: str, label: Any, name: str) -> str:
    """Return an error message with the field's label instead of its name."""
    first_word, _space, rest = message.partition(" ")
    if first_word.partition("[")[0].partition(".")[0] != name:
        return message
    label = str(label)
    return f"{label} {rest}" if "“" in label else f"“{label}” {rest}"


def field_made(name: str, info: FieldInfo) -> forms.Field | None:
    """Return the form field of a value.

    None for a value that needs its own form.
    """
    kind, extra = _unwrapped(info.annotation)
    bounds = _Bounds([*info.metadata, *extra])
    options: dict[str, Any] = {
        "label": info.title or name.replace("_", " ").capitalize(),
        "help_text": info.description or "",
        "required": False,
    }
    is_optional, kind = _optional(kind)
    if get_origin(kind) is Literal:
        choices = [(value, _words(info, str(value))) for value in get_args(kind)]
        return forms.TypedChoiceField(choices=choices, **{**options, "required": True})
    if kind is bool:
        return forms.BooleanField(**options)
    if kind in (int, float):
        field_class = forms.IntegerField if kind is int else forms.FloatField
        # An empty number of participants or messages is invalid.
        number_options = {"min_value": bounds.low, "max_value": bounds.high, "required": not is_optional}
        field: forms.Field = field_class(**{**options, **number_options})
        if kind is float:
            field.widget.attrs["step"] = "any"
        return field
    if kind is str:
        is_long = is_of_lines(info)
        attributes = {"rows": _ROWS.get(name, 4)} if is_long else {}
        widget: forms.Widget = forms.Textarea(attrs=attributes) if is_long else forms.TextInput()
        return forms.CharField(max_length=bounds.longest, widget=widget, **options)
    if name == "reply_filters":
        return FiltersField(**options)
    if get_origin(kind) is dict:
        value, _extra = _unwrapped(get_args(kind)[1])
        return ListsByNameField(**options) if get_origin(value) is tuple else ByNameField(**options)
    if get_origin(kind) is tuple and get_origin(get_args(kind)[0]) is Literal:
        several = [(value, _words(info, str(value))) for value in get_args(get_args(kind)[0])]
        return forms.MultipleChoiceField(choices=several, widget=forms.CheckboxSelectMultiple, **options)
    if get_origin(kind) is tuple and _unwrapped(get_args(kind)[0])[0] is str:
        if " line" not in options["help_text"]:
            options["help_text"] = f"One per line. {options['help_text']}".rstrip()
        return LinesField(**options)
    return None


class DirectionField(forms.NullBooleanField):
    """Direction of a scale, with the values of `Question.reversed`.

    True if lower is better, None if unknown.
    """

    _VALUES: ClassVar[dict[str, bool | None]] = {"": None, "off": False, "on": True}
    _LABELS = ("Not known", "↑ Higher is better", "↓ Lower is better")

    def __init__(self, **options: Any) -> None:
        widget = forms.Select(choices=tuple(zip(self._VALUES, self._LABELS, strict=True)))
        super().__init__(widget=widget, required=False, **options)

    @classmethod
    def name_of(cls, value: bool | None) -> str:
        """Return the option of a value."""
        return next(name for name, direction in cls._VALUES.items() if direction is value)

    def to_python(self, value: Any) -> bool | None:  # type: ignore[override]  # of NullBooleanField too
        """Return the value of an option; None for any other."""
        return self._VALUES.get(str(value or ""))


class LinesField(forms.CharField):
    """Field of several texts, one per line."""

    widget = forms.Textarea(attrs={"rows": 4})

    def prepare_value(self, value: Any) -> Any:
        """Return the lines as one text."""
        return value if isinstance(value, str) else "\n".join(value or ())

    def clean(self, value: Any) -> Any:
        """Return the lines that are not blank."""
        text = super().clean(value)
        return [line.strip() for line in text.splitlines() if line.strip()]


def _as_yaml(entries: Sequence[Any]) -> str:
    plain = [
        element.model_dump(mode="json", exclude_defaults=True) if isinstance(element, InputModel) else element
        for element in entries
    ]
    return yaml.safe_dump(plain, sort_keys=False, allow_unicode=True) if plain else ""


class ByNameField(forms.CharField):
    """Field of values by name, one “name: value” per line.

    The value's own validation reports invalid lines.
    """

    widget = forms.Textarea(attrs={"rows": 3})

    def prepare_value(self, value: Any) -> Any:
        """Return the values as lines."""
        return value if isinstance(value, str) else by_bot_text(value or {})


class FiltersWidget(forms.MultiWidget):
    """Widget with a select box per filter, its name and description."""

    template_name = "dashboard/builder/filters_widget.html"

    def __init__(self) -> None:
        self.filters = list(reply_filters)
        super().__init__({reply_filter.name: forms.Select(choices=FILTER_ACTIONS) for reply_filter in self.filters})

    def decompress(self, value: Any) -> list[str]:
        """Return the action of each filter, in order."""
        return [(value or {}).get(reply_filter.name, "") for reply_filter in self.filters]

    def get_context(self, name: str, value: Any, attrs: Any) -> dict[str, Any]:
        """Return the select boxes with their filters."""
        context = super().get_context(name, value, attrs)
        parts = context["widget"]["subwidgets"]
        context["rows"] = list(zip(self.filters, parts, strict=True))
        return context


class FiltersField(forms.MultiValueField):
    """Field for the action of each reply filter: none, mark, or block."""

    def __init__(self, **options: Any) -> None:
        widget = FiltersWidget()
        parts = [forms.ChoiceField(choices=FILTER_ACTIONS, required=False) for _filter in widget.filters]
        super().__init__(parts, widget=widget, require_all_fields=False, **options)

    def compress(self, data_list: list[str]) -> dict[str, str]:
        """Return the used filters with their actions on matching replies."""
        names = [reply_filter.name for reply_filter in self.widget.filters]
        return {name: action for name, action in zip(names, data_list, strict=False) if action}


class TranslationsWidget(forms.MultiWidget):
    """Widget with a text box per line and language, below the original."""

    template_name = "dashboard/builder/translations_widget.html"

    def __init__(self, lines: Sequence[str], languages: Sequence[str]) -> None:
        self.places = [(line, language) for line in lines for language in languages]
        self.languages = languages
        attributes = {"class": "input", "maxlength": 4000, "dir": "auto"}
        boxes: dict[str, forms.Widget | type[forms.Widget]] = {
            f"{language}_{hashlib.sha256(line.encode()).hexdigest()[:12]}": forms.TextInput(
                attrs={**attributes, "lang": language, "aria-label": f"{LANGUAGES[language]}: {line}"}
            )
            for line, language in self.places
        }
        super().__init__(boxes)

    def decompress(self, value: Any) -> list[str]:
        """Return the translation in each box, in order."""
        return [(value or {}).get(language, {}).get(line, "") for line, language in self.places]

    def get_context(self, name: str, value: Any, attrs: Any) -> dict[str, Any]:
        """Return the lines with their boxes."""
        context = super().get_context(name, value, attrs)
        rows: dict[str, list[Any]] = {}
        for (line, language), part in zip(self.places, context["widget"]["subwidgets"], strict=True):
            rows.setdefault(line, []).append((LANGUAGES[language], part))
        return {**context, "rows": rows}


class TranslationsField(forms.MultiValueField):
    """Translations of a study's own lines, by language."""

    def __init__(self, lines: Sequence[str], languages: Sequence[str], **options: Any) -> None:
        self.boxes = TranslationsWidget(lines, languages)
        parts = [forms.CharField(max_length=4000, required=False) for _place in self.boxes.places]
        super().__init__(parts, widget=self.boxes, require_all_fields=False, required=False, **options)

    def compress(self, data_list: list[str]) -> dict[str, dict[str, str]]:
        """Return the translated lines, by language."""
        translations: dict[str, dict[str, str]] = {}
        for (line, language), text in zip(self.boxes.places, data_list, strict=False):
            if text:
                translations.setdefault(language, {})[line] = text
        return translations


class ListsByNameField(forms.CharField):
    """Field of lists by name, one “name: text, text” per line."""

    widget = forms.Textarea(attrs={"rows": 3})

    def prepare_value(self, value: Any) -> Any:
        """Return the lists as lines."""
        if isinstance(value, str):
            return value
        return "\n".join(f"{name}: {', '.join(texts)}" for name, texts in (value or {}).items())

    def clean(self, value: Any) -> Any:
        """Return the lists by name.

        Lines without a colon and repeated names are rejected.
        """
        texts_by_name: dict[str, list[str]] = {}
        for line in filter(None, map(str.strip, super().clean(value).splitlines())):
            name, colon, texts = (part.strip() for part in line.partition(":"))
            if not name or not colon or name in texts_by_name:
                words = "“%(line)s” must be a name used only once, a colon and texts."
                raise forms.ValidationError(words % {"line": line})
            texts_by_name[name] = [text.strip() for text in texts.split(",") if text.strip()]
        return texts_by_name


class _Bounds:
    """Bounds of a value: lowest, highest and longest, from its metadata."""

    def __init__(self, metadata: Sequence[Any]) -> None:
        bounds: dict[str, Any] = {}
        for each in metadata:
            for name in ("ge", "le", "max_length"):
                if getattr(each, name, None) is not None:
                    bounds[name] = getattr(each, name)
            if isinstance(each, FieldInfo):
                inner = _Bounds(each.metadata)
                bounds |= {"ge": inner.low, "le": inner.high, "max_length": inner.longest}
        self.low: Any = bounds.get("ge")
        self.high: Any = bounds.get("le")
        self.longest: int | None = bounds.get("max_length")


def _unwrapped(annotation: Any) -> tuple[Any, list[Any]]:
    extra: list[Any] = []
    while get_origin(annotation) is Annotated:
        annotation, *metadata = get_args(annotation)
        extra += metadata
    return annotation, extra


def _optional(kind: Any) -> tuple[bool, Any]:
    if get_origin(kind) in (Union, types.UnionType):
        [inner] = [argument for argument in get_args(kind) if argument is not type(None)]
        return True, _unwrapped(inner)[0]
    return False, kind


def _words(info: FieldInfo, value: str) -> str:
    extra = info.json_schema_extra
    choice_titles: Any = extra.get("choices", {}) if isinstance(extra, dict) else {}
    return str(choice_titles.get(value) or value.replace("_", " ").capitalize())


def section_fields(section: str, leave_out: Sequence[str] = ()) -> dict[str, forms.Field]:
    """Return the form fields of a section by name, in order."""
    kind: type[InputModel] = SECTIONS[section]
    fields = {name: field_made(name, info) for name, info in kind.model_fields.items() if name not in leave_out}
    return {name: field for name, field in fields.items() if field is not None}


def title_of_value(name: str) -> str:
    """Return the title of a study's value on pages."""
    if name not in SECTION_OF:
        return name.replace("_", " ").capitalize()
    info = SECTIONS[SECTION_OF[name]].model_fields[name]
    return info.title or name.replace("_", " ").capitalize()


SECTION_TITLES = {
    "comfort": "Content notice and reports",
    "chat": "Chat",
    "pacing": "Pace of replies",
    "people": "People as partners",
    "typing": "Typing",
    "filtering": "Reply filters",
    "safety": "Safety net for what participants write",
    "judging": "Items",
    "helping": "Collect where it counts",
    "referencing": "Questions and weights",
    "choosing": "Choice",
    "marking": "Conversations",
    "step_marking": "Steps of replies",
    "own_marking": "Replies to mark",
    "error_marking": "Errors and their weights",
    "dialogues": "Conversations",
    "arena": "Comparisons",
    "picking": "Picks",
    "quotas": "Limits",
    "closing": "Closing rules",
    "planning": "Hypotheses, exclusions and population",
    "assignment": "Assignment of chatbots",
    "rights": "Withdrawal and retention",
}


def section_title(section: str) -> str:
    """Return the title of a section on pages."""
    return SECTION_TITLES.get(section) or section.replace("_", " ").capitalize()


class SettingsForm(forms.Form):
    """Fields of a study that are edited together.

    Attributes:
        groups: headings, each with the names of the fields below it.
        unversioned_fields: names of fields that belong to no version; the step stores them.
    """

    unversioned_fields: Collection[str] = ()

    def __init__(
        self,
        data: Mapping[str, Any] | None = None,
        *,
        groups: Sequence[tuple[str, Mapping[str, forms.Field]]],
        initial: Mapping[str, Any],
    ) -> None:
        super().__init__(data, initial=dict(initial))
        self.label_suffix = ""
        self.groups = [(heading, list(fields)) for heading, fields in groups]
        for _heading, fields in groups:
            self.fields.update(fields)
        for field in self.fields.values():
            if not isinstance(field.widget, forms.CheckboxInput | forms.CheckboxSelectMultiple):
                field.widget.attrs.setdefault("class", "input")

    def grouped(self) -> list[tuple[str, list[forms.BoundField]]]:
        """Return the bound fields below their headings."""
        return [(heading, [self[name] for name in names]) for heading, names in self.groups]

    @property
    def changeable(self) -> list[str]:
        """Names of the fields that `changes` returns."""
        return [name for name in self.fields if name not in self.unversioned_fields]

    def changes(self) -> dict[str, Any]:
        """Return the values by name; the form must be valid."""
        return {name: self.cleaned_data[name] for name in self.changeable}

    def tell(self, field: str, sentence: str) -> None:
        """Show validation errors next to their fields, others at the top."""
        if field in self.fields:
            self.add_error(field, sentence)
        else:
            self.add_error(None, f"{title_of_value(field)}: {sentence}")

    def script_data(self) -> dict[str, Any]:
        """Return additional data for the page's script after the form is saved."""
        return {}


def value_words(value: Any) -> str:
    """Return a value as shown in comparisons of two values."""
    if isinstance(value, bool):
        return "✓" if value else "–"
    if isinstance(value, dict):
        if any(isinstance(element, dict) for element in value.values()):
            return str(yaml.safe_dump(value, allow_unicode=True))
        return by_bot_text(value) or "–"
    if isinstance(value, list | tuple) and any(isinstance(element, dict | InputModel) for element in value):
        return _as_yaml(value)
    if isinstance(value, list | tuple):
        return "\n".join(str(element) for element in value) or "–"
    return "–" if value in (None, "") else text_lines(str(value))
