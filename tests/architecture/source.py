"""Reading the project's own source: its modules and what each of them imports, at any depth."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("chatbots", "evaluation", "webapp")


@dataclass(frozen=True)
class Import:
    """One imported dotted name: `from a.b import c` gives `a.b.c`."""

    name: str
    line: int
    only_for_types: bool


@dataclass(frozen=True)
class Module:
    """One source file."""

    name: str
    path: Path

    @cached_property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, filename=str(self.path))

    @property
    def where(self) -> str:
        """The path to show: from the project's folder, where the file lies in it."""
        inside = self.path.is_relative_to(ROOT)
        return str(self.path.relative_to(ROOT) if inside else self.path)

    @cached_property
    def imports(self) -> tuple[Import, ...]:
        """Everything imported anywhere in the file, in functions too, relative names made absolute."""
        package = self.name if self.path.name == "__init__.py" else self.name.rpartition(".")[0]
        return _imports_of(self.path, package)


@cache
def _imports_of(path: Path, package: str) -> tuple[Import, ...]:
    """Read them once for all tests of a process; the trees, which are large, are not kept."""
    tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    return tuple(_imports(tree, package, only_for_types=False))


def _imports(node: ast.AST, package: str, *, only_for_types: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            for alias in child.names:
                yield Import(alias.name, child.lineno, only_for_types)
        elif isinstance(child, ast.ImportFrom):
            base = child.module or ""
            if child.level:
                parents = package.split(".")
                base = ".".join([*parents[: len(parents) - child.level + 1], *filter(None, [base])])
            for alias in child.names:
                yield Import(f"{base}.{alias.name}", child.lineno, only_for_types)
        elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
            for part in child.body:
                yield from _imports(ast.Module([part], type_ignores=[]), package, only_for_types=True)
            for part in child.orelse:
                yield from _imports(ast.Module([part], type_ignores=[]), package, only_for_types=only_for_types)
        else:
            yield from _imports(child, package, only_for_types=only_for_types)


def parse(name: str, text: str, path: Path) -> Module:
    """Make a module from text, written to `path`, for testing the tests."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return Module(name, path)


def modules(*packages: str) -> list[Module]:
    """Return all modules of the project, or of these packages; migrations, which Django writes, are left out."""
    results = []
    for package in packages or PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            if "migrations" in parts:
                continue
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            results.append(Module(name, path))
    return results
