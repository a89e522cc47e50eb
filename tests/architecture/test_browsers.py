"""Static files keep to the oldest supported browsers, which docs/reference/browsers.md names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

WEBAPP = Path(__file__).parents[2] / "webapp"
PAGE = WEBAPP.parent / "docs" / "reference" / "browsers.md"
SCRIPTS = WEBAPP / "participant" / "static" / "participant"
CLASSIC = {"watch.js", "check.js"}
OF_RESEARCHERS = {"preview.js", "preview_socket.js"}
GUARDED = {"showModal": "page.js", "requestSubmit": "page.js"}
"""Features that one file uses where they exist, and does without elsewhere."""

Versions = tuple[float, float, float]  # Chrome, Firefox, Safari
SYNTAX: dict[str, tuple[str, Versions]] = {
    "private methods": (r"^\s+(?:static |async )*#\w+\(", (84, 90, 15.0)),
    "private fields": (r"#\w+ = |^\s+#\w+;", (74, 90, 14.1)),
    "logical assignment": (r"\?\?=|\|\|=|&&=", (85, 79, 14.0)),
    "optional chaining": (r"\?\.[\w\[(]", (80, 74, 13.1)),
    "dynamic import": (r"\bimport\(", (63, 67, 11.1)),
    "static blocks": (r"\bstatic \{", (94, 93, 16.4)),
    "#x in object": (r"#\w+ in ", (91, 90, 15.0)),
    "top-level await": (r"^await |^(?:const|let) .* = await ", (89, 89, 15.0)),
    "lookbehind": (r"\(\?<[=!]", (62, 78, 16.4)),
    "flag d of regular expressions": (r"/[gimsuy]*d[gimsuy]*[.;,)]", (90, 88, 15.0)),
    "flag v of regular expressions": (r"/[gimsy]*v[gimsy]*[.;,)]", (112, 116, 17.0)),
    "import attributes": (r"import .* with \{", (123, 138, 17.2)),
    "JSON modules": (r"import .* assert \{", (91, 999, 999)),
    "import maps": (r"importmap", (89, 108, 16.4)),
}
NAMES: dict[str, Versions] = {
    "replaceChildren": (86, 78, 14.0),
    "at": (92, 90, 15.4),
    "hasOwn": (93, 92, 15.4),
    "structuredClone": (98, 94, 15.4),
    "findLast": (97, 104, 15.4),
    "findLastIndex": (97, 104, 15.4),
    "toSorted": (110, 115, 16.0),
    "toReversed": (110, 115, 16.0),
    "toSpliced": (110, 115, 16.0),
    "groupBy": (117, 119, 17.4),
    "fromAsync": (121, 115, 16.4),
    "isWellFormed": (111, 119, 16.4),
    "toWellFormed": (111, 119, 16.4),
    "withResolvers": (119, 121, 17.4),
    "isSubsetOf": (122, 127, 17.0),
    "difference": (122, 127, 17.0),
    "intersection": (122, 127, 17.0),
    "union": (122, 127, 17.0),
    "canParse": (120, 115, 17.0),
    "throwIfAborted": (100, 97, 15.4),
    "timeout": (103, 100, 16.0),
    "checkVisibility": (105, 106, 17.4),
    "showPopover": (114, 125, 17.0),
    "showPicker": (99, 101, 16.0),
    "showModal": (37, 98, 15.4),
    "requestSubmit": (76, 75, 16.0),
    "requestIdleCallback": (47, 55, 999),
    "scheduler": (94, 142, 999),
    "randomUUID": (92, 95, 15.4),
    "OffscreenCanvas": (69, 105, 16.4),
    "startViewTransition": (111, 144, 18.0),
    "setHTMLUnsafe": (124, 123, 17.4),
    "replaceAll": (85, 77, 13.1),
    "submitter": (81, 75, 15.4),
    "inert": (102, 112, 15.5),
    "scrollend": (114, 109, 26.2),
    "BroadcastChannel": (54, 38, 15.4),
}
ADDITIONS = {"randomUUID": "outbox.js", "OffscreenCanvas": "images.js", "submitter": "page.js"}
"""Features without which the named file does the same in another way, or a little less."""
STYLES: dict[str, tuple[str, Versions]] = {
    "container queries": (r"@container|container-type", (105, 110, 16.0)),
    "color-mix": (r"color-mix\(", (111, 113, 16.2)),
    "light-dark": (r"light-dark\(", (123, 120, 17.5)),
    "nesting": (r"^\s+&|^\s*& ", (120, 117, 17.2)),
    "layers": (r"@layer", (99, 97, 15.4)),
    "scopes": (r"@scope", (118, 128, 17.4)),
    "subgrid": (r"subgrid", (117, 71, 16.0)),
    "field-sizing": (r"field-sizing", (123, 999, 26.2)),
    "anchors": (r"anchor\(|position-anchor", (125, 147, 26.0)),
    "trigonometry": (r"\b(?:sin|cos|tan|atan2)\(", (111, 108, 15.4)),
    "relative colours": (r"\b(?:rgb|hsl|oklch|oklab|lch)\(from", (119, 128, 16.4)),
    "oklch": (r"oklch\(|oklab\(|\blch\(|\blab\(", (111, 113, 15.4)),
    "ranges in media queries": (r"@media[^{]*[<>]", (104, 63, 16.4)),
    "starting style": (r"@starting-style", (117, 129, 17.5)),
}


def oldest() -> dict[str, Versions]:
    """Return the versions that the documentation names, for participants and researchers."""
    rows = re.findall(r"^\| (Participants|Researchers) \| (\S+) \| (\S+) \| (\S+) \|", PAGE.read_text(), re.MULTILINE)
    return {who: (float(chrome), float(firefox), float(safari)) for who, chrome, firefox, safari in rows}


def code_of(text: str) -> str:
    """Return JavaScript without comments and strings."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    text = re.sub(r"(?<![:\"'`])//.*", "", text)
    return re.sub(r"\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'", '""', text)


def too_new(text: str, file: str, supported: Versions) -> Iterator[str]:
    """Yield the features of a script that supported browsers lack."""
    code = code_of(text)
    for feature, (pattern, versions) in SYNTAX.items():
        if re.search(pattern, code, re.MULTILINE) and any(map(float.__gt__, map(float, versions), supported)):
            yield f"{file}: {feature}"
    for name, versions in NAMES.items():
        is_used = re.search(rf"(?:\.|\bnew |\b(?=\w+\())\b{name}\b", code)
        is_ready = {**GUARDED, **ADDITIONS}.get(name) == file
        if is_used and not is_ready and any(map(float.__gt__, map(float, versions), supported)):
            yield f"{file}: {name}"


def scripts_of_participants() -> list[Path]:
    own = [path for path in SCRIPTS.glob("*.js") if path.name not in OF_RESEARCHERS]
    shared = {module(path, name) for path in own for name in imports(path) if not name.startswith("./")}
    return sorted([*own, *shared])


def imports(path: Path) -> list[str]:
    return re.findall(r'^import (?:[^"]* from )?"([^"]+)";', path.read_text(), re.MULTILINE)


def module(path: Path, name: str) -> Path:
    """Return the file of an imported module: static files of all apps are served side by side."""
    if name.startswith("../core/"):
        return WEBAPP / "core" / "static" / "core" / name.removeprefix("../core/")
    return (path.parent / name).resolve()


def test_scripts_of_participants_run_in_the_oldest_browsers() -> None:
    supported = oldest()["Participants"]
    results = [line for path in scripts_of_participants() for line in too_new(path.read_text(), path.name, supported)]
    assert results == []


def test_scripts_of_researchers_run_in_the_oldest_browsers() -> None:
    supported = oldest()["Researchers"]
    paths = sorted(path for path in WEBAPP.rglob("static/**/*.js") if "vendor" not in path.parts)
    assert paths
    assert [line for path in paths for line in too_new(path.read_text(), path.name, supported)] == []


@pytest.mark.parametrize("who", ["Participants", "Researchers"])
def test_style_sheets_hold_in_the_oldest_browsers(who: str) -> None:
    shared = [WEBAPP / "core/static/core/confab.css", *SCRIPTS.glob("*.css")]
    sheets = shared if who == "Participants" else sorted(WEBAPP.rglob("static/**/*.css"))
    for path in sheets:
        text = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.DOTALL)
        for feature, (pattern, versions) in STYLES.items():
            if any(map(float.__gt__, map(float, versions), oldest()[who])):
                assert not re.search(pattern, text, re.MULTILINE), f"{path.name}: {feature}"


def test_selectors_that_older_browsers_lack_take_no_others_along() -> None:
    """Where `:has` is unknown, its rule goes: other selectors need a rule of their own."""
    text = re.sub(r"/\*.*?\*/", "", (WEBAPP / "core/static/core/confab.css").read_text(), flags=re.DOTALL)
    mixed = []
    for selectors in re.findall(r"([^{};]+)\{", text):
        parts = [part for part in re.split(r",(?![^(]*\))", selectors) if part.strip()]
        if len({":has(" in part for part in parts}) > 1:
            mixed.append(" ".join(selectors.split()))
    assert mixed == []


def test_a_viewport_unit_that_is_new_stands_after_an_old_one() -> None:
    text = (WEBAPP / "core/static/core/confab.css").read_text()
    for line, before in zip(text.splitlines()[1:], text.splitlines(), strict=False):
        if re.match(r"\s+height: 100dvh", line):
            assert "100vh" in before


def test_classic_scripts_are_in_plain_old_syntax() -> None:
    for name in CLASSIC:
        code = code_of((SCRIPTS / name).read_text())
        assert not re.search(r"=>|`|\?\.|\?\?|\.\.\.|\b(?:const|let|class|async|await|import|export|of)\b", code), name


def test_the_consent_page_loads_every_script_that_a_chat_needs() -> None:
    def reached(path: Path) -> set[Path]:
        result, left = set[Path](), [path]
        while left:
            path = left.pop()
            new = {module(path, name) for name in imports(path)} - result
            result |= new
            left += new
        return result

    optional = {(SCRIPTS / name).resolve() for name in ("report.js", "images.js", "condition.js")}
    for page, parts in (("chat.js", "parts.js"), ("arena.js", "parts_arena.js")):
        tried = reached(SCRIPTS / parts)
        assert reached(SCRIPTS / page) == tried, f"{parts} differs from the modules of {page}"
        assert not optional & tried, "what may be missing is no reason to turn people away"


@pytest.mark.parametrize(
    ("text", "feature"),
    [
        ("const last = rows.at(-1);", "at"),
        ("form.requestSubmit();", "requestSubmit"),
        ("class A { static {", "static blocks"),
        ("const copy = structuredClone(row);", "structuredClone"),
        ("const m = /(?<=a)b/.exec(text);", "lookbehind"),
    ],
)
def test_what_is_too_new_is_found(text: str, feature: str) -> None:
    assert list(too_new(text, "chat.js", (88, 90, 15.0))) == [f"chat.js: {feature}"]


def test_what_is_said_in_a_comment_is_not() -> None:
    assert list(too_new('// rows.at(-1)\nconst words = "x.at(1)"; /* .hasOwn */', "chat.js", (88, 90, 15.0))) == []
