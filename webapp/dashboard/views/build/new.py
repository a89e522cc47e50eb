"""A new study: what people do, its name, and the key in their link."""

from __future__ import annotations

from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods

from chatbots.outside import ValuesError
from webapp.core.rights import Right
from webapp.dashboard.access import needs
from webapp.dashboard.context import page
from webapp.studies.checks import RESERVED_KEYS
from webapp.studies.examples import study_example
from webapp.studies.importing import study_import
from webapp.studies.languages import LANGUAGES
from webapp.studies.protocols.base import StudyProtocol, protocols
from webapp.studies.selectors import study_found, study_key_free


class NewStudyForm(forms.Form):
    """Protocol, name, language and key; without a key one is made of the name."""

    protocol = forms.ChoiceField(label="What do people do?", widget=forms.RadioSelect)
    name = forms.CharField(
        label="Name",
        max_length=200,
        help_text="For you and your colleagues; people who take part never see it.",
        widget=forms.TextInput(attrs={"class": "input", "autocomplete": "off"}),
    )
    language = forms.ChoiceField(
        label="Language",
        choices=list(LANGUAGES.items()),
        required=False,
        help_text="Of everything that participants read; the first texts and questions are in it.",
        widget=forms.Select(attrs={"class": "input"}),
    )
    key = forms.SlugField(
        label="Key",
        max_length=60,
        required=False,
        help_text="Stands in the link that people get: letters, digits, - and _.",
        widget=forms.TextInput(
            attrs={"class": "input", "autocomplete": "off", "autocapitalize": "none"}
        ),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.label_suffix = ""
        self.fields["protocol"].choices = [(one.name, one.title) for one in protocols]  # type: ignore[attr-defined]

    def clean(self) -> dict[str, Any]:
        """Make a key of the name where none was written; one that is taken is said."""
        cleaned = super().clean() or self.cleaned_data
        cleaned["language"] = cleaned.get("language") or "en"
        if not cleaned.get("key") and cleaned.get("name") and "key" not in self.errors:
            cleaned["key"] = study_key_free(cleaned["name"], RESERVED_KEYS)
        elif cleaned.get("key") and study_found(cleaned["key"]):
            self.add_error(
                "key", "“{key}” is another study’s. Choose another key.".format(**cleaned)
            )
        return cleaned


@require_http_methods(["GET", "HEAD", "POST"])
@needs(Right.ADMINISTER)
def study_new(request: HttpRequest) -> HttpResponse:
    """Ask what a new study is, and make its draft."""
    form = NewStudyForm(request.POST or None, initial={"protocol": "chat", "language": "en"})
    if request.method == "POST" and form.is_valid():
        given = form.cleaned_data
        try:
            # The protocol's own example, without what is chosen in the builder.
            own = {"key": given["key"], "name": given["name"], "bots": (), "items": ()}
            file = study_example(given["protocol"], given["language"]).model_copy(update=own)
            made = study_import(file=file, author=request.user.get_username())
        except ValuesError as error:
            for mistake in error.mistakes:
                form.add_error(mistake.path if mistake.path in form.fields else None, str(mistake))
        else:
            return redirect("dashboard:study_build_step", made.study.key, "bots")
    return page(
        request,
        "build/new.html",
        "studies",
        form=form,
        groups=_groups(form["protocol"].value()),
    )


_HEADINGS = {
    "bots": "People talk to chatbots",
    "items": "People judge replies",
    "conversations": "People judge whole conversations",
    "": "People choose from a list",
}


def _groups(chosen: str) -> list[tuple[str, list[tuple[StudyProtocol, bool]]]]:
    """Return the protocols below what people are given, each with whether it is chosen; the usual one first."""
    found: dict[str, list[tuple[StudyProtocol, bool]]] = {name: [] for name in _HEADINGS}
    for one in sorted(protocols, key=lambda one: one.name != "chat"):
        found["" if one.has_one_item else one.gives].append((one, one.name == chosen))
    return [(str(_HEADINGS[name]), of_it) for name, of_it in found.items() if of_it]
