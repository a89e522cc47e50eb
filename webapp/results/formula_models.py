"""Regression models of ratings by a researcher's formula."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from chatbots.validation import InputModel
from evaluation.analysis.formula_model import BASIC, RESPONSE, FormulaModel, Kind, formula_model, model_frame
from evaluation.stats.formulas import parse_formula
from webapp.core.errors import Refused
from webapp.jobs.selectors.analysis_tables import bot_versions, factors_of, measured_of
from webapp.ratings.selectors import rating_contexts, study_dimensions
from webapp.results.study_data import StudyData
from webapp.studies.bot_columns import BotColumns
from webapp.studies.models import Study
from webapp.studies.protocols.base import get_protocol


class ModelParams(InputModel):
    """Parameters of a requested model."""

    formula: str
    kind: Kind = "linear"


def usual_terms(study: Study) -> str:
    """Return the default formula's right side: bots, conditions, raters, items."""
    factors = study.values.conditions.factors
    is_crossed = not any(level.bots for factor in factors for level in factor.levels)
    fixed = "".join(f"{'+*'[is_crossed and not n]:^3}{_column(factor.key)}" for n, factor in enumerate(factors))
    items = " + (1|item)" if get_protocol(study).judges_items or get_protocol(study).marks_turns else ""
    return f"bot{fixed} + (1|rater){items}"


def formula_columns(study: Study) -> list[str]:
    """Return the columns for formulas: questions, conditions, bot factors, raters."""
    versions, bot_columns = bot_versions(study), BotColumns.from_json(study.bot_columns)
    known = [factor.key for factor in study.values.conditions.factors if not get_protocol(study).judges_items]
    known += [*factors_of(versions, bot_columns), *measured_of(versions, bot_columns)]
    questions = [dimension.key for dimension in study_dimensions(study)]
    return list(dict.fromkeys([RESPONSE, *questions, *BASIC, *map(_column, known)]))


def model_params(study: Study, formula: str, kind: Kind = "linear") -> ModelParams:
    """Parse the requested model.

    Raises:
        Refused: `bad_formula`, with the wrong word and the available columns.
    """
    try:
        parse_formula(formula, formula_columns(study))
    except ValueError as error:
        raise Refused("bad_formula", str(error)) from None
    return ModelParams(formula=formula, kind=kind)


def study_model(data: StudyData, params: ModelParams | None = None) -> FormulaModel:
    """Fit a model to a study's ratings, by default the standard one.

    Raises:
        Refused: `bad_formula`.
    """
    params = params or ModelParams(formula=f"{RESPONSE} ~ {usual_terms(data.study)}")
    # Several replies share an item, also after the study has ended.
    ratings = replace(data.ratings, context=rating_contexts(data.study, data.ratings.conversation.tolist()))
    ratings = replace(ratings, condition={_column(name): levels for name, levels in ratings.condition.items()})
    known: dict[str, Mapping[str, str | float]] = {**data.bot_columns, **data.factors}
    of_bots = {_column(name): levels for name, levels in known.items()}
    try:
        return formula_model(model_frame(ratings, factors=of_bots), params.formula, kind=params.kind, ratings=ratings)
    except ValueError as error:
        raise Refused("bad_formula", str(error)) from None


def _column(name: str) -> str:
    """Return a name as a valid identifier for formulas."""
    return re.sub(r"\W|^(?=\d)", "_", name)
