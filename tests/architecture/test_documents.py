"""Every block of README and the documentation is tested, or says why not; and the site is built without network."""

import ast
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.core.management.base import CommandError

from chatbots.training.config import TrainingConfig
from chatbots.validation import values_read
from chatbots.yaml_registry import configured_bots
from evaluation.metrics.registry import configured_metrics
from tests.documents import ROOT, Block, blocks_all, blocks_tested, inline_commands, words_of
from webapp.command_line import SHORT, _Commands, commands_described
from webapp.studies.study_file import study_example, study_file_made, study_file_text

READ = ("bots.yaml", "metrics.yaml", "study", "training", "settings", "conversation")


def reads(test: str) -> bool:
    """Return whether a test, or what it uses of its file, calls `blocks_tested` with the test's own id."""
    path, _, name = test.partition("::")
    made: dict[str, ast.stmt] = {}
    for node in ast.parse((ROOT / path).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            made[node.name] = node
        elif isinstance(node, ast.Assign):
            made |= {target.id: node for target in node.targets if isinstance(target, ast.Name)}
    assert name in made, f"{path} has no {name}"
    used, looked_at = {name}, list[ast.AST]()
    while new := [made.pop(one) for one in used & made.keys()]:
        looked_at += [inner for node in new for inner in ast.walk(node)]
        used |= {node.id for node in looked_at if isinstance(node, ast.Name)}
        used |= {node.arg for node in looked_at if isinstance(node, ast.arg)}  # its fixtures
    texts = {node.value for node in looked_at if isinstance(node, ast.Constant)}
    return test in texts and "blocks_tested" in used


@pytest.mark.parametrize("block", blocks_all(), ids=lambda block: block.place)
def test_every_block_is_tested_or_says_why_not(block: Block) -> None:
    if block.how in ("not", "arguments"):
        assert len(block.reason) > 8, "a reason that a reader accepts"
    elif block.how.startswith("tests/"):
        assert reads(block.how), f"{block.how} does not ask for blocks_tested of itself"
    else:
        ways = ("commands", "notebook", *READ)
        assert block.how in ways, "above it goes a comment <!-- tested: WAY -->; tests/documents.py has the ways"
    if block.language == "text":
        assert not re.search(r"^(confab|python|make|manage\.py) ", block.text, re.MULTILINE)


@pytest.mark.parametrize(
    "block", [one for one in blocks_all() if one.language == "bash"], ids=lambda block: block.place
)
def test_commands_take_the_arguments_shown(block: Block) -> None:
    for words in filter(None, map(words_of, block.commands)):
        name, *given = words
        if name != "--help":
            command = _Commands(["confab", name]).fetch_command(name)
            # Exits, and so fails, for an argument that the command does not take.
            command.create_parser("confab", name).parse_args([*SHORT.get(name, ())[1:], *given])
        for named in re.findall(r"\S+/configs/\S+", " ".join(given)):
            assert (ROOT / named).is_file(), named


def test_commands_within_sentences_take_the_arguments_shown() -> None:
    names = {*commands_described(), *SHORT, *(command for command, *_ in SHORT.values())}
    result = inline_commands(names)
    assert len(result) >= 10
    for inline in result:
        for name, *given in inline.written:
            command = _Commands(["confab", name]).fetch_command(name)
            parser = command.create_parser("confab", name)
            parser.allow_abbrev = False
            for group in parser._mutually_exclusive_groups:
                group.required = False
            for action in parser._actions:
                # A sentence may name a part of the command; KEY and ID stand for a reader's own.
                action.required, action.type = False, None
                if not action.option_strings:
                    action.nargs = "*"
                elif action.nargs is None:
                    action.nargs = "?"
            try:
                parser.parse_args(given)
            except (SystemExit, CommandError) as refusal:
                pytest.fail(f"{inline.place}: {inline.text}: {refusal}")


@pytest.mark.parametrize(("how", "reader"), [("bots.yaml", configured_bots), ("metrics.yaml", configured_metrics)])
def test_entries_shown_are_entries(how: str, reader: Any, tmp_path: Path) -> None:
    for block in blocks_tested(how):
        file = tmp_path / how
        file.write_text(block.text, encoding="utf-8")
        read = reader.read(file)
        assert [str(one) for one in read.broken] == [], block.place
        assert len(read.objects) == len(yaml.safe_load(block.text))


def test_a_study_s_questions_shown_are_a_study_s() -> None:
    for block in blocks_tested("study"):
        study_file_made({**yaml.safe_load(study_file_text(study_example("chat"))), **yaml.safe_load(block.text)})


def test_a_part_of_a_training_shown_is_one() -> None:
    whole = ROOT / "chatbots/training/configs/table9/reddit-vhred-ei.yaml"
    for block in blocks_tested("training"):
        plain = yaml.safe_load(whole.read_text(encoding="utf-8"))
        for key, values in yaml.safe_load(block.text).items():
            plain[key] = {**plain[key], **values}
        values_read(TrainingConfig, plain)


def test_settings_shown_are_settings() -> None:
    known = set(re.findall(r"^#? ?([A-Z_]+)=", (ROOT / ".env.example").read_text(), re.MULTILINE))
    for block in blocks_tested("settings"):
        assert set(re.findall(r"^([A-Z_]+)=", block.text, re.MULTILINE)) <= known


def test_a_conversation_shown_is_read(tmp_path: Path) -> None:
    import confab

    for block in blocks_tested("conversation"):
        file = tmp_path / "talk.jsonl"
        file.write_text(json.dumps(json.loads(block.text)) + "\n", encoding="utf-8")
        read = confab.read(file)
        assert (len(read.conversations), len(read.ratings)) == (1, 1)


@pytest.mark.slow
def test_the_site_is_built_without_network_and_takes_nothing_from_elsewhere(tmp_path: Path) -> None:
    # No proxy answers there, so that whatever asked for the network would fail.
    env = {"PATH": "/usr/bin:/bin", "http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9"}
    build = [sys.executable, "-m", "sphinx", "--quiet", "--nitpicky", "--fail-on-warning"]
    done = subprocess.run([*build, "docs", str(tmp_path)], cwd=ROOT, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    pages = {str(page.relative_to(tmp_path)): page.read_text(encoding="utf-8") for page in tmp_path.rglob("*.html")}
    docs = ROOT / "docs"
    written = {str(path.relative_to(docs).with_suffix(".html")) for path in docs.rglob("*.md")}
    assert written <= set(pages)
    for name, page in pages.items():
        taken = re.findall(r"<(?:script|img|link|iframe)\b[^>]*(?:src|href)=\"([^\"]+)\"", page)
        assert [one for one in taken if re.match(r"(https?:)?//", one)] == [], name
    for sheet in tmp_path.rglob("*.css"):
        assert not re.search(r"(url\(|@import)\s*[\"']?(https?:)?//", sheet.read_text())
