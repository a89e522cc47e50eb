"""Every reason that an analysis gives has its words."""

from __future__ import annotations

import ast

from evaluation.reasons import Reason
from tests.architecture.source import modules
from webapp.dashboard.wording.reasons import FRAGMENTS, said


def test_every_code_in_the_source_has_words() -> None:
    codes = {
        ast.literal_eval(node.args[0])
        for package in ("evaluation", "webapp")
        for module in modules(package)
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "Reason"
        and isinstance(node.args[0], ast.Constant)
    }
    codes |= {"always_lowest", "always_highest"}
    assert codes == set(FRAGMENTS)


def test_numbers_and_names_stand_in_the_words() -> None:
    assert said(Reason("few_bots", "", n_bots=1)) == "ratings of 1 bot; at least 2 are needed"
    assert said(Reason("too_many_raters", "", most=10_000)) == "more than 10,000 raters per bot"
    assert said(None) == ""
