"""The catalogues in docs are those of the code, and every shipped thing has its line."""

import ast
import inspect
import re
from pathlib import Path
from typing import Any

import pytest
from django import forms
from django.template import Context, Template

from chatbots.extension_points import EXTENSION_POINTS as OF_CHATBOTS
from chatbots.registry import bot_list
from evaluation.extension_points import EXTENSION_POINTS as OF_EVALUATION
from evaluation.metrics.registry import metric_list
from tests.architecture.source import ROOT
from tests.documents import blocks_tested
from tests.webapp.participant import test_chat
from webapp.command_line import SHORT, commands_described
from webapp.dashboard.builder.forms import field_made
from webapp.dashboard.management.commands.docs import (
    CATALOGUES,
    DOCUMENTS,
    UnknownCatalogue,
    catalogue_fill,
    catalogue_names,
)
from webapp.extension_points import EXTENSION_POINTS as OF_WEBAPP
from webapp.studies import settings as settings_module


def test_every_catalogue_stands_somewhere() -> None:
    placed = {name for document in DOCUMENTS for name in catalogue_names((ROOT / document).read_text(encoding="utf-8"))}
    assert placed == set(CATALOGUES)


def test_a_stale_catalogue_is_made_anew_and_the_rest_left_alone() -> None:
    text = "before\n<!-- docs:bots -->\nold\n<!-- /docs:bots -->\nafter\n"
    filled = catalogue_fill(text, root=ROOT)
    assert filled.startswith("before\n<!-- docs:bots -->\n| bot |")
    assert filled.endswith("|\n<!-- /docs:bots -->\nafter\n")
    assert "old" not in filled
    assert catalogue_fill(filled, root=ROOT) == filled


def test_every_shipped_bot_and_metric_has_a_line() -> None:
    bots, metrics = (
        catalogue_fill(f"<!-- docs:{name} -->\n<!-- /docs:{name} -->", root=ROOT) for name in ("bots", "metrics")
    )
    for bot in bot_list():
        if type(bot).__module__.startswith("chatbots."):
            assert f"`{bot.name}`" in bots
    for metric in metric_list():
        if type(metric).__module__.startswith("evaluation."):
            assert f"`{metric.name}`" in metrics


def test_every_command_has_a_line_with_its_own_arguments() -> None:
    lines = catalogue_fill("<!-- docs:commands -->\n<!-- /docs:commands -->", root=ROOT)
    listed = set(re.findall(r"^\| `([a-z_]+)`", lines, re.MULTILINE))
    assert listed == {SHORT[name][0] if name in SHORT else name for name in commands_described()}
    assert "| `--study KEY --output FILE` |" in lines  # of export_study, the needed ones first
    assert "| `[--no-backup]` |" in lines  # of migrate, without those of Django's command
    assert "--json" not in lines


def test_every_short_command_is_named_beside_the_catalogue() -> None:
    page = (ROOT / "docs/reference/commands.md").read_text(encoding="utf-8").partition("<!--")[0]
    for short, (name, *arguments) in SHORT.items():
        text = " ".join([name, *arguments])
        assert re.search(rf"`(confab )?{short}`", page), short
        assert f"`{text}`" in page, text


def test_an_unknown_marker_is_refused() -> None:
    with pytest.raises(UnknownCatalogue, match="metrics"):
        catalogue_fill("<!-- docs:metriks -->\n<!-- /docs:metriks -->", root=ROOT)


def _documents() -> list[Path]:
    readmes = (ROOT / package / "README.md" for package in ("chatbots", "evaluation", "tests", "webapp"))
    return [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *readmes]


@pytest.mark.parametrize("document", _documents(), ids=lambda path: str(path.relative_to(ROOT)))
def test_links_in_the_documents_lead_somewhere(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    targets = re.findall(r"\]\((?!https?://|#|mailto:)([^)#]+)", text)
    missing = [target for target in targets if not (document.parent / target).exists()]
    assert missing == []


PATH_IN_BACKTICKS = re.compile(
    r"`((?:[a-z_]+/)+[a-z_0-9]+\.(?:py|md|html|js|css|yaml|toml|csv))(?:: ([A-Za-z_]\w*(?:, [A-Za-z_]\w*)*))?`"
)
"""A file, and names of it: `studies/start_refusals.py: StartRefusal`."""


def test_every_path_in_backticks_exists() -> None:
    """Paths in documents, docstrings and comments begin at the root or a folder below it; `var/` is made later."""
    folders = ("chatbots", "docs", "docker", "evaluation", "tests", "webapp")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix not in {"", ".pyc"}]
    parts = [path.relative_to(ROOT).parts for path in files]
    endings = {"/".join(names[start:]) for names in parts for start in range(len(names))}
    code = [path for path in files if path.suffix == ".py" and not {"tests", "migrations"} & set(path.parts)]
    texts = [path for path in (*_documents(), *code) if path.name != "CHANGELOG.md"]
    named = [
        (str(path.relative_to(ROOT)), file, names)
        for path in texts
        for file, names in PATH_IN_BACKTICKS.findall(path.read_text("utf-8"))
        if not file.startswith("var/")
    ]
    assert len(named) > 100
    assert [(path, file) for path, file, _names in named if file not in endings] == []
    missing = [
        (path, file, name)
        for path, file, names in named
        for name in re.findall(r"\w+", names)
        if not any(
            re.search(rf"\b{name}\b", home.read_text("utf-8")) for home in files if str(home).endswith(f"/{file}")
        )
    ]
    assert missing == [], "the file has no such name"


def test_every_command_and_make_target_in_the_documents_exists() -> None:
    commands = {path.stem for path in ROOT.glob("webapp/*/management/commands/*.py")}
    from django.core.management import get_commands

    commands |= set(get_commands())
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z]+):", makefile, flags=re.MULTILINE))
    for document in _documents():
        text = document.read_text(encoding="utf-8")
        assert set(re.findall(r"manage\.py ([a-z_]+)", text)) - commands == set(), document.name
        short = set(re.findall(r"^(?:    )?confab ([a-z_]+)", text, flags=re.MULTILINE))
        assert short - commands - set(SHORT) == set(), document.name
        assert set(re.findall(r"`make ([a-z]+)", text)) - targets == set(), document.name


def test_the_bot_of_the_documentation_works() -> None:
    from chatbots import Conversation, Turn
    from chatbots.registry import bots

    [block] = blocks_tested("tests/architecture/test_docs.py::test_the_bot_of_the_documentation_works")
    try:
        exec(compile(block.text, "docs/extend.md", "exec"), {"__name__": "documented_bot"})
        bot = bots.get("shouter")
        assert bot.answer([Conversation(id="1", turns=(Turn("human", "hi"),))]) == ["HI"]
        assert bot.answer([Conversation(id="2", turns=())]) == ["HELLO!"]
    finally:
        bots.discard("shouter")


def test_the_files_shown_are_those_that_tests_use() -> None:
    blocks = blocks_tested("tests/architecture/test_docs.py::test_the_files_shown_are_those_that_tests_use")
    page = (ROOT / "docs/extend.md").read_text(encoding="utf-8").splitlines()
    result = set()
    for block in blocks:
        assert block.document == "docs/extend.md"
        [file] = re.findall(r"`(.+\.py)`:", page[block.line - 4])
        assert block.text == (ROOT / file).read_text(encoding="utf-8"), f"copy {file} anew"
        result.add(file)
    plugin = {f"tests/plugin/{path.name}" for path in (ROOT / "tests/plugin").glob("*.py")}
    assert plugin - result == {"tests/plugin/__init__.py", "tests/plugin/bot.py"}


def test_the_page_lists_the_extension_points_of_the_code() -> None:
    page = (ROOT / "docs/extend.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (an? .+?) \| `(.+)` \| `@(.+)` \| `(.+)` \|$", page, re.MULTILINE)
    points = [
        (point.name, f"{point.folder}/<name>.py", point.decorator.__name__, point.contract.__name__)
        for point in (*OF_CHATBOTS, *OF_EVALUATION, *OF_WEBAPP)
    ]
    assert rows == points


def test_the_first_change_of_the_documentation_works() -> None:
    field, line, test = (
        block.text
        for block in blocks_tested("tests/architecture/test_docs.py::test_the_first_change_of_the_documentation_works")
    )
    changed: dict[str, Any] = dict(vars(settings_module))
    exec(compile(f"class Changed(Texts):\n{field}", "first_change.md", "exec"), changed)
    made = field_made("chat_tip", changed["Changed"].model_fields["chat_tip"])
    assert isinstance(made, forms.CharField)
    assert (made.label, made.max_length) == ("Tip next to the chat", 200)
    texts = changed["Changed"](chat_tip="Talk about <b>films</b>.")
    text = Template(line).render(Context({"values": {"texts": texts}})).strip()
    assert text == '<p dir="auto">Talk about &lt;b&gt;films&lt;/b&gt;.</p>'
    names = [node for node in ast.walk(ast.parse(test)) if isinstance(node, ast.Name)]
    known = {node.id for node in names if isinstance(node.ctx, ast.Store)} | {"study", "browser"}
    assert {node.id for node in names} - known <= set(vars(test_chat))


def test_the_places_of_the_first_change_exist() -> None:
    page = (ROOT / "docs/guide/first_change.md").read_text(encoding="utf-8")
    places = re.findall(r"`((?:webapp|tests)/[\w/.]+)`", page)
    assert len(places) > 5
    assert [place for place in places if not (ROOT / place).exists()] == []
    assert "\n    thanks_text: " in inspect.getsource(settings_module.Texts)
    chat = ROOT / "webapp/participant/templates/participant/chat.html"
    assert "Good to know" in chat.read_text(encoding="utf-8")
