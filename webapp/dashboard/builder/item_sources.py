"""Sources of items and conversations: files, studies, runs, and the sample."""

from __future__ import annotations

from typing import Any

from django import forms
from django.db.models import Count

from webapp.bots.selectors import bot_entry_list
from webapp.conversations.models import Conversation
from webapp.core.language import plural
from webapp.dashboard.builder.forms import section_fields
from webapp.jobs.models import SelfPlayRun
from webapp.jobs.selectors.item_scores import item_score_titles
from webapp.studies.helped_draws import item_pool, read_item_scores
from webapp.studies.models import Item, Study
from webapp.studies.protocols.base import protocols
from webapp.studies.selectors import conversations_given

_RUNS_LISTED = 30


def items_judged(study: Study) -> Any:
    """Return the items that participants rate, without checks among them."""
    return Item.objects.filter(study=study, purpose=Item.Purpose.JUDGED)


class ItemDrawForm(forms.Form):
    """Form to draw items: source conversations, and bots that reply to them."""

    source = forms.ChoiceField(label="Draw from")
    n_contexts = forms.IntegerField(label="Number of items", min_value=1, max_value=100_000, initial=100)
    n_utterances = forms.IntegerField(label="Utterances of context", min_value=1, max_value=100, initial=3)
    more_than_tokens = forms.IntegerField(
        label="Context longer than", min_value=0, initial=10, help_text="In words and punctuation marks."
    )
    bots = forms.MultipleChoiceField(label="Bots that reply", required=False, widget=forms.CheckboxSelectMultiple)

    def __init__(self, *args: Any, study: Study, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.study = study
        self.label_suffix = ""
        self.fields["source"].choices = item_sources()  # type: ignore[attr-defined]
        self.fields["bots"].choices = [  # type: ignore[attr-defined]
            (entry.id, entry.name) for entry in bot_entry_list() if entry.available
        ]
        n_replies = protocols.get(study.protocol).n_replies if study.protocol in protocols else None
        self.fields["bots"].help_text = {
            None: "Select none to rate the original reply.",
            2: "Select two or more; each pair of them is compared.",
        }.get(
            n_replies,
            f"{n_replies} or more: each person sees {n_replies} of the replies. None: each item has {n_replies} whole "
            "chats of different bots, in the same condition; utterances and length of a context do not matter then.",
        )
        for name in ("source", "n_contexts", "n_utterances", "more_than_tokens"):
            self.fields[name].widget.attrs["class"] = "input"

    def build_payload(self) -> dict[str, Any]:
        """Return the params of the job; the form must be valid."""
        job_params = dict(self.cleaned_data)
        kind, _colon, name = job_params.pop("source").partition(":")
        source = {"run": int(name)} if kind == "run" else {"of_study": name}
        return {"study": self.study.key, **source, **job_params}


def item_sources() -> list[tuple[str, str]]:
    """Return finished studies with chats and self-play runs, as choices.

    Studies need finished chats; runs must be done.
    """
    study_counts = (
        Conversation.objects.filter(study__isnull=False, state=Conversation.State.COMPLETED, is_synthetic=False)
        .order_by()
        .values("study__key", "study__name")
        .annotate(n=Count("pk"))
    )
    choices = [
        (f"study:{row['study__key']}", f"{row['study__name']} ({row['n']} {plural(row['n'], 'chat', 'chats')})")
        for row in sorted(study_counts, key=lambda row: row["study__name"])
    ]
    runs = SelfPlayRun.objects.filter(state=SelfPlayRun.State.DONE).order_by("-pk")
    for run in runs[:_RUNS_LISTED]:
        chats = plural(run.n_done, "%(n)d conversation", "%(n)d conversations")
        choices.append((f"run:{run.pk}", f"{run.title} ({chats % {'n': run.n_done}})"))
    return choices


_STUDY_SOURCE = {"conversations_of", "dialogues_of"}
_RUN_SOURCE = {"conversations_run", "dialogues_run"}


def conversation_count(study: Study) -> int:
    """Count the conversations that the study's participants can rate."""
    return conversations_given(study).count()


def source_fields(section: str, study: Study) -> dict[str, forms.Field]:
    """Return the fields of a section, with choices of conversation sources."""
    fields = section_fields(section)
    if section == "helping":
        return _helper_fields(study, fields)
    known = [(*address.partition(":")[::2], title) for address, title in item_sources()]
    values = study.values.flat()
    for name in fields.keys() & (_STUDY_SOURCE | _RUN_SOURCE):
        kind = "study" if name in _STUDY_SOURCE else "run"
        choices = [(key, title) for source_kind, key, title in known if source_kind == kind and key != study.key]
        chosen = str(values[name] or "")
        if chosen and chosen not in dict(choices):
            choices.append((chosen, chosen))
        fields[name] = (
            _study_field(study, choices, fields[name]) if name in _STUDY_SOURCE else _run_field(choices, fields[name])
        )
    return fields


def _helper_fields(study: Study, fields: dict[str, forms.Field]) -> dict[str, forms.Field]:
    """Return the fields of the helper with choices of scores that the items can have.

    The text below a field says how many items lack a score by the chosen one.
    """
    titles, pool = item_score_titles(study), item_pool(study)
    for name, field in fields.items():
        chosen, empty = getattr(study.values.helping, name), {"helper": "No help"}.get(name, "Not known")
        choices = [("", empty), *titles.items(), *([(chosen, chosen)] if chosen and chosen not in titles else [])]
        help_text = str(field.help_text)
        if chosen:
            n_lacking = len(pool.keys() - read_item_scores(study, chosen).scores.keys())
            help_text = f"Items without a value: {n_lacking:,} of {len(pool):,}. {help_text}"
        fields[name] = forms.ChoiceField(label=field.label, choices=choices, required=False, help_text=help_text)
    return fields


def _study_field(study: Study, choices: list[tuple[str, str]], field: forms.Field) -> forms.Field:
    n = study.conversations.filter(state="completed").count()
    own_title = plural(n, "This study’s own (%(n)d)", "This study’s own (%(n)d)") % {"n": n}
    return forms.ChoiceField(
        label=field.label,
        choices=[("", own_title), *choices],
        required=False,
        help_text="Its finished chats or imported conversations are rated.",
    )


def _run_field(choices: list[tuple[str, str]], field: forms.Field) -> forms.Field:
    return forms.TypedChoiceField(
        label=field.label,
        choices=[("", "None"), *choices],
        required=False,
        coerce=int,
        empty_value=None,
        help_text="Its conversations are rated instead of a study’s.",
    )
