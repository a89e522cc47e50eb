"""Facts with one home: lengths of fields in templates, sentences of refusals, levels of confidence."""

import ast
import re
from collections import defaultdict

from tests.architecture.source import PACKAGES, ROOT

TYPED = {"webapp/dashboard/templates/dashboard/builder/bots.html": "the message of the cards, which no form receives"}
"""Templates with a number as length, and why no code has it."""


def test_templates_take_lengths_from_the_code_that_enforces_them() -> None:
    for path in (ROOT / "webapp").rglob("*.html"):
        if str(path.relative_to(ROOT)) not in TYPED:
            lengths = re.findall(r'maxlength="\d+"', path.read_text(encoding="utf-8"))
            assert not lengths, f"{path}: {lengths}; use {{% limit %}} or {{% field_limit %}}"


def test_a_refusal_has_its_sentence_in_one_place() -> None:
    places = defaultdict(set)
    for path in sorted((ROOT / "webapp").rglob("*.py")):
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "Refused" and len(call.args) == 2:
                [code, sentence] = call.args
                if isinstance(sentence, ast.Call) and sentence.args and isinstance(sentence.args[0], ast.Constant):
                    places[ast.unparse(code), sentence.args[0].value].add(str(path.relative_to(ROOT)))
    repeated = {refusal: files for refusal, files in places.items() if len(files) > 1}
    assert not repeated, "give it a name in webapp/studies/refusals.py or StartRefusal"


def test_levels_of_confidence_have_one_home() -> None:
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            if path.name == "constants.py" or "published" in path.parts:
                continue
            levels = re.findall(r"^_?LEVEL = 0?\.9\d*", path.read_text(encoding="utf-8"), re.MULTILINE)
            assert not levels, f"{path}: import it from evaluation/stats/constants.py"
