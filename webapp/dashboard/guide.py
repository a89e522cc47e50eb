"""Pages of the guide in the dashboard, rendered from the documentation's Markdown."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from posixpath import normpath

from django.urls import reverse
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt

from chatbots.installation import INSTALLATION_ROOT, IS_CHECKOUT

FOLDER = INSTALLATION_ROOT / "docs" if IS_CHECKOUT else Path(__file__).parent / "docs"
"""The documentation; `setup.py` copies its pages into the wheel."""
FIRST = "guide/start"
_PLACES = {
    "guide/start#from-nothing-to-a-link": "start study_first",
    "guide/reading#the-tour": "home tour",
    "guide/reading#read-conversations": "bot_imported run_conversations study_conversations conversation",
    "guide/reading#star-tag-annotate-and-compare-conversations": "side_by_side",
    "guide/reading#from-a-number-to-its-conversations": "study_spread run_spread study_point",
    "guide/reading#leaderboard": "study_results study_results_picture",
    "guide/reading#language-models-as-judges": "judges",
    "guide/reading#develop-a-judge": "judge_developments judge_development",
    "guide/reading#report-and-share": "study_report",
    "guide/studies": "studies study",
    "guide/studies#study-protocols": "study_new",
    "guide/studies#while-a-study-collects": "study_people study_console study_person",
    "guide/studies#a-study-as-a-file": "study_file_upload study_gold study_new_file",
    "guide/studies#versions-and-fixed-settings": "study_versions study_build study_delete",
    "guide/studies#erasing-a-participant": "study_person_erase",
    "guide/studies#questions-before-and-after-the-task": "questions",
    "guide/studies#recruiting-on-prolific-and-mechanical-turk": "pay study_pay_decide",
    "guide/studies#languages-and-checks": "texts checks check",
    "guide/conditions": "conditions",
    "guide/sittings": "sittings",
    "guide/bots": "bots bot general",
    "guide/bots#add-a-bot-in-the-browser": "bot_new bot_edit",
    "guide/simulated_participants": "simulate study_simulated",
    "guide/publishing#2-personal-data-in-texts": "study_redaction",
    "guide/publishing#1-the-datasheet": "study_datasheet",
    "guide/operating#the-page-jobs": "job jobs",
    "guide/operating#the-page-system": "system",
    "guide/operating#alerts": "alerts",
    "guide/production#rights": "people settings tokens secrets person_change",
    "guide/projects": "projects",
    "guide/audit": "audit",
    "guide/audit#retention": "retention",
    "background/hybrid_metric": "study_prediction runs_compare",
    "background/replacement": "study_replacement",
    "background/intervals#models-by-a-formula": "study_why",
    "background/results#metrics-of-single-replies": "benchmark benchmark_cell benchmark_paper",
    "background/results#single-replies": "benchmark_replies benchmark_reply",
    "background/results#published-results": "benchmark_published",
    "reference/metrics": "metrics",
    "guide/importing": "imports import_file",
    "reference/data_formats": "study_items",
    "reference/commands": "runs run",
}
GUIDE_OF = {route: guide for guide, routes in _PLACES.items() for route in routes.split()}
"""Page of the guide by the name of a route, or of a step of the builder."""
_LEFT_OUT = re.compile(r"<!--.*?-->\n?|!\[[^\]]*\]\([^)]*\)\n?", re.DOTALL)
_PARSER = MarkdownIt("commonmark", {"html": False}).enable("table")


@dataclass(frozen=True, slots=True)
class GuidePage:
    """Page of the guide.

    Attributes:
        html: its text below the title.
        anchors: ids of its headings.
    """

    name: str
    title: str
    html: SafeString
    anchors: tuple[str, ...]


def guide_address(place: str) -> str:
    """Return the address of a page, or of a heading as in `guide/reading#leaderboard`."""
    name, _hash, anchor = place.partition("#")
    return reverse("dashboard:guide", args=[name]) + (f"#{anchor}" if anchor else "")


@lru_cache(maxsize=1)
def guide_titles() -> dict[str, str]:
    """Return the title of every page by name, those of the guide first."""
    files = sorted(FOLDER.rglob("*.md"), key=lambda file: (file.parent.name != "guide", str(file)))
    pages = [file for file in files if file.stem != "index" and file.parent.name != "decisions"]
    return {
        str(file.relative_to(FOLDER).with_suffix("")): _read(file).partition("\n")[0].removeprefix("# ")
        for file in pages
    }


@lru_cache(maxsize=64)
def render_guide(name: str) -> GuidePage:
    """Return a page of the guide.

    Raises:
        KeyError: there is no page of this name.
    """
    title = guide_titles()[name]
    env: dict[str, str] = {}
    tokens = _PARSER.parse(_read(FOLDER / f"{name}.md").partition("\n")[2], env)
    anchors = []
    for token, following in zip(tokens, [*tokens[1:], None], strict=True):
        if token.type == "heading_open" and following is not None:
            words = "".join(child.content for child in following.children or [])
            anchors.append(re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-"))
            token.attrSet("id", anchors[-1])
        elif token.type == "table_open":
            token.attrSet("class", "table")
        for child in token.children or []:
            if child.type == "link_open":
                child.attrSet("href", _link(str(child.attrGet("href")), name))
    html = _PARSER.renderer.render(tokens, _PARSER.options, env)
    scroller = '<div class="table-scroll" tabindex="0">'
    html = html.replace("<table", f"{scroller}<table").replace("</table>", "</table></div>")
    html = html.replace("<pre>", '<pre tabindex="0">')
    return GuidePage(name, title, mark_safe(html), tuple(anchors))  # noqa: S308  our own files


def _read(file: Path) -> str:
    return _LEFT_OUT.sub("", file.read_text(encoding="utf-8")).lstrip()


def _link(target: str, name: str) -> str:
    """Return the address for a link of a page: pages of the guide by their address here."""
    path, _hash, anchor = target.partition("#")
    place = normpath(f"{name}/../{path.removesuffix('.md')}") if path else name
    if "://" in target or place not in guide_titles():
        return target
    return guide_address(f"{place}#{anchor}")
