"""`docs [--check]`: rebuilds the catalogues of bots, metrics and settings.

They are Markdown tables made from the code, between `<!-- docs:NAME -->` and `<!-- /docs:NAME -->`. Only what ships
with Confab is listed, without the bots and metrics of this installation's `bots.yaml` and plug-ins.
"""

from __future__ import annotations

import inspect
import re
from argparse import Action, ArgumentParser
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import get_commands, load_command_class
from django.core.management.base import BaseCommand, CommandError

from chatbots.registry import bot_list
from chatbots.remote_models import remote_list
from chatbots.text import quote
from chatbots.yaml_registry import bot_kinds, kind_parameters
from evaluation.data.formats.base import formats
from evaluation.data.formats.record_formats import record_formats
from evaluation.data.tables import Column
from evaluation.hybrid.features import PRESETS
from evaluation.metrics.base import Metric
from evaluation.metrics.registry import metric_list
from evaluation.published.papers import PaperItem, papers
from webapp.core.management.base import ConfabCommand
from webapp.jobs.selectors.metrics import languages_of
from webapp.studies.assignment.rules.base import rules
from webapp.studies.protocols.base import protocols
from webapp.transfer.exporters.base import exporter_list
from webapp.transfer.redaction.recall import measure_recall
from webapp.transfer.redaction.rules import KINDS

MARKED = re.compile(r"(?P<open><!-- docs:(?P<name>[a-z_]+) -->\n).*?(?P<close><!-- /docs:(?P=name) -->)", re.DOTALL)


class UnknownCatalogue(ValueError):
    """Raised for a marker with an unknown catalogue."""


def catalogue_fill(text: str, *, root: Path) -> str:
    """Return the text with the current content of every marked part.

    Args:
        root: the project's folder, where `.env.example` is.

    Raises:
        UnknownCatalogue: the name of a marker is not in `CATALOGUES`.
    """

    def fill(match: re.Match[str]) -> str:
        name = match["name"]
        if name not in CATALOGUES:
            raise UnknownCatalogue(f"there is no catalogue {quote(name)}; there are: {', '.join(sorted(CATALOGUES))}")
        return f"{match['open']}{CATALOGUES[name](root)}\n{match['close']}"

    return MARKED.sub(fill, text)


def catalogue_names(text: str) -> list[str]:
    """Return the catalogues that a text contains, in order."""
    return [match["name"] for match in MARKED.finditer(text)]


def _ships(thing: object, package: str) -> bool:
    return type(thing).__module__.startswith(f"{package}.")


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join("| " + " | ".join(_cell(cell) for cell in line) + " |" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", r"\|")


def _summary(cls: object) -> str:
    """Return the first sentence of a class's docstring."""
    first = inspect.cleandoc(cls.__doc__ or "").partition("\n\n")[0]
    return " ".join(first.split())


def _described(thing: Any) -> str:
    return getattr(thing, "description", "") or _summary(type(thing))


def _bots(root: Path) -> str:
    return _table(
        ["bot", "name", "kind", "description"],
        ([f"`{bot.name}`", bot.title, bot.kind, _described(bot)] for bot in bot_list() if _ships(bot, "chatbots.bots")),
    )


def _kinds(root: Path) -> str:
    parts = []
    for kind in bot_kinds:
        if not kind.make.__module__.startswith("chatbots.bots"):
            continue
        parameters = _table(
            ["parameter", "type", "default", "description"],
            (
                [f"`{p.name}`", p.type, "required" if p.required else _value(p.default), p.description]
                for p in kind_parameters(kind.name)
            ),
        )
        parts.append(f"**`kind: {kind.name}`** {_summary(kind.make)}\n\n{parameters}")
    return "\n\n".join(parts)


def _remote(root: Path) -> str:
    return _table(
        ["id", "model", "parameters", "licence", "download"],
        ([f"`{m.id}`", f"`{m.model}`", m.parameters, m.licence, f"{m.download_mb:,} MB"] for m in remote_list()),
    )


def _value(value: Any) -> str:
    if value is None:
        return "none"
    return "empty" if value in ("", (), []) else f"`{value}`"


def _shipped_metrics() -> list[Metric]:
    return [metric for metric in metric_list() if _ships(metric, "evaluation.metrics")]


def _metrics(root: Path) -> str:
    return _table(
        [*_OF_A_METRIC, "columns"],
        (
            [*_of_a_metric(metric), ", ".join(f"`{name}`" for name in dict.fromkeys(c.name for c in metric.columns))]
            for metric in _shipped_metrics()
        ),
    )


_OF_A_METRIC = ("metric", "name", "languages", "device", "requires", "licence")


def _of_a_metric(metric: Metric) -> list[str]:
    is_default = getattr(metric, "default", True)
    return [
        f"`{metric.name}`",
        metric.title if is_default else f"{metric.title} (on request)",
        languages_of(metric),
        "CPU or GPU" if getattr(metric, "has_network", False) else "CPU",
        ", ".join(getattr(metric, "needs", ())) or "–",
        getattr(metric, "licence", "") or "–",
    ]


def _columns(root: Path) -> str:
    """Tabulate the metrics' columns.

    A column at both levels is listed once: the conversation's value is the mean over its turns.
    """
    rows = []
    for metric in _shipped_metrics():
        by_name: dict[str, list[Column]] = {}
        for column in metric.columns:
            by_name.setdefault(column.name, []).append(column)
        for name, columns in by_name.items():
            first = columns[0]
            rows.append(
                [
                    f"`{name}`",
                    "turn, and its mean" if len(columns) == 2 else first.level,
                    first.unit,
                    _range(first),
                    {"neither": "–"}.get(first.direction, first.direction),
                    f"{first.title}. {first.description}",
                ]
            )
    return _table(["column", "level", "unit", "range", "better", "description"], rows)


def _range(column: Column) -> str:
    low, high = column.range
    ends = ("−∞" if low is None else f"{low:g}", "∞" if high is None else f"{high:g}")
    return f"{ends[0]} … {ends[1]}".replace("-", "−")


def _presets(root: Path) -> str:
    return _table(
        ["preset", "description", "features"],
        ([f"`{p.name}`", p.title, ", ".join(f"`{feature}`" for feature in p.features)] for p in PRESETS.values()),
    )


def _protocols(root: Path) -> str:
    return _listed("protocol", protocols, "webapp.studies.protocols")


def _formats(root: Path) -> str:
    """Tabulate the formats of imports with what is lost."""
    entries = [*formats, *sorted(record_formats, key=lambda entry: (entry.rank, entry.title))]
    rows = ([entry.title, getattr(entry, "loses", "") or "–"] for entry in entries if _ships(entry, "evaluation"))
    return _table(["format", "not imported"], rows)


def _rules(root: Path) -> str:
    return _listed("rule", rules, "webapp.studies.assignment.rules")


def _listed(kind: str, entries: Iterable[Any], package: str) -> str:
    """Tabulate the entries of a package with their descriptions."""
    return _table(
        [kind, "name", "description"],
        ([f"`{entry.name}`", entry.title, entry.description] for entry in entries if _ships(entry, package)),
    )


def _exports(root: Path) -> str:
    return _table(
        ["`--what`", "name", "rows"],
        ([f"`{table.name}`", table.title, _described(table)] for table in exporter_list() if _ships(table, "webapp")),
    )


def _settings(root: Path) -> str:
    """Tabulate the settings in `.env.example`.

    A test compares them with the settings that are read.
    """
    rows: list[list[str]] = []
    comments: list[str] = []
    for line in (root / ".env.example").read_text(encoding="utf-8").splitlines():
        entry = re.fullmatch(r"#?([A-Z][A-Z0-9_]*)=(.*)", line)
        if entry:
            default = f"`{entry[2]}`" if entry[2] else ""
            rows.append([f"`{entry[1]}`", default, " ".join(comments)])
            comments = []
        elif line.startswith("## "):
            rows.append([f"**{line[3:].partition(':')[0].partition(' (')[0]}**", "", ""])
            comments = []
        elif line.startswith("# "):
            comments.append(line[2:])
        else:
            comments = []
    return _table(["variable", "default", "description"], rows)


def _commands(root: Path) -> str:
    """Tabulate Confab's commands with their main arguments.

    These are all required and the first optional ones.
    """
    rows = []
    for name, app in sorted(get_commands().items()):
        if app.startswith("webapp.") and name not in _INTERNAL_COMMANDS:
            command = load_command_class(app, name)
            arguments = " ".join(_arguments(command, name))
            rows.append([f"`{name}`", _sentence(command.help), f"`{arguments}`" if arguments else ""])
    return _table(["command", "description", "arguments"], rows)


_INTERNAL_COMMANDS = {"docs"}
_MOST_OPTIONS = 6
"""Maximum number of optional arguments shown; `--help` has all."""
_MOST_CHOICES = 4


def _sentence(text: str) -> str:
    """Return a text's first sentence."""
    return re.split(r"(?<=\.) ", text)[0]


def _arguments(command: BaseCommand, name: str) -> list[str]:
    """Return the usage of Confab's own arguments, required ones first."""
    of_django = {"json", "project"}
    for base in type(command).__mro__:
        if base.__module__.startswith("django.core.management"):
            of_django |= {action.dest for action in base().create_parser("", name)._actions}
            break
    actions = [action for action in command.create_parser("", name)._actions if action.dest not in of_django]
    needed = [_usage(action) for action in actions if _is_needed(action)]
    optional = [f"[{_usage(action)}]" for action in actions if not _is_needed(action)]
    return [*needed, *optional[:_MOST_OPTIONS], *["…"] * (len(optional) > _MOST_OPTIONS)]


def _is_needed(action: Action) -> bool:
    return action.required if action.option_strings else action.nargs != "?"


def _usage(action: Action) -> str:
    if action.nargs == 0:
        return action.option_strings[-1]
    choices = [str(choice) for choice in action.choices or ()]
    value = str(action.metavar or action.dest.upper())
    if choices and len(choices) <= _MOST_CHOICES:
        value = "|".join(choices)
    return f"{action.option_strings[-1]} {value}" if action.option_strings else value


def _redaction(root: Path) -> str:
    languages = (("English", "en"), ("German", "de"))
    rows = []
    for language, code in languages:
        path = root / "tests" / "data" / "redaction" / f"{code}.txt"
        unlisted = {result.kind: result for result in measure_recall(path, with_names=False)}
        for result in measure_recall(path):
            title = KINDS[result.kind]
            if result.kind == "name":
                without = unlisted["name"]
                rows.append([language, f"{title}, nothing listed", f"{without.n_right} of {without.n_marked}", "–"])
                title += ", partly listed"
            recall, precision = (f"{result.n_right} of {n}" for n in (result.n_marked, result.n_hits))
            rows.append([language, title, recall, precision])
    return _table(["texts", "kind", "recall", "precision"], rows)


def _papers(root: Path) -> str:
    parts = []
    for name, paper in papers().items():
        rows = ([item.item, item.title, _reproduced(name, item), item.by_hand or "–"] for item in paper.items)
        table = _table(["item", "content", "command or page", "by hand"], rows)
        parts.append(f"## {paper.title}\n\n*{paper.work}*, {paper.source}.\n\n{table}")
    return "\n\n".join(parts)


def _reproduced(paper: str, item: PaperItem) -> str:
    if item.kind == "drawing":
        return "a drawing or fixed text: nothing to reproduce"
    return item.where or f"`report --like {paper}`"


CATALOGUES: dict[str, Callable[[Path], str]] = {
    "bots": _bots,
    "kinds": _kinds,
    "remote": _remote,
    "metrics": _metrics,
    "columns": _columns,
    "presets": _presets,
    "protocols": _protocols,
    "rules": _rules,
    "exports": _exports,
    "formats": _formats,
    "settings": _settings,
    "commands": _commands,
    "redaction": _redaction,
    "papers": _papers,
}


DOCUMENTS = (
    *(f"docs/guide/{name}.md" for name in ("bots", "publishing", "studies")),
    *(f"docs/reference/{name}.md" for name in ("commands", "data_formats", "metrics", "papers", "settings")),
)


class Command(ConfabCommand):
    help = "Rebuild the catalogues in docs from the code."

    def add_own_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--check", action="store_true", help="change nothing, but fail if a catalogue is stale")

    def run(self, **options: Any) -> dict[str, list[str]]:
        root = Path(settings.BASE_DIR)
        stale = []
        for name in DOCUMENTS:
            file = root / name
            before = file.read_text(encoding="utf-8")
            after = catalogue_fill(before, root=root)
            if after != before:
                stale.append(name)
                if not options["check"]:
                    file.write_text(after, encoding="utf-8")
        if stale and options["check"]:
            raise CommandError(f"stale catalogues in {', '.join(stale)}; run `make docs`")
        return {"changed": stale}

    def present(self, result: dict[str, list[str]]) -> None:
        changed = ", ".join(result["changed"]) or "nothing; all catalogues were up to date"
        self.stdout.write(f"Changed: {changed}")
