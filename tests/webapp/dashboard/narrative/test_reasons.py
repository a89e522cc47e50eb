"""Every reason that an analysis gives has its words."""

from __future__ import annotations

import ast
from string import Formatter

from evaluation.findings import Reason
from tests.architecture.source import modules
from webapp.dashboard.narrative.phrases import FRAGMENTS, reason_text


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


def test_a_reason_of_a_document_is_said_and_text_of_an_older_one_stays_as_it_is() -> None:
    reason = Reason("few_pairs", "only 2 of the 3 pairs", n_pairs=2)
    assert reason_text(reason.to_json()) == reason_text(reason) == ("only 2 of the 3 pairs that a correlation needs")
    assert reason_text("one side is constant") == "one side is constant"
    assert reason_text("{braces} in older text") == "{braces} in older text"


def test_every_fragment_takes_the_values_that_the_source_gives_it() -> None:
    """The names in a fragment's braces are keywords of every call that raises its code."""
    for package in ("evaluation", "webapp"):
        for module in modules(package):
            for call in ast.walk(module.tree):
                if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name)):
                    continue
                if call.func.id != "Reason" or not isinstance(call.args[0], ast.Constant):
                    continue
                given = {keyword.arg for keyword in call.keywords}
                if None in given:  # values handed on as a whole
                    continue
                code = str(call.args[0].value)
                wanted = {name for _text, name, *_ in Formatter().parse(FRAGMENTS[code]) if name}
                assert wanted <= given, f"{code} in {module.name}"
