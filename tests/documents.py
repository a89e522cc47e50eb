"""What README and the documentation site show: every block of commands, code or values, and how it is tested.

A comment above a block says how:

    <!-- tested: commands -->                run one after another by tests/journeys/test_documents.py
    <!-- tested: notebook -->                run there too, as cells of a notebook
    <!-- tested: bots.yaml -->               read by what reads such a file; also metrics.yaml, study,
                                             training, settings, conversation
    <!-- tested: tests/…::test_name -->      read from here by that test, by `blocks_tested`
    <!-- tested: arguments, REASON -->       the commands take these arguments; why they are not run
    <!-- tested: not, REASON -->             why it cannot be run
"""

import functools
import re
import shlex
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt

ROOT = Path(__file__).resolve().parents[1]
_HOW = re.compile(r"<!-- tested: (?P<how>[^,]+?)(?:, (?P<reason>.+?))? -->\s*$", re.DOTALL)
_MARKDOWN = MarkdownIt()


@dataclass(frozen=True, slots=True)
class Inline:
    """A command within a sentence.

    Attributes:
        line: where its paragraph begins, from 1.
    """

    document: str
    line: int
    text: str

    @property
    def place(self) -> str:
        return f"{self.document}:{self.line}"

    @property
    def written(self) -> list[Sequence[str]]:
        """Return its name and arguments, for `(--one | --other)` once with each."""
        head, *choices = re.split(r"[()]", re.sub(r"[…\[\]]", " ", self.text))
        ways = choices[0].split("|") if choices else [""]
        rest = " ".join(choices[1:])
        return [shlex.split(f"{head} {way} {rest}") for way in ways]


@dataclass(frozen=True, slots=True)
class Block:
    """A block of a document.

    Attributes:
        line: where it begins, from 1.
        how: what its comment says; empty without one.
        reason: why it is not run, where it is not.
    """

    document: str
    line: int
    language: str
    text: str
    how: str
    reason: str

    @property
    def place(self) -> str:
        return f"{self.document}:{self.line}"

    @property
    def commands(self) -> list[str]:
        """Return its commands, without comments and with lines joined that a backslash joins."""
        joined = self.text.replace("\\\n", " ")
        lines = [re.split(r"\s#\s", line)[0].strip() for line in joined.splitlines()]
        return [part for line in lines for part in line.split(" && ") if part]


def documents() -> list[str]:
    """Return README and the pages of the site, by their paths in the project."""
    pages = sorted((ROOT / "docs").rglob("*.md"))
    return ["README.md", *(str(path.relative_to(ROOT)) for path in pages)]


def blocks_of(document: str) -> list[Block]:
    """Return all blocks of a document but the site's own lists of pages, and what it takes from README."""
    tokens = _MARKDOWN.parse((ROOT / document).read_text(encoding="utf-8"))
    results = []
    for before, token in zip([None, *tokens], tokens, strict=False):
        if token.type not in ("fence", "code_block") or token.info.startswith(("{toctree}", "{include}")):
            continue
        marked = _HOW.search(before.content) if before and before.type == "html_block" else None
        how, reason = (marked["how"], marked["reason"] or "") if marked else ("", "")
        line = (token.map or [0])[0] + 1
        results.append(Block(document, line, token.info.strip(), token.content, how, reason))
    return results


@functools.cache
def blocks_all() -> tuple[Block, ...]:
    """Return all blocks of all documents, read once in a process."""
    return tuple(block for document in documents() for block in blocks_of(document))


def blocks_tested(how: str) -> list[Block]:
    """Return all blocks that are tested in one way, and that there are some."""
    results = [block for block in blocks_all() if block.how == how]
    assert results, f"no document has a block of {how}"
    return results


def inline_commands(names: Collection[str]) -> list[Inline]:
    """Return the commands that stand in sentences of README and the documentation.

    Args:
        names: of commands. One of them alone, without an argument, speaks of the command and is left out.
    """
    results = []
    for document in documents():
        for token in _MARKDOWN.parse((ROOT / document).read_text(encoding="utf-8")):
            for part in token.children or ():
                text = re.sub(r"^(python )?manage\.py |^confab ", "", part.content)
                name, _, arguments = text.partition(" ")
                is_called = text != part.content or "--" in arguments
                if part.type == "code_inline" and arguments and name in names and is_called:
                    results.append(Inline(document, (token.map or [0])[0] + 1, text))
    return results


def words_of(command: str) -> Sequence[str] | None:
    """Return the name and arguments of a command of Confab's own; None for another program."""
    program, *words = shlex.split(command)
    if program == "confab":
        return words
    return words[1:] if program == "python" and words[:1] == ["manage.py"] else None
