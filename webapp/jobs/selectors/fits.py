"""Queries for hybrid fits, validation of requests, and input tables.

Everything that a request names must exist before anything is stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from django.db.models import QuerySet

from chatbots.bots.person import PERSON
from chatbots.text import nearest_names, quote
from evaluation.findings import Finding, finding
from evaluation.hybrid.features import LENGTHS
from webapp.conversations.models import Conversation
from webapp.core.errors import Refused
from webapp.jobs.models import HybridFit, Job, SelfPlayRun
from webapp.jobs.selectors.analysis_tables import (
    bot_groups,
    check_computed,
    column_names,
    metric_frame,
    metrics_of_columns,
    rated_frame,
)
from webapp.jobs.selectors.metrics import language_name, measurable, metrics_all, metrics_left_out
from webapp.ratings.models import Rating
from webapp.ratings.selectors import study_ratings
from webapp.studies.assignment.capacity import keeps_always_valid
from webapp.studies.bot_columns import GROUP
from webapp.studies.models import Study
from webapp.studies.selectors import condition_names, in_condition

if TYPE_CHECKING:
    import pandas as pd

    from evaluation.data.ratings import Ratings
    from evaluation.metrics.base import Metric


def fit_leading(study: Study, excluded_flags: Sequence[str] = ()) -> HybridFit | None:
    """Return the default fit: the newest finished one of all conditions.

    Args:
        excluded_flags: names of flags; only a fit that excludes exactly the participants with one of these counts.
    """
    return _select_leading(study, excluded_flags).defer("kept", "predictions").first()


def fit_leading_id(study: Study) -> int:
    """Return the primary key of the fit shown by default; 0 without one."""
    return _select_leading(study, ()).values_list("pk", flat=True).first() or 0


def _select_leading(study: Study, excluded_flags: Sequence[str]) -> QuerySet[HybridFit]:
    return _select_done_fits(study, excluded_flags).exclude(request__has_key="condition").order_by("-pk")


def _select_done_fits(study: Study, excluded_flags: Sequence[str]) -> QuerySet[HybridFit]:
    done = HybridFit.objects.filter(study=study, state=Job.State.DONE, result__isnull=False)
    if excluded_flags:
        return done.filter(request__without=sorted(excluded_flags))
    return done.exclude(request__has_key="without")


def fit_by_id(pk: int) -> HybridFit | None:
    """Return a fit, or None if it was deleted."""
    return HybridFit.objects.defer("kept", "predictions").filter(pk=pk).first()


def fit_rule_has_changed(fit: HybridFit) -> bool:
    """Return True if the study's significance test has changed since the fit.

    False for old fits, which did not store the test.
    """
    test = ((fit.result or {}).get("pairs") or {}).get("test")
    return test is not None and test != ("always" if keeps_always_valid(fit.study) else "fixed")


def fit_is_behind(fit: HybridFit) -> bool:
    """Return True if ratings have been added or changed since the fit.

    Pages computed from ratings then show different numbers.
    """
    changed = Rating.objects.filter(conversation__study=fit.train_study or fit.study, updated_at__gt=fit.created_at)
    if not fit.request.get("include_synthetic"):
        changed = changed.filter(conversation__is_synthetic=False)
    return changed.exists()


def fit_condition(fit: HybridFit) -> str:
    """Return the levels that a fit is restricted to, such as `scenario=trip`.

    Empty for all conditions.
    """
    return ", ".join(map("=".join, sorted(fit.request.get("condition", {}).items())))


def fits_newest(study: Study, excluded_flags: Sequence[str] = ()) -> list[HybridFit]:
    """Return the newest finished fit of each configuration.

    A configuration is a preset, target, intercept, choice of bots, run and condition. `fit_leading` comes first, fits
    within conditions last.

    A configuration is a preset, target, intercept, choice of bots, run and condition.

    A configuration is a preset, target, intercept, choice of bots, run and condition.

    `fit_leading` comes first, fits within conditions last.

    Args:
        excluded_flags: as `fit_leading`.
    """
    fits = _select_done_fits(study, excluded_flags)
    newest: dict[tuple[str, ...], HybridFit] = {}
    for fit in fits.defer("kept", "predictions").order_by("-pk"):
        request = fit.request
        newest.setdefault(
            (
                str(request.get("preset")),
                ",".join(request.get("targets") or ()),
                str(request.get("intercept")),
                ",".join(sorted(request.get("exclude_bots") or ())),
                str(fit.run_id),
                fit_condition(fit),
            ),
            fit,
        )
    return sorted(newest.values(), key=lambda fit: bool(fit_condition(fit)))


def fits_of(study: Study, n: int) -> list[HybridFit]:
    """Return the study's `n` newest fits, including unfinished ones."""
    return list(HybridFit.objects.filter(study=study).defer("kept", "predictions")[:n])


def fits_beside(studies: Sequence[Study], n: int) -> list[HybridFit]:
    """Return the `n` newest finished fits of these studies.

    Each comes with its study and its run.
    """
    done = HybridFit.objects.filter(study__in=studies, state=Job.State.DONE, result__isnull=False).select_related(
        "study", "run"
    )
    return list(done.defer("kept", "predictions").order_by("-pk")[:n])


def fit_arguments_check(
    *, study: Study, preset: str, targets: Sequence[str], features: Sequence[str], exclude_bots: Sequence[str]
) -> None:
    """Validate the names in a fit's request.

    Args:
        study: study whose ratings are fitted.

    Raises:
        Refused: `unknown_name`, with similar valid names.
    """
    from evaluation.hybrid.features import HybridError, preset_get

    try:
        preset_get(preset)
    except HybridError as error:
        raise Refused("unknown_name", str(error)) from None
    conversations = measurable(study=study, run=None)
    bots = conversations.order_by("bot__bot_id").values_list("bot__bot_id", flat=True).distinct()
    _check_names(f"bot of study {study.key}", exclude_bots, list(bots))
    dimensions: dict[str, None] = {}
    for answers in (
        Rating.objects.filter(conversation__in=conversations)
        .values_list("answers", flat=True)
        .iterator(chunk_size=2000)
    ):
        dimensions.update(dict.fromkeys(answers))
    columns = [*column_names(metrics_all()), *dimensions]
    _check_names("metric column", features, columns)
    # For a study without ratings the fit itself reports the clearer error.
    if dimensions:
        _check_names(f"rating dimension of study {study.key}", targets, list(dimensions))


def levels_read(
    requested_levels: Sequence[str], *, studies: Sequence[Study], run: SelfPlayRun | None
) -> dict[str, str]:
    """Return the requested level by factor.

    Args:
        requested_levels: as `scenario=trip`, at most one level of each factor.
        studies: whose conversations are restricted to the condition; each must vary these factors.
        run: self-play run, which must have used the condition.

    Raises:
        Refused: `unknown_name`, with the levels that exist; `bad_condition` for two levels of one factor.
    """
    for study in studies if requested_levels else ():
        names = condition_names(study)
        for level in requested_levels:
            if level not in names:
                known = f"there are: {', '.join(names)}" if names else "it has no factors"
                raise Refused("unknown_name", f"there is no condition {quote(level)} in study {study.key}; {known}")
    levels = dict(level.split("=") for level in requested_levels)
    if len(levels) < len(set(requested_levels)):
        raise Refused(
            "bad_condition",
            f"name one level of each factor: {', '.join(requested_levels)} names two levels of one factor",
        )
    run_conditions = [each["levels"] for each in run.plan.get("conditions", ())] if run is not None else []
    if levels and run is not None and not any(levels.items() <= each.items() for each in run_conditions):
        known = "; ".join(", ".join(map("=".join, each.items())) for each in run_conditions) or "no conditions"
        raise Refused(
            "unknown_name", f"run {run.pk} has no self-play with {', '.join(requested_levels)}; it has: {known}"
        )
    return levels


def people_of(studies: Sequence[Study]) -> list[str]:
    """Return the ids of human partners in these studies' conversations."""
    rows = Conversation.objects.filter(study__in=studies, bot__kind=PERSON)
    return sorted(set(rows.order_by().values_list("bot__bot_id", flat=True)))


def instrument_check(studies: Sequence[Study], targets: Sequence[str]) -> None:
    """Check that these studies word their questions identically.

    A fit compares titles, scales and labels.

    Raises:
        Refused: `other_instrument` if a question differs.
    """
    questions_by_study = [
        {dimension.key: dimension.question for dimension in study.rubric.dimensions.all()} for study in studies
    ]
    for target in targets:
        if len({questions.get(target) for questions in questions_by_study}) > 1:
            wordings = " and ".join(quote(questions.get(target, "")) for questions in questions_by_study)
            raise Refused("other_instrument", f"not the same instrument: {target} has different wordings: {wordings}")


def _check_names(noun: str, names: Sequence[str], known: list[str]) -> None:
    for name in names:
        if name not in known:
            near = nearest_names(name, known)
            hint = f"did you mean {' or '.join(near)}?" if near else f"there are: {', '.join(known)}"
            raise Refused("unknown_name", f"there is no {noun} {quote(name)}; {hint}")


CHUNK = 512


class FitTables:
    """Input tables of one fit.

    Args:
        fit: the requested fit.
        features: predictor columns.
    """

    def __init__(self, fit: HybridFit, features: Sequence[str]) -> None:
        self.fit = fit
        self.metrics = metrics_of_columns(features, fit.project_id)

    @property
    def identities(self) -> dict[str, Any]:
        """Identities of the metrics."""
        return {metric.name: metric.identity.as_dict() for metric in self.metrics}

    def selfplay(self) -> pd.DataFrame | None:
        """Return the self-play table, with lengths if computed; None without a run."""
        run = self.fit.run
        if run is None:
            return None
        check_computed(self.metrics, run=run)
        table = metric_frame(run=run, metrics=[*self.metrics, *self._lengths()])
        return self._select_rows(table, study=None, run=run)

    def rated(self, study: Study) -> tuple[pd.DataFrame, Ratings]:
        """Return the study's rated conversations and all individual ratings.

        The table includes conversation lengths and any bot groups, because the baselines use both.
        """
        request = self.fit.request
        check_computed(self.metrics, study=study)
        ratings = self._ratings(study)
        table = rated_frame(
            ratings,
            study=study,
            metrics=[*self.metrics, *self._lengths()],
            include_synthetic=request["include_synthetic"],
        )
        dimensions = list(ratings.answers)
        missing = [target for target in request["targets"] if target not in dimensions]
        if missing:
            known = f"it is rated on {', '.join(dimensions)}" if dimensions else "it has no ratings"
            raise Refused("no_target", f"study {study.key} has no ratings of {', '.join(missing)}; {known}")
        groups = bot_groups(study)
        if groups and GROUP not in table.columns:  # a rating dimension may have this name
            table[GROUP] = table["bot"].map(groups).fillna("")
        return table, ratings

    def conditions_found(self, ratings: Ratings) -> list[Finding]:
        """Return the fit's condition and the number of conditions its ratings mix."""
        names, conditions = fit_condition(self.fit), ratings.conditions
        n = 0 if conditions is None else len(set(conditions))
        within = [finding("within_condition", levels=names)] if names else []
        return within + ([finding("several_conditions", n_conditions=n)] if n > 1 else [])

    def _in_condition(self, *, study: Study | None, run: SelfPlayRun | None) -> set[str] | None:
        """Return the ids of conversations in the fit's condition.

        None for all conditions.
        """
        if not (levels := self.fit.request.get("condition")):
            return None
        rows = measurable(study=study, run=run).filter(in_condition(levels))
        return {str(pk) for pk in rows.values_list("pk", flat=True)}

    def _select_rows(self, table: pd.DataFrame, *, study: Study | None, run: SelfPlayRun | None) -> pd.DataFrame:
        """Return the rows of included bots in the fit's condition."""
        ids = self._in_condition(study=study, run=run)
        table = table[~table["bot"].isin(self.fit.request["exclude_bots"])]
        return table if ids is None else table[table["conversation"].isin(ids)]

    def _ratings(self, study: Study) -> Ratings:
        import numpy as np

        ratings = study_ratings(
            study,
            include_synthetic=self.fit.request["include_synthetic"],
            exclude_bots=self.fit.request["exclude_bots"],
            earlier_questions=True,
            without=self._excluded_flags,
        )
        ids = self._in_condition(study=study, run=None)
        return (
            ratings
            if ids is None
            else ratings.select(
                np.array([conversation_id in ids for conversation_id in ratings.conversation], dtype=bool)
            )
        )

    @property
    def _excluded_flags(self) -> Sequence[str]:
        """Flags whose participants are excluded."""
        return tuple(self.fit.request.get("without") or ())

    def _lengths(self) -> list[Metric]:
        """Return the metrics that only the baselines need."""
        names = {metric.name for metric in self.metrics}
        return [metric for metric in metrics_of_columns(list(LENGTHS)) if metric.name not in names]

    def to_apply_to(self) -> tuple[pd.DataFrame, Ratings]:
        """Return the conversations that a stored fit predicts, and all ratings.

        They are the study's rated conversations, or all of them if none is rated.
        """
        request, study = self.fit.request, self.fit.study
        check_computed(self.metrics, study=study)
        ratings = self._ratings(study)
        synthetic = request["include_synthetic"]
        if len(ratings):
            table = rated_frame(ratings, study=study, metrics=self.metrics, include_synthetic=synthetic)
        else:
            table = metric_frame(
                study=study, metrics=self.metrics, include_synthetic=synthetic, excluded_flags=self._excluded_flags
            )
            table = self._select_rows(table, study=study, run=None)
        return table, ratings


def features_held(fit: HybridFit, features: Sequence[str], *, may_leave_out: bool) -> tuple[list[str], list[Finding]]:
    """Return the features valid for the conversations' language.

    They come with a warning about the others.

    Args:
        may_leave_out: True for a new fit, which can omit features; a stored fit needs all of them.

    Raises:
        Refused: `other_language` if no feature would be left, or none may be left out.
    """
    studies = [study for study in (fit.train_study, fit.study) if study is not None]
    left_out = [skipped for study in studies for skipped in metrics_left_out(study=study)]
    left_out += metrics_left_out(run=fit.run) if fit.run is not None else []
    fully_skipped = [skipped for skipped in left_out if skipped.is_whole]
    skipped_by_name = {
        name: skipped for skipped in fully_skipped for name in column_names([skipped.metric]) if name in features
    }
    usable = [name for name in features if name not in skipped_by_name]
    languages = sorted({code for skipped in skipped_by_name.values() for code in skipped.n})
    if skipped_by_name and not (usable and may_leave_out):
        feature_names = ", ".join(skipped_by_name)
        language_names = ", ".join(map(language_name, languages))
        raise Refused(
            "other_language",
            f"{feature_names}: not valid for {language_names}, the language of the conversations; choose features "
            "that are",
        )
    if not skipped_by_name:
        return usable, []
    return usable, [finding("other_language", features=sorted(skipped_by_name), languages=languages)]


def bot_keys(fit: HybridFit) -> dict[str, list[str]]:
    """Return each bot's identity keys in the conversations of the fit's studies."""
    keys: dict[str, list[str]] = {}
    studies = [study for study in (fit.study, fit.train_study) if study is not None]
    conversations = Conversation.objects.filter(study__in=studies).order_by("bot__bot_id", "bot__key")
    for bot_id, key in conversations.values_list("bot__bot_id", "bot__key").distinct():
        keys.setdefault(bot_id, []).append(key)
    return keys
