"""What `webapp/settings` reads from the environment, by the source; and what `.env.example` says."""

import ast
import re
from dataclasses import dataclass

from tests.architecture.source import ROOT, modules

REQUIRED = object()
COMPUTED = object()


@dataclass(frozen=True)
class Read:
    """One `env.<kind>("NAME", default=…)`: the default as a value, `REQUIRED` or `COMPUTED`."""

    name: str
    default: object


def settings_reads() -> list[Read]:
    """Return every read of the environment in `webapp/settings/`."""
    results = []
    for module in modules("webapp"):
        if not module.name.startswith("webapp.settings"):
            continue
        for node in ast.walk(module.tree):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and ast.unparse(node.func.value) == "env"
                and node.args
            ):
                name = ast.literal_eval(node.args[0])
                results.append(Read(name, _default(node)))
    return results


def _default(node: ast.Call) -> object:
    for keyword in node.keywords:
        if keyword.arg == "default":
            try:
                return ast.literal_eval(keyword.value)
            except ValueError:
                return COMPUTED
    return REQUIRED


def example_entries() -> dict[str, str]:
    """Return variable to default as `.env.example` shows them, all sections."""
    text = (ROOT / ".env.example").read_text(encoding="utf-8")
    return dict(re.findall(r"^#?([A-Z][A-Z0-9_]*)=(.*)$", text, flags=re.MULTILINE))


def example_compose_only() -> set[str]:
    """Return the variables of `.env.example` that docker compose alone reads."""
    text = (ROOT / ".env.example").read_text(encoding="utf-8")
    _, _, compose = text.partition("## docker compose only")
    return set(re.findall(r"^#?([A-Z][A-Z0-9_]*)=", compose, flags=re.MULTILINE))
