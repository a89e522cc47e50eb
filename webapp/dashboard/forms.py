"""Forms for self-play runs, metrics, hybrid fits, exports and imports."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from django import forms
from django.conf import settings
from django.utils.text import capfirst

from chatbots.registry import UnknownName
from evaluation.analysis.formula_model import RESPONSE
from evaluation.hybrid.bot_level import PREFERRED_INTERCEPT
from evaluation.stats.formulas import MOST_CHARACTERS
from webapp.bots.selectors import BotEntry
from webapp.core.authentication import LONGEST_TOKEN_DAYS
from webapp.core.errors import Refused
from webapp.core.rights import Right
from webapp.jobs.models import SELF_PLAY, SelfPlayRun
from webapp.jobs.selectors.metrics import imported_metrics
from webapp.jobs.selectors.simulation import participant_choices
from webapp.jobs.services.simulation import simulation_create
from webapp.ratings.flag_selectors import without_read
from webapp.ratings.selectors import as_counted, dimensions_led, study_dimensions, study_whole
from webapp.results.benchmark import BenchmarkMetric, benchmark_uploads
from webapp.results.formula_models import ModelParams, formula_columns, model_params, usual_terms
from webapp.results.judge_versions import MOST_PROMPT_CHARS, MOST_REASON_CHARS, MOST_WORDING_CHARS
from webapp.results.judges import JudgesParams, judge_list, rated_studies
from webapp.results.models import JudgeDevelopment, JudgeVersion
from webapp.studies.bot_columns import LIMIT_BYTES
from webapp.studies.models import Study
from webapp.studies.selectors import factors_of_study
from webapp.transfer.report_links import LONGEST_DAYS as SHARE_LONGEST_DAYS
from webapp.transfer.report_links import LONGEST_NAME
from webapp.transfer.writers import FORMATS

UPLOAD_LIMIT_MB: int = settings.CONFAB_UPLOAD_LIMIT_MB

Choices = Sequence[tuple[str, Any]]


def styled(form: forms.Form) -> None:
    """Style text fields and selects like the pages."""
    form.label_suffix = ""
    for field in form.fields.values():
        if isinstance(field.widget, forms.TextInput | forms.NumberInput | forms.Textarea | forms.Select):
            field.widget.attrs.setdefault("class", "input")


class SelfPlayForm(forms.Form):
    """The plan of a self-play run."""

    name = forms.CharField(label="Name", required=False, max_length=200)
    bots = forms.MultipleChoiceField(label="Bots", widget=forms.CheckboxSelectMultiple)
    pairs = forms.ChoiceField(
        label="Chat partners", choices=[("self", "itself"), ("all", "itself and other bots")], required=False
    )
    n_conversations = forms.IntegerField(
        label=("Conversations per bot or pair"), min_value=1, max_value=100_000, initial=100
    )
    n_turns = forms.IntegerField(label="Turns per conversation", min_value=1, max_value=1000, initial=10)
    seed = forms.IntegerField(label="Seed", initial=2026, min_value=-(2**63), max_value=2**63 - 1)
    study = forms.ChoiceField(
        label="Reply filters", required=False, help_text="Matches of this study’s filters are marked, but not blocked."
    )
    openers = forms.CharField(
        label="Openers, one per line",
        required=False,
        max_length=50_000,
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text="Leave empty to let the bot begin with an empty context.",
    )
    metrics = forms.BooleanField(label="Compute all metrics afterwards", required=False, initial=True)

    def __init__(
        self, *args: Any, entries: Iterable[BotEntry], studies: Iterable[tuple[str, str]], **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.fields["bots"].choices = [(e.id, e.name) for e in entries if e.available]  # type: ignore[attr-defined]
        usual = "defaults of a new study"
        self.fields["study"].choices = [("", usual), *studies]  # type: ignore[attr-defined]
        styled(self)

    def clean_pairs(self) -> str:
        """Return the `pairs` of `run_create`.

        Without the field "self", each bot chats with itself.
        """
        return self.cleaned_data["pairs"] or "self"

    def clean_openers(self) -> list[str]:
        """Return the lines that are not blank."""
        return [line.strip() for line in self.cleaned_data["openers"].splitlines() if line.strip()]


class SimulationForm(forms.Form):
    """The plan of a run of simulated participants."""

    study = forms.ChoiceField(
        label="Study", help_text=("Lengths, openings and conditions are taken from this study’s participants.")
    )
    participant = forms.ChoiceField(label="Participant", choices=participant_choices, initial="retrieval")
    n_conversations = forms.IntegerField(label="Conversations per bot", min_value=1, max_value=100_000, initial=100)
    bots = forms.CharField(
        label="Bots",
        required=False,
        max_length=10_000,
        help_text=("IDs separated by commas. Leave empty for the study’s bots."),
    )
    n_exchanges = forms.IntegerField(
        label="Exchanges",
        min_value=1,
        max_value=1000,
        required=False,
        help_text=("Leave empty to use the same lengths as people."),
    )
    seed = forms.IntegerField(label="Seed", initial=2026, min_value=-(2**63), max_value=2**63 - 1)
    max_cost = forms.FloatField(
        label="Cost limit",
        min_value=0,
        max_value=1e9,
        required=False,
        help_text="For bots with prices. The run stops before it exceeds this limit.",
    )
    may_leave = forms.BooleanField(label="Allow participants to leave early", required=False)

    def __init__(self, *args: Any, studies: Iterable[Study], **kwargs: Any) -> None:
        """Build the form.

        A single study needs no field to choose it.
        """
        super().__init__(*args, **kwargs)
        self.studies = {study.key: study for study in studies}
        self.fields["study"].choices = [  # type: ignore[attr-defined]
            (key, study.name or key) for key, study in self.studies.items()
        ]
        if len(self.studies) == 1:
            del self.fields["study"]
        styled(self)

    def create_run(self, user: Any) -> SelfPlayRun | None:
        """Start the run, or add errors and return None."""
        if not self.is_valid():
            return None
        data = dict(self.cleaned_data)
        study = self.studies[data.pop("study", next(iter(self.studies)))]
        bots = [name for part in data.pop("bots").split(",") if (name := part.strip())]
        try:
            return simulation_create(
                study=study, participants=[data.pop("participant")], bots=bots, created_by=user, **data
            )
        except (Refused, UnknownName) as error:
            self.add_error(None, str(error))
            return None


class FitForm(forms.Form):
    """Form with the params of a hybrid fit."""

    targets = forms.MultipleChoiceField(
        label="Target", widget=forms.CheckboxSelectMultiple, help_text="Several targets are averaged."
    )
    preset = forms.ChoiceField(label="Preset")
    intercept = forms.ChoiceField(
        label="Intercept",
        choices=[("common", "common to all folds"), ("fold", "separate for each fold, as in the paper")],
        initial=PREFERRED_INTERCEPT,
    )
    run = forms.ModelChoiceField(
        label="Predict self-play run",
        queryset=SelfPlayRun.objects.filter(SELF_PLAY, state=SelfPlayRun.State.DONE),
        required=False,
        empty_label="none",
    )
    imported = forms.MultipleChoiceField(
        label="Imported metrics as features",
        widget=forms.CheckboxSelectMultiple,
        required=False,
        help_text="They are added to the features of the preset. Every bot needs values.",
    )
    without_controls = forms.BooleanField(label="Exclude control bots", required=False)
    include_synthetic = forms.BooleanField(label="Include scripted participants (rehearsals only)", required=False)

    def __init__(self, *args: Any, study: Study, presets: Choices, **kwargs: Any) -> None:
        """Build the form.

        Args:
            study: study whose dimensions can be predicted and whose factors can be chosen.
            presets: feature sets, as choices.
        """
        super().__init__(*args, **kwargs)
        self.fields["targets"].choices = study_targets(study)  # type: ignore[attr-defined]
        self.fields["preset"].choices = presets  # type: ignore[attr-defined]
        self.fields["targets"].initial = list(study_whole(study))
        self.fields["imported"].choices = [  # type: ignore[attr-defined]
            (metric.name, metric.title) for metric in imported_metrics(study)
        ]
        self.factors = factors_of_study(study)
        for factor in self.factors:
            levels = [(f"{factor.key}={level.key}", level.title) for level in factor.levels]
            self.fields[f"condition_{factor.key}"] = forms.ChoiceField(
                label=factor.title, choices=[("", "all levels"), *levels], required=False
            )
        styled(self)

    def condition_fields(self) -> list[forms.BoundField]:
        """Return a field for each factor of the study."""
        return [self[f"condition_{factor.key}"] for factor in self.factors]

    def condition(self) -> list[str]:
        """Return the chosen levels, such as `scenario=trip`."""
        return [level for field in self.condition_fields() if (level := self.cleaned_data[field.name])]


class TokenForm(forms.Form):
    """A new token of the API."""

    name = forms.CharField(label="Name", max_length=100, help_text="For example “CI of my bot”.")
    rights = forms.MultipleChoiceField(
        label="Permissions", widget=forms.CheckboxSelectMultiple, initial=[Right.READ.value]
    )
    days = forms.IntegerField(
        label="Days until it expires",
        min_value=1,
        max_value=LONGEST_TOKEN_DAYS,
        initial=90,
        required=False,
        help_text="Leave empty for no expiry.",
    )

    def __init__(self, *args: Any, rights: Choices, **kwargs: Any) -> None:
        """Build the form.

        Args:
            rights: the user's rights, as choices.
        """
        super().__init__(*args, **kwargs)
        self.fields["rights"].choices = rights  # type: ignore[attr-defined]
        styled(self)


class ShareForm(forms.Form):
    """A new link to a report."""

    name = forms.CharField(
        label="Recipient", max_length=LONGEST_NAME, help_text=("For example “Reviewers of the paper”.")
    )
    days = forms.IntegerField(
        label="Days until it expires",
        min_value=1,
        max_value=SHARE_LONGEST_DAYS,
        initial=90,
        required=False,
        help_text="Leave empty for no expiry.",
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        styled(self)


class FlagsField(forms.CharField):
    """Flags whose participants are excluded, such as `fast,pasted`.

    The value is a tuple of their names.
    """

    def clean(self, value: Any) -> tuple[str, ...]:
        try:
            return without_read(super().clean(value))
        except UnknownName as error:
            raise forms.ValidationError(str(error)) from None


class ExportForm(forms.Form):
    """Form of an export: table, format, and content."""

    what = forms.ChoiceField()
    format = forms.ChoiceField(choices=[(name, name) for name in FORMATS])
    include_synthetic = forms.BooleanField(required=False)
    include_failed = forms.BooleanField(required=False)
    include_private = forms.BooleanField(required=False)
    is_redacted = forms.BooleanField(required=False)
    without = FlagsField(required=False)
    q = forms.CharField(required=False)

    def __init__(self, *args: Any, tables: Choices, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["what"].choices = tables  # type: ignore[attr-defined]


class PackageForm(forms.Form):
    """Form of a data package's additional content."""

    include_synthetic = forms.BooleanField(required=False)
    include_failed = forms.BooleanField(required=False)
    include_private = forms.BooleanField(required=False)
    include_images = forms.BooleanField(required=False)
    is_redacted = forms.BooleanField(required=False)
    without = FlagsField(required=False)


class BenchmarkForm(forms.Form):
    """Data set, and metrics to compare with its ratings.

    It is either a study with its replies, or a file of rated ones.
    """

    study = forms.ChoiceField(label="Study", required=False)
    file = forms.FileField(
        label="Or a file of rated replies",
        required=False,
        widget=forms.FileInput(attrs={"accept": ".jsonl,.gz", "class": "input"}),
        help_text="One JSON object per line, in the format of the command “export --what judged”.",
    )
    judged = forms.FileField(
        label="Choices of a judge",
        required=False,
        widget=forms.FileInput(attrs={"accept": ".csv", "class": "input"}),
        help_text=(
            "Optional, for a study that compares two replies or chats: the CSV file written by “judge_pairs --output”."
        ),
    )
    metrics = forms.MultipleChoiceField(
        label="Metrics", widget=forms.CheckboxSelectMultiple, error_messages={"required": "Choose at least one metric."}
    )

    def __init__(self, *args: Any, metrics: Sequence[BenchmarkMetric], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        studies = Study.objects.order_by("name").values_list("key", "name")
        self.fields["study"].choices = [("", "none"), *studies]  # type: ignore[attr-defined]
        available = [metric for metric in metrics if not metric.reason]
        choices = [(metric.name, metric.title) for metric in available]
        self.fields["metrics"].choices = choices  # type: ignore[attr-defined]
        self.fields["metrics"].initial = [metric.name for metric in available if metric.is_usual]
        styled(self)

    def clean_file(self) -> Any:
        """Reject large files and other file types."""
        file = self.cleaned_data["file"]
        if file is None:
            return None
        if not file.name.lower().endswith((".jsonl", ".jsonl.gz")):
            raise forms.ValidationError(f"“{file.name}” is not a .jsonl or .jsonl.gz file.")
        check_size(file)
        return file

    def clean_judged(self) -> Any:
        """Reject large files and other file types."""
        file = self.cleaned_data["judged"]
        if file is None:
            return None
        if not file.name.lower().endswith(".csv"):
            raise forms.ValidationError(f"“{file.name}” is not a .csv file.")
        check_size(file)
        return file

    def clean(self) -> dict[str, Any]:
        """Check that there is one data set, and choices only with a study.

        A judge's choices need a study.
        """
        cleaned = super().clean() or self.cleaned_data
        if cleaned.get("judged") is not None and not cleaned.get("study"):
            self.add_error(
                "judged", "Choices of a judge are compared with those of participants. Choose the study as well."
            )
        if "file" in cleaned and bool(cleaned.get("study")) == (cleaned["file"] is not None):
            raise forms.ValidationError("Choose either a study or a file.")
        return cleaned


class JudgesForm(forms.Form):
    """A gold set and judges."""

    gold = forms.ChoiceField(
        label="Human ratings", help_text="A study, or a file uploaded under “Metrics against human ratings”."
    )
    question = forms.CharField(
        label="Question", required=False, help_text=("Key of the question. Leave empty for the default question.")
    )
    expertise = forms.ChoiceField(
        label="Raters",
        choices=[("expert", "experts"), ("skilled", "skilled"), ("crowd", "crowd workers")],
        initial="skilled",
        help_text=(
            "As judges cost less, they may be worse than experts by .2, skilled raters by .15 and crowd workers by .1."
        ),
    )
    most = forms.IntegerField(label="Instances", min_value=30, max_value=10_000, initial=300)
    run = forms.ChoiceField(
        label=("Additional run to score"), required=False, help_text="Shows how useful scores of this run are."
    )
    judges = forms.MultipleChoiceField(
        widget=forms.CheckboxSelectMultiple,
        help_text=("Judges from metrics.yaml (kind: judge), and bots based on a language model."),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        studies = [(f"study:{study.key}", study.name) for study in rated_studies()]
        files = [(f"file:{upload.file}", upload.title) for upload in benchmark_uploads()]
        runs = [(str(run.pk), str(run)) for run in SelfPlayRun.objects.order_by("-pk")[:50]]
        usable = [(judge.name, judge.title) for judge in judge_list() if judge.unavailable_reason() is None]
        for name, choices in {"gold": studies + files, "run": [("", "none"), *runs], "judges": usable}.items():
            self.fields[name].choices = choices  # type: ignore[attr-defined]
        styled(self)

    def to_params(self) -> JudgesParams:
        """Return the request."""
        data = dict(self.cleaned_data)
        gold = data.pop("gold")
        kind, _colon, name = gold.partition(":")
        title = dict(self.fields["gold"].choices)[gold] if kind == "file" else ""  # type: ignore[attr-defined]
        return JudgesParams.model_validate({**data, kind: name, "title": title, "run": int(data["run"] or 0) or None})


class _OneErrorForm(forms.Form):
    """Form whose first error is shown as a message."""

    def first_error(self) -> str:
        """Return the first error with the label of its field."""
        name, errors = next(iter(self.errors.items()))
        return f"{self.fields[name].label or name}: {errors[0]}" if name in self.fields else str(errors[0])


class DevelopmentForm(JudgesForm):
    """A gold set, the judge to develop, and the share of test items."""

    judge = forms.ChoiceField(label="Judge", help_text="Its model, scale and prompt are the first version.")
    test_percent = forms.IntegerField(
        label="Test items, %", min_value=10, max_value=90, initial=50, help_text="Drawn at random and then fixed."
    )
    most = forms.IntegerField(label="Instances", min_value=30, max_value=1_000, initial=300)
    field_order = ("gold", "question", "judge", "test_percent", "most")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["judge"].choices = self.fields["judges"].choices  # type: ignore[attr-defined]
        for name in ("judges", "run", "expertise"):
            del self.fields[name]
        styled(self)

    def to_arguments(self) -> dict[str, Any]:
        """Return the arguments of `development_start`."""
        data = self.cleaned_data
        self.cleaned_data = {**data, "judges": (data["judge"],), "run": "", "expertise": "skilled"}
        share = self.cleaned_data.pop("test_percent") / 100
        del self.cleaned_data["judge"]
        return {"params": self.to_params(), "test_share": share}


class VersionForm(_OneErrorForm):
    """The next version of a judge in development."""

    judge = forms.ChoiceField(label="Model", help_text="Judge whose model and scale it uses.")
    prompt = forms.CharField(
        label="Prompt", max_length=MOST_PROMPT_CHARS, widget=forms.Textarea(attrs={"rows": 10, "spellcheck": "false"})
    )
    wording = forms.CharField(label="Question", max_length=MOST_WORDING_CHARS, widget=forms.Textarea(attrs={"rows": 2}))
    examples = forms.TypedMultipleChoiceField(
        coerce=int, required=False, widget=forms.CheckboxSelectMultiple, label="Corrections as examples"
    )

    def __init__(self, development: JudgeDevelopment, version: JudgeVersion | None, *args: Any) -> None:
        super().__init__(*args)
        self.fields["judge"].choices = [  # type: ignore[attr-defined]
            (judge.name, judge.title) for judge in judge_list() if judge.unavailable_reason() is None
        ]
        corrected = development.items.filter(score__isnull=False)
        self.fields["examples"].choices = [  # type: ignore[attr-defined]
            (item.pk, f"{item.score:g}: {item.reason or 'no reason'} ({item.key[:40]})") for item in corrected
        ]
        if version is not None:
            self.initial = {name: getattr(version, name) for name in ("judge", "prompt", "wording")}
            self.initial["examples"] = [item.pk for item in corrected]
        styled(self)


class CorrectionForm(_OneErrorForm):
    """Correction of a judge's score; an empty score removes it."""

    item = forms.IntegerField(min_value=1, max_value=2**62)
    score = forms.FloatField(label="Right score", required=False)
    reason = forms.CharField(label="Reason", required=False, max_length=MOST_REASON_CHARS)


def check_size(file: Any) -> None:
    """Reject an uploaded file that is too large."""
    if file.size > UPLOAD_LIMIT_MB * 1024 * 1024:
        raise forms.ValidationError(
            f"The file has {round(file.size / 1024 / 1024)} MB, but the limit is {UPLOAD_LIMIT_MB} MB."
        )


class BotColumnsForm(forms.Form):
    """A table of bots, as CSV."""

    file = forms.FileField(
        label="File",
        widget=forms.FileInput(attrs={"accept": ".csv", "class": "input"}),
        error_messages={
            "required": "Choose a CSV file first.",
            "empty": "The file is empty. The first line must be a header such as bot,perplexity.",
        },
    )

    def clean_file(self) -> Any:
        """Reject what cannot be a table of bots before reading it."""
        file = self.cleaned_data["file"]
        if file.size > LIMIT_BYTES:
            raise forms.ValidationError(
                "The file has {size} bytes, but the limit for a table of bots is {limit}.".format(
                    size=f"{file.size:,}", limit=f"{LIMIT_BYTES:,}"
                )
            )
        return file


class PlanForm(forms.Form):
    """A difference to plan for."""

    difference = forms.FloatField(label="Difference of interest, in points", required=False, min_value=1e-6)
    power = forms.FloatField(label="Power", required=False, min_value=0.2, max_value=0.99, initial=0.8)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        styled(self)


class FormulaForm(forms.Form):
    """Formula of a model: outcome, terms and kind.

    `columns` are the names that a formula can use.
    """

    outcome = forms.CharField(max_length=MOST_CHARACTERS)
    terms = forms.CharField(label="Terms", max_length=MOST_CHARACTERS, widget=forms.TextInput(attrs={"size": 50}))
    kind = forms.ChoiceField(label="Kind", choices=[("linear", "Linear mixed"), ("ordinal", "Ordinal (logit)")])

    def __init__(self, study: Study, data: Any = None) -> None:
        self.study, self.columns = study, formula_columns(study)
        led = dimensions_led(study_dimensions(study), study_whole(study))
        outcomes = [(dimension.key if n else RESPONSE, dimension.title) for n, dimension in enumerate(led)]
        super().__init__(data, initial={"terms": usual_terms(study)})
        self.fields["outcome"].widget = forms.Select(choices=outcomes)
        styled(self)

    @property
    def model(self) -> ModelParams | None:
        """Requested model; None: the default one."""
        return self.cleaned_data.get("model") if self.is_bound and self.is_valid() else None

    def clean(self) -> dict[str, Any]:
        """Parse the formula.

        An error names the invalid word and the columns.
        """
        cleaned = self.cleaned_data
        model_parts = [cleaned.get(name) for name in ("outcome", "terms", "kind")]
        if all(model_parts) and model_parts != [RESPONSE, self.initial["terms"], "linear"]:
            try:
                cleaned["model"] = model_params(self.study, f"{model_parts[0]} ~ {model_parts[1]}", cleaned["kind"])
            except Refused as error:
                self.add_error("terms", capfirst(error.message))
        return cleaned


def study_targets(study: Study) -> Choices:
    """Return the rubric's dimensions as choices, the overall one first."""
    return [(dimension.key, as_counted(dimension).title) for dimension in study_dimensions(study)]
