"""Forms of an import: the file, and the questions of its preview."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from django import forms

from chatbots.text import sanitise
from evaluation.data.formats.csv_roles import ROLES, CsvLayout
from evaluation.data.formats.mapping import ROLES_OF_SPEAKERS, FileMapping
from evaluation.data.formats.record_formats import PERSONAL
from evaluation.data.formats.scales import FileScales, Scale
from evaluation.number_format import share
from webapp.core.errors import Refused
from webapp.core.keys import key_from_name
from webapp.dashboard.builder.forms import DirectionField
from webapp.dashboard.forms import check_size, styled
from webapp.jobs.models import SelfPlayRun
from webapp.studies.models import Study
from webapp.studies.protocols.base import get_protocol
from webapp.transfer.import_file import FileContents
from webapp.transfer.job_files import UPLOAD_ENDINGS
from webapp.transfer.services import language_checked

STUDY_ENDINGS = (".yaml", ".yml")
USUAL_SCALES: tuple[Scale, ...] = ((0, 1), (1, 3), (1, 4), (1, 5), (1, 7), (-2, 2), (-3, 3), (0, 10), (1, 10), (0, 100))
_CONTROLS_LISTED = 300


class UploadForm(forms.Form):
    """A file to import."""

    file = forms.FileField(
        label="File",
        widget=forms.FileInput(attrs={"accept": ",".join((*UPLOAD_ENDINGS, ".gz", *STUDY_ENDINGS)), "class": "input"}),
        error_messages={"empty": "The file is empty."},
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        styled(self)

    def clean_file(self) -> Any:
        """Reject files that are too large or of another type."""
        file = self.cleaned_data["file"]
        endings = (*UPLOAD_ENDINGS, *STUDY_ENDINGS)
        if not file.name.lower().endswith(endings):
            raise forms.ValidationError(f"“{file.name}” is not a {', '.join(endings[:-1])} or {endings[-1]} file.")
        check_size(file)
        return file


def proposed_scale(seen: Scale) -> Scale:
    """Return the smallest usual scale that contains the answers."""
    low, high = seen
    holds = [ends for ends in USUAL_SCALES if ends[0] <= low and high <= ends[1]]
    return min(holds, key=lambda ends: ends[1] - ends[0], default=(math.floor(low), max(math.ceil(high), low + 1)))


class ColumnsForm(forms.Form):
    """Role of each column of a CSV.

    Args:
        guessed: role of each column by its name.
        examples: an example cell of each column.
        is_known: whether the format is known, so that columns need not be chosen.
    """

    def __init__(
        self, data: Mapping[str, Any] | None, *, guessed: Mapping[str, str], examples: Sequence[str], is_known: bool
    ) -> None:
        super().__init__(data)
        self.guessed, self.examples, self.is_known = guessed, examples, is_known
        for number, (column, role) in enumerate(guessed.items()):
            self.fields[f"column-{number}"] = forms.ChoiceField(
                label=column or f"Column {number + 1}", choices=list(ROLES.items()), initial=role, required=False
            )
        styled(self)

    def rows(self) -> list[tuple[Any, str]]:
        """Return the field of each column with an example cell."""
        return list(zip(self, self.examples, strict=True))

    def clean(self) -> dict[str, Any]:
        """Check that the roles make a table of conversations or of ratings."""
        try:
            CsvLayout.from_roles(self.chosen())
        except ValueError as error:
            raise forms.ValidationError(str(error)) from None
        return self.cleaned_data

    def chosen(self) -> dict[str, str]:
        """Return the role of each column."""
        return {column: self.cleaned_data.get(f"column-{n}", "") for n, column in enumerate(self.guessed)}

    def roles(self) -> Mapping[str, str] | None:
        """Return the columns' roles; None for the format's default."""
        if not self.is_bound or not self.has_changed():
            return None if self.is_known else self.guessed
        return self.chosen()


class MappingForm(forms.Form):
    """Speakers, bot and additional fields of a file, and saved mappings.

    Args:
        contents: contents of the file.
        mapping: the mapping with which they were read.
        saved: names of the project's mappings.
    """

    bot = forms.CharField(
        label="Bot", required=False, max_length=100, help_text="For conversations whose bot the file does not name."
    )
    saved = forms.ChoiceField(label="Saved mapping", required=False)
    save_as = forms.CharField(
        label="Save mapping as",
        required=False,
        max_length=80,
        help_text="Optional. Columns, speakers, fields and scales are saved on import, for files of the same kind.",
    )

    def __init__(self, *, contents: FileContents, mapping: FileMapping, saved: Sequence[str]) -> None:
        super().__init__(initial={"bot": mapping.bot, "keep": mapping.keep})
        for name, role in contents.speakers.items():
            self.fields[f"{_SPEAKER}{name}"] = forms.ChoiceField(
                label=name, choices=list(ROLES_OF_SPEAKERS.items()), initial=role, required=False
            )
        self.speakers = [self[f"{_SPEAKER}{name}"] for name in contents.speakers]
        if contents.fields:
            self.fields["keep"] = forms.MultipleChoiceField(
                label="Additional fields",
                choices=[(name, _field_title(name, example)) for name, example in contents.fields.items()],
                required=False,
                widget=forms.CheckboxSelectMultiple,
            )
        field: Any = self.fields["saved"]
        field.choices = [("", "None"), *((name, name) for name in saved)]
        if not saved:
            del self.fields["saved"]
        styled(self)

    @staticmethod
    def read(data: Any) -> FileMapping:
        """Return the mapping of form data; columns are in another form.

        Raises:
            ValueError: if a speaker has an invalid role.
        """
        speakers = {name.removeprefix(_SPEAKER): data[name] for name in data if name.startswith(_SPEAKER)}
        return FileMapping(None, speakers, sanitise(data.get("bot", ""), 100).strip(), tuple(data.getlist("keep")))


_SPEAKER = "speaker:"


def _field_title(name: str, example: str) -> str:
    warning = " – may identify persons" if PERSONAL.search(name) else ""
    return f"{name} ({sanitise(example, 40)}){warning}"


class ItemsForm(forms.Form):
    """Choice of the study that gets a file's items."""

    study = forms.ChoiceField(
        label="Study", error_messages={"required": ("Choose the study in which people rate these items.")}
    )

    def __init__(self, data: Mapping[str, Any] | None, *, study: str) -> None:
        super().__init__(data, initial={"study": study})
        studies = [
            candidate
            for candidate in Study.objects.filter(archived_at=None, is_imported=False)
            if get_protocol(candidate).judges_items
        ]
        field: Any = self.fields["study"]
        field.choices = [("", "Choose"), *((candidate.key, candidate.name) for candidate in studies)]
        styled(self)


class ScoresForm(forms.Form):
    """Study or self-play run that gets a file's scores, and their origin.

    Args:
        titles: title of each metric of the file, by name.
    """

    target = forms.ChoiceField(label="Study or self-play run", error_messages={"required": "Choose one."})
    lower = forms.MultipleChoiceField(
        label="Lower values are better", required=False, widget=forms.CheckboxSelectMultiple
    )
    licence = forms.CharField(label="Licence", required=False, max_length=200, help_text="Such as CC-BY-4.0.")
    source = forms.CharField(
        label="Source", required=False, max_length=500, help_text="Address or citation of the scores."
    )

    def __init__(self, data: Mapping[str, Any] | None, *, titles: Mapping[str, str], study: str) -> None:
        super().__init__(data, initial={"target": f"study:{study}"})
        studies = Study.objects.filter(archived_at=None).order_by("-created_at")
        runs = SelfPlayRun.objects.filter(state=SelfPlayRun.State.DONE)
        fields: Any = self.fields
        fields["target"].choices = [
            ("", "Choose"),
            ("Studies", [(f"study:{each.key}", each.name) for each in studies]),
            ("Self-play runs", [(f"run:{each.pk}", each.title) for each in runs[:_RUNS_LISTED]]),
        ]
        fields["lower"].choices = list(titles.items())
        styled(self)

    def choices(self) -> dict[str, Any]:
        """Return the choices as fields of `ImportParams`; the form must be valid."""
        cleaned = self.cleaned_data
        kind, _, name = cleaned["target"].partition(":")
        target = {"study": name} if kind == "study" else {"study": "", "run": int(name)}
        return {**target, "scores": True, **{key: cleaned[key] for key in ("lower", "licence", "source")}}


_RUNS_LISTED = 200
_OF_QUESTION = re.compile(r"(low|high|low_label|high_label|reversed)-")


class ImportForm(forms.Form):
    """Study of a file's conversations, scales, and control bots."""

    study = forms.CharField(
        label="Study key",
        max_length=60,
        widget=forms.TextInput(attrs={"autocapitalize": "none", "spellcheck": "false"}),
        help_text="Name of the study in addresses, such as my-study. A new study is created if the key does not exist.",
    )
    language = forms.CharField(
        label="Language",
        required=False,
        max_length=20,
        help_text="Language code, such as en or de. Leave empty to detect the language of each conversation.",
    )
    licence = forms.CharField(label="Licence", required=False, max_length=200, help_text="Such as CC-BY-4.0.")
    source = forms.CharField(
        label="Source", required=False, max_length=500, help_text="Address or citation of the data."
    )
    accept = forms.BooleanField(
        label="The suggested scales (in grey) match my questionnaire",
        required=False,
        help_text=(
            "They are guessed from the answers. If you leave this unticked, an empty scale is inferred from the "
            "answers and does not limit intervals."
        ),
    )

    def __init__(
        self,
        data: Mapping[str, Any] | None,
        *,
        contents: FileContents,
        study: str,
        questions: Mapping[str, Mapping[str, Any]] | None = None,
        entered: Mapping[str, Any] | None = None,
    ) -> None:
        """Make the form.

        Args:
            questions: scales and directions of the mapping, as in `FileMapping`.
            entered: values entered before the preview was updated.
        """
        initial = {"study": study, "controls": sorted(contents.controls - contents.real)}
        for key, row in (questions or {}).items():
            low, high = row.get("scale") or ("", "")
            direction = DirectionField.name_of(row.get("reversed"))
            initial |= {f"low-{key}": low, f"high-{key}": high, f"reversed-{key}": direction}
        names = ("study", "language", "licence", "source")
        entered_values = {
            name: text for name, text in (entered or {}).items() if name in names or _OF_QUESTION.match(name)
        }
        super().__init__(data, initial={**initial, **entered_values})
        self.proposals = {key: proposed_scale(ends) for key, ends in contents.seen.items()}
        self.seen, self.opposed = contents.seen, contents.opposed
        for key, ends in self.proposals.items():
            for name, value in zip(("low", "high"), ends, strict=True):
                widget = forms.NumberInput(attrs={"placeholder": f"{value:g}", "step": "any"})
                self.fields[f"{name}-{key}"] = forms.FloatField(label=name, required=False, widget=widget)
                self.fields[f"{name}_label-{key}"] = forms.CharField(
                    label=f"label at {name}", required=False, max_length=200
                )
            self.fields[f"reversed-{key}"] = DirectionField(label="direction")
        if not contents.first:  # a data package, which states its scales and languages
            for name in ("language", "licence", "source"):
                del self.fields[name]
        if contents.first and contents.bots and len(contents.bots) <= _CONTROLS_LISTED:
            self.fields["controls"] = forms.MultipleChoiceField(
                label="Controls",
                choices=[(bot, f"{bot} ({n:,})") for bot, n in sorted(contents.bots.items())],
                required=False,
                widget=forms.CheckboxSelectMultiple,
            )
        styled(self)

    def questions(self) -> list[dict[str, Any]]:
        """Return a row of fields for each question."""
        names = ("low", "low_label", "high", "high_label", "reversed")
        return [
            {
                "key": key,
                "seen": self.seen[key],
                "fields": [self[f"{name}-{key}"] for name in names],
                "opposed": share(self.opposed[key]) if key in self.opposed else "",
            }
            for key in self.proposals
        ]

    def clean_study(self) -> str:
        """Reject a key that cannot be part of an address."""
        key = self.cleaned_data["study"].strip()
        if not re.fullmatch(r"[-\w]+", key, re.ASCII):
            example = key_from_name(key, 60) or "my-study"
            raise forms.ValidationError(
                f"“{key}” is not a valid key. Use only unaccented letters, digits, - and _, such as “{example}”."
            )
        return key

    def clean_language(self) -> str:
        """Reject anything but a language code."""
        try:
            return language_checked(self.cleaned_data["language"])
        except Refused as refused:
            raise forms.ValidationError(refused.message) from None

    def clean(self) -> dict[str, Any]:
        """Check that each scale has both ends in order, or none."""
        cleaned = self.cleaned_data
        for key, proposal in self.proposals.items():
            low, high = cleaned.get(f"low-{key}"), cleaned.get(f"high-{key}")
            if low is None and high is None and cleaned.get("accept"):
                low, high = proposal
            if (low is None) != (high is None):
                self.add_error(f"low-{key}", f"{key}: enter both ends of the scale, or neither.")
            elif low is not None and high is not None and not low < high:
                self.add_error(
                    f"low-{key}", f"{key}: the lowest answer ({low:g}) must be smaller than the highest ({high:g})."
                )
            cleaned[f"low-{key}"], cleaned[f"high-{key}"] = low, high
        return cleaned

    def question_choices(self) -> dict[str, Any]:
        """Return scale and direction of each question, for a saved mapping; the form must be valid."""
        cleaned = self.cleaned_data
        rows = {
            key: {"scale": [cleaned[f"low-{key}"], cleaned[f"high-{key}"]], "reversed": cleaned[f"reversed-{key}"]}
            for key in self.proposals
        }
        return {key: row if row["scale"][0] is not None else {"reversed": row["reversed"]} for key, row in rows.items()}

    def choices(self) -> dict[str, Any]:
        """Return the choices as fields of `ImportParams`; the form must be valid."""
        cleaned = self.cleaned_data
        scales = {key: (cleaned[f"low-{key}"], cleaned[f"high-{key}"]) for key in self.proposals}
        labels = {key: [cleaned[f"low_label-{key}"], cleaned[f"high_label-{key}"]] for key in self.proposals}
        return {
            "language": cleaned.get("language", ""),
            "scales": FileScales.read({key: ends for key, ends in scales.items() if ends[0] is not None}).texts(),
            "labels": {key: words for key, words in labels.items() if any(words)},
            "reversed": [key for key in self.proposals if cleaned[f"reversed-{key}"]],
            "higher": [key for key in self.proposals if cleaned[f"reversed-{key}"] is False],
            "controls": cleaned.get("controls"),
            "licence": cleaned.get("licence", ""),
            "source": cleaned.get("source", ""),
        }
