"""Compare what an outsider sees with stored text, and write it again when asked.

`SNAPSHOTS=write .venv/bin/python -m pytest tests/outside` stores what is seen now; look at the difference before it
is committed.
"""

import difflib
import json
import math
import os
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "snapshots"
_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e[-+]?\d+)?(?![\w.])")
_CHANGING = (
    (re.compile(r"\b[0-9a-f]{32,}\b"), "DIGEST"),
    (re.compile(r"\b\d+(?:\.\d+)? ?(?:ms|MB|GB|KiB|MiB|kB)\b"), "AMOUNT"),
    (re.compile(r"\b[pir][0-9a-f]{16}\b"), "PSEUDONYM"),
    (re.compile(r"\bAB\d{6}\b"), "CODE"),
    (re.compile(r"/tmp/[\w./-]*/"), "FOLDER/"),
    # Django's `naturaltime` reads the real clock, which no test stops.
    (re.compile(r"(?:an?|\d+) (?:minute|hour|day|week|month|year)s?(?:, \d+ \w+)? ago"), "TIME ago"),
    (re.compile(r"in \d+(?:\.\d+)? s\b"), "in SECONDS"),
)


def steady(text: str) -> str:
    """Replace what differs from run to run: digests, pseudonyms, folders, sizes and durations."""
    for pattern, name in _CHANGING:
        text = pattern.sub(name, text)
    return text


class _Words(HTMLParser):
    """Text of a page, a line for each block, with the names of its controls."""

    SKIPPED = {"script", "style", "template", "svg"}
    BLOCKS = {
        *("p", "div", "li", "tr", "h1", "h2", "h3", "h4", "section", "article", "form", "label"),
        *("button", "summary", "option", "td", "th", "dt", "dd", "nav", "main", "header", "footer"),
        *("br", "caption", "fieldset", "legend", "figure", "figcaption", "details", "ul", "ol", "table"),
    }
    NAMED = ("aria-label", "placeholder", "title", "alt")

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.lines: list[str] = [""]
        self.hidden = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in self.SKIPPED:
            self.hidden += 1
        if tag in self.BLOCKS:
            self.lines.append("")
        if not self.hidden:
            self.lines[-1] += "".join(f" [{v}]" for k, v in attrs if k in self.NAMED and v)

    def handle_endtag(self, tag: str) -> None:
        if tag in self.SKIPPED:
            self.hidden -= 1
        if tag in self.BLOCKS:
            self.lines.append("")

    def handle_data(self, data: str) -> None:
        if not self.hidden:
            self.lines[-1] += data


def words_of(page: str) -> str:
    """Extract the words of a page's main part, a line for each block, without markup."""
    main = re.search(r"<main\b.*</main>", page, flags=re.DOTALL)
    parser = _Words()
    parser.feed(main[0] if main else page)
    lines = (" ".join(line.split()) for line in parser.lines)
    return steady("\n".join(line for line in lines if line))


def rounded(value: Any, digits: int = 6) -> Any:
    """Round all numbers within a JSON value to so many significant digits."""
    if isinstance(value, float):
        return float(f"{value:.{digits}g}")
    if isinstance(value, dict):
        return {key: rounded(one, digits) for key, one in value.items()}
    if isinstance(value, list):
        return [rounded(one, digits) for one in value]
    return value


def as_text(value: Any) -> str:
    """Write a JSON value so that a difference is a line."""
    return steady(json.dumps(rounded(value), indent=1, ensure_ascii=False, sort_keys=True))


def same_numbers(kept: str, seen: str) -> bool:
    """Return True if two texts differ in nothing but the last digits of numbers.

    Encoders compute in single precision, and in another order on another processor: 0.319775 is rounded up or down.
    """
    if _NUMBER.split(kept) != _NUMBER.split(seen):
        return False
    pairs = zip(_NUMBER.findall(kept), _NUMBER.findall(seen), strict=True)
    return all(math.isclose(float(a), float(b), rel_tol=1e-4, abs_tol=1e-6) for a, b in pairs)


def compare(name: str, seen: str) -> None:
    """Fail with the difference where a snapshot says something else."""
    file = FOLDER / name
    seen = seen.rstrip("\n") + "\n"
    if os.environ.get("SNAPSHOTS") == "write":
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(seen, encoding="utf-8")
        return
    assert file.exists(), f"there is no snapshot {name}; SNAPSHOTS=write makes it"
    text = file.read_text(encoding="utf-8")
    if seen != text and not (name.startswith("results/") and same_numbers(text, seen)):
        lines = difflib.unified_diff(text.splitlines(), seen.splitlines(), "stored", "seen", lineterm="", n=1)
        raise AssertionError(f"{name} has changed:\n" + "\n".join(list(lines)[:120]))


def compare_parts(folder: str, parts: dict[str, str]) -> None:
    """Compare texts with the snapshots of a folder, one file each; fail with all differences.

    Args:
        folder: folder of the snapshots. `SNAPSHOTS=write` deletes files that belong to no part.
        parts: text of each part by its name: a page's address within its folder, or a table's name.
    """
    texts = {part_file_name(part): text for part, text in parts.items()}
    assert len(texts) == len(parts), "two parts have the same file"
    stale = {file.name for file in (FOLDER / folder).glob("*")} - set(texts)
    differences = []
    if os.environ.get("SNAPSHOTS") == "write":
        for name in stale:
            (FOLDER / folder / name).unlink()
    else:
        differences += [f"{folder}/{name} belongs to no part" for name in sorted(stale)]
    for name, text in texts.items():
        try:
            compare(f"{folder}/{name}", text)
        except AssertionError as difference:
            differences.append(str(difference))
    assert not differences, "\n\n".join(differences)


def part_file_name(part: str) -> str:
    """Return the file name of a part: `results_why_models.txt` for `results/why/?part=models`."""
    words = re.findall(r"[\w.-]+", re.sub(r"\w+=", "", part))
    return "_".join(words or ["start"]) + ".txt"
