"""Model formulas and their contrast columns.

A formula looks like `quality ~ bot * scenario + (1|rater) + (1|item)`. Only column names and `+ * :` are parsed;
nothing is evaluated. formulaic expands the products. A factor with k levels has k − 1 columns that sum to 0 over levels
(sum contrasts), so that the intercept is the mean of all cells and each term is tested at the average of the others. A
numeric column is centred at its mean.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np

from chatbots.registry import nearest_names
from chatbots.text import quote
from evaluation.findings import Reason

MOST_CHARACTERS = 500
MOST_TERMS = 12
MOST_LEVELS = 50
"""Maximum number of levels of a factor."""
_GROUP = re.compile(r"\(\s*1\s*\|\s*([^\W\d][\w.]*)\s*\)")
_NAME = re.compile(r"[^\W\d][\w.]*")
_FIXED = re.compile(rf"\s*{_NAME.pattern}\s*(?:[+*:]\s*{_NAME.pattern}\s*)*")


@dataclass(frozen=True, slots=True)
class Formula:
    """A model's formula.

    Attributes:
        response: column to model.
        terms: the columns of each fixed term, main effects first.
        groups: columns with a random effect for each value.
    """

    response: str
    terms: tuple[tuple[str, ...], ...]
    groups: tuple[str, ...]

    @property
    def factors(self) -> tuple[str, ...]:
        """Columns of the fixed terms."""
        return tuple(dict.fromkeys(name for term in self.terms for name in term))

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns."""
        return tuple(dict.fromkeys((self.response, *self.factors, *self.groups)))


def parse_formula(text: str, columns: Collection[str] | None = None) -> Formula:
    """Read a formula.

    Args:
        columns: available columns; None to skip the check of names.

    Raises:
        ValueError: if the formula is invalid or names an unknown column.
    """
    from formulaic.parser import DefaultFormulaParser

    if len(text) > MOST_CHARACTERS:
        raise ValueError(f"the formula has {len(text)} characters; the maximum is {MOST_CHARACTERS}")
    shape = "a formula looks like quality ~ bot * scenario + (1|rater), with column names and + * : between them"
    response, tilde, right = (part.strip() for part in text.partition("~"))
    groups = tuple(dict.fromkeys(_GROUP.findall(right)))
    # Removing the random effect from "a + (1|g) + b" leaves one + too many.
    fixed = re.sub(r"\+(\s*\+)+", "+", _GROUP.sub("", right)).strip().strip("+")
    if _GROUP.search(right) and not re.fullmatch(r"[^()]*", fixed):
        raise ValueError(f"{quote(fixed.strip())} cannot be read; {shape}")
    if not tilde or not _NAME.fullmatch(response) or not _FIXED.fullmatch(fixed):
        raise ValueError(f"{quote(text)} cannot be read; {shape}")
    if not groups:
        raise ValueError("the formula has no random effect; add (1|rater), because ratings by one rater are correlated")
    names = list(dict.fromkeys(_NAME.findall(fixed)))
    if columns is not None:
        for name in (response, *names, *groups):
            if name not in columns:
                near = nearest_names(name, list(columns))
                meant = f" (do you mean {near[0]}?)" if near else ""
                raise ValueError(f"there is no column {quote(name)}{meant}; available: {', '.join(sorted(columns))}")
    if response in (*names, *groups) or set(names) & set(groups):
        twice = response if response in (*names, *groups) else next(name for name in names if name in groups)
        raise ValueError(
            f"{quote(twice)} occurs in two roles; a column is either the rating, a factor or a random effect"
        )
    safe = {f"v{i}": name for i, name in enumerate(names)}
    renamed = _NAME.sub(lambda match: f"v{names.index(match[0])}", fixed)
    expanded = [str(term) for term in DefaultFormulaParser(include_intercept=False).get_terms(renamed)]
    terms = sorted((tuple(safe[part] for part in term.split(":")) for term in expanded), key=len)
    if len(terms) > MOST_TERMS:
        raise ValueError(f"the formula has {len(terms)} terms; the maximum is {MOST_TERMS}")
    for term in terms:
        for margin in combinations(term, len(term) - 1):
            if margin and not any(set(margin) == set(candidate) for candidate in terms):
                raise ValueError(
                    f"{':'.join(term)} also needs {':'.join(margin)} in the formula; write * to include both"
                )
    return Formula(response, tuple(terms), groups)


@dataclass(frozen=True, eq=False)
class Design:
    """Columns of the fixed terms.

    Attributes:
        x: (n, p), with the intercept first.
        terms: for each column after the first, the position of its term in the formula.
        levels: levels of each factor; numeric columns have none.
    """

    formula: Formula
    x: np.ndarray
    terms: np.ndarray
    levels: Mapping[str, tuple[str, ...]]

    def cells(self, term: tuple[str, ...]) -> list[tuple[str, ...]]:
        """Return the combinations of a term's levels; none if numeric."""
        return list(product(*(self.levels.get(name, ()) for name in term)))

    def effect(self, term: tuple[str, ...], cell: tuple[str, ...]) -> np.ndarray:
        """Return the coefficient weights, (p,), of a term's effect in a cell."""
        row = np.zeros(self.x.shape[1])
        parts = np.ones(1)
        for name, level in zip(term, cell, strict=True):
            parts = np.kron(parts, _contrasts(len(self.levels[name]))[self.levels[name].index(level)])
        row[1:][self.terms == self.formula.terms.index(term)] = parts
        return row

    def mean(self, term: tuple[str, ...], cell: tuple[str, ...]) -> np.ndarray:
        """Return the coefficient weights, (p,), of a cell's mean.

        It averages over other factors, at the mean of numeric columns.
        """
        row = np.zeros(self.x.shape[1])
        row[0] = 1.0
        level_by_factor = dict(zip(term, cell, strict=True))
        for subterm in self.formula.terms:
            if set(subterm) <= set(term):
                row += self.effect(subterm, tuple(level_by_factor[name] for name in subterm))
        return row


def _contrasts(k: int) -> np.ndarray:
    return np.vstack([np.eye(k - 1), -np.ones((1, k - 1))])


def make_design(formula: Formula, columns: Mapping[str, np.ndarray]) -> Design | Reason:
    """Return the fixed terms' columns, or the reason why they are inestimable.

    Args:
        columns: (n,) values of each factor, without gaps; numbers as float, others as object.
    """
    levels: dict[str, tuple[str, ...]] = {}
    parts: dict[str, np.ndarray] = {}
    for name in formula.factors:
        column = columns[name]
        if column.dtype.kind == "f":
            parts[name] = (column - column.mean())[:, None]
            if not parts[name].any():
                return _one_level(name)
            continue
        labels, codes = np.unique(column.astype(str), return_inverse=True)
        if len(labels) < 2:
            return _one_level(name)
        if len(labels) > MOST_LEVELS:
            text = f"{name} has {len(labels)} levels; at most {MOST_LEVELS} can be compared"
            return Reason("many_levels", text, factor=name, n_levels=len(labels), most=MOST_LEVELS)
        levels[name] = tuple(labels.tolist())
        parts[name] = _contrasts(len(labels))[codes]
    blocks, column_terms = [np.ones((len(columns[formula.response]), 1))], []
    for i, term in enumerate(formula.terms):
        empty = _empty_cell(term, levels, columns)
        if empty is not None:
            return empty
        block = np.ones((len(blocks[0]), 1))
        for name in term:
            block = (block[:, :, None] * parts[name][:, None, :]).reshape(len(block), -1)
        blocks.append(block)
        column_terms += [i] * block.shape[1]
    x = np.hstack(blocks)
    if x.shape[1] >= len(x) or np.linalg.matrix_rank(x) < x.shape[1]:
        text = "the factors cannot be separated: one is determined by the others, or there are too few ratings"
        return Reason("confounded", text)
    return Design(formula, x, np.array(column_terms), levels)


def _one_level(name: str) -> Reason:
    return Reason("one_level", f"factor {name} has only one level, so there is nothing to compare", factor=name)


def _empty_cell(
    term: tuple[str, ...], levels: Mapping[str, tuple[str, ...]], columns: Mapping[str, np.ndarray]
) -> Reason | None:
    names = [name for name in term if name in levels]
    seen = set(zip(*(columns[name].astype(str).tolist() for name in names), strict=True))
    for cell in product(*(levels[name] for name in names)):
        if names and cell not in seen:
            cell_text = ", ".join(f"{name} {level}" for name, level in zip(names, cell, strict=True))
            text = f"no rating has {cell_text}; remove {':'.join(term)} from the formula"
            return Reason("empty_cell", text, cell=cell_text, term=":".join(term))
    return None
