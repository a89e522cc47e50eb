"""Sources of the conversations to rate: a study, a self-play run, a file, or the sample."""

from __future__ import annotations

from typing import Any

from django import forms

from webapp.core.errors import Refused
from webapp.core.speaking import plural
from webapp.dashboard.build.fields import section_fields
from webapp.dashboard.build.items import item_sources
from webapp.dashboard.forms import UPLOAD_LIMIT_MB
from webapp.studies.models import Study
from webapp.studies.selectors import conversations_given
from webapp.transfer.services import language_checked

_ENDINGS = (".jsonl", ".jsonl.gz", ".csv")
WAITED_FOR_MB = 5
"""A larger file is imported by a worker, from the page of imports."""
_OF = {"conversations_of", "dialogues_of"}
_RUN = {"conversations_run", "dialogues_run"}


class ConversationFileForm(forms.Form):
    """A file of conversations."""

    file = forms.FileField(
        label="File of conversations",
        help_text="One conversation a line, as JSON: dialogue_id, bot, and turns, each with speaker (human or bot) "
        "and text.",
        widget=forms.FileInput(attrs={"accept": ".jsonl,.gz,.csv", "class": "input"}),
    )
    language = forms.CharField(
        label="Language",
        required=False,
        max_length=20,
        help_text="Its code, such as en or de. Left empty, each conversation's words tell it.",
        widget=forms.TextInput(attrs={"class": "input", "autocomplete": "off"}),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.label_suffix = ""

    def clean_file(self) -> Any:
        """Refuse what is too large to wait for or has another ending."""
        file = self.cleaned_data["file"]
        if not file.name.lower().endswith(_ENDINGS):
            words = "“%(name)s” is no .jsonl, .jsonl.gz or .csv file."
            raise forms.ValidationError(words % {"name": file.name})
        most = min(WAITED_FOR_MB, UPLOAD_LIMIT_MB)
        if file.size > most * 1_000_000:
            words = "The file has more than %(most)d MB. Bring it in on the page Imports."
            raise forms.ValidationError(words % {"most": most})
        return file

    def clean_language(self) -> str:
        """Refuse what is no code of a language."""
        try:
            return language_checked(self.cleaned_data["language"])
        except Refused as refused:
            raise forms.ValidationError(refused.message) from None


def conversation_count(study: Study) -> int:
    """Count the conversations that people of the study are given to judge."""
    return conversations_given(study).count()


def source_fields(section: str, study: Study) -> dict[str, forms.Field]:
    """Return the fields of a section, with lists to choose from for where its conversations come from."""
    fields = section_fields(section)
    known = [(*one.partition(":")[::2], title) for one, title in item_sources()]
    values = study.values.flat()
    for name in fields.keys() & (_OF | _RUN):
        kind = "study" if name in _OF else "run"
        found = [(key, title) for what, key, title in known if what == kind and key != study.key]
        chosen = str(values[name] or "")
        if chosen and chosen not in dict(found):
            found.append((chosen, chosen))
        fields[name] = (
            _of_study(study, found, fields[name]) if name in _OF else _of_run(found, fields[name])
        )
    return fields


def _of_study(study: Study, found: list[tuple[str, str]], field: forms.Field) -> forms.Field:
    n = study.conversations.filter(state="completed").count()
    own = plural(n, "This study’s own (%(n)d)", "This study’s own (%(n)d)") % {"n": n}
    return forms.ChoiceField(
        label=field.label,
        choices=[("", own), *found],
        required=False,
        help_text="Its finished chats are judged, or what an import brought into it.",
    )


def _of_run(found: list[tuple[str, str]], field: forms.Field) -> forms.Field:
    return forms.TypedChoiceField(
        label=field.label,
        choices=[("", "None"), *found],
        required=False,
        coerce=int,
        empty_value=None,
        help_text="Its conversations are judged in place of a study’s.",
    )
