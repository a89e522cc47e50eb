"""House rules that a parser can see: no grab bags, budgets of packages, the environment read in one place."""

import ast
import re

from tests.architecture.source import ROOT, Module, modules

GRAB_BAGS = {"utils", "util", "helpers", "misc", "common"}
# What a process may tell libraries that it loads later.
SETTABLE = {"DJANGO_SETTINGS_MODULE", "MKL_CBWR", "OMP_WAIT_POLICY", "OPENBLAS_NUM_THREADS"}
# Modules that may look at the environment outside `webapp/settings`, and what for.
READERS = {
    "chatbots.bots.endpoint": "API keys, named in bots.yaml, never stored",
    "webapp.core.backups": "handed to PostgreSQL's programs as it is",
}


def test_modules_are_named_after_what_they_do() -> None:
    assert [m.where for m in modules() if m.name.rpartition(".")[2] in GRAB_BAGS] == []


def lines_of_code(module: Module) -> int:
    """Count the lines of a module without docstrings, comments and blank lines."""
    docstrings = {
        line
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    lines = enumerate(module.text.splitlines(), 1)
    return sum(bool(line.strip()) and not line.lstrip().startswith("#") and n not in docstrings for n, line in lines)


def test_packages_keep_their_budgets() -> None:
    """The table of ARCHITECTURE.md names every package below the three; migrations do not count."""
    table = (ROOT / "ARCHITECTURE.md").read_text("utf-8").partition("## Budgets")[2].partition("\n## ")[0]
    budgets = {
        name: int(limit.replace(",", "")) for name, limit in re.findall(r"^\| `(.+)` \| ([\d,]+) \|", table, re.M)
    }
    sizes: dict[str, int] = {}
    for module in modules():
        names = module.path.relative_to(ROOT).parts[:-1]
        if "migrations" not in names:
            package = "/".join(names[:2])
            sizes[package] = sizes.get(package, 0) + lines_of_code(module)
    assert set(budgets) == set(sizes)
    over = {package: (size, budgets[package]) for package, size in sizes.items() if size > budgets[package]}
    assert over == {}, "make these smaller, or decide on a larger budget"


def test_a_packages_own_file_has_no_code() -> None:
    """`__init__.py` may name what the package offers; the code is in modules, which a reader finds by their names."""
    allowed = (ast.Import, ast.ImportFrom, ast.Expr)
    for module in modules():
        if module.path.name == "__init__.py":
            for node in module.tree.body:
                assert isinstance(node, allowed) or ast.unparse(node).startswith("__all__"), (module.where, node.lineno)


def test_modules_say_what_they_are_for() -> None:
    silent = [
        m.where for m in modules() if not m.text.startswith('"""') and m.tree.body and ast.get_docstring(m.tree) is None
    ]
    assert silent == []


def test_the_environment_is_read_in_the_settings_only() -> None:
    results = [
        f"{module.where}:{line}"
        for module in modules()
        if not module.name.startswith("webapp.settings") and module.name not in READERS
        for line in _environment_reads(module)
    ]
    assert results == [], "read it in webapp/settings and pass it on"


def _environment_reads(module: Module) -> list[int]:
    """Return the lines that touch the environment, except to set one of `SETTABLE`."""
    if not re.search("environ|getenv|putenv", module.text):
        return []
    lines = []
    allowed: set[ast.AST] = set()
    for node in ast.walk(module.tree):
        if (
            isinstance(node, ast.Call)
            and ast.unparse(node.func) == "os.environ.setdefault"
            and ast.literal_eval(node.args[0]) in SETTABLE
        ):
            assert isinstance(node.func, ast.Attribute)
            allowed.add(node.func.value)
        if (
            isinstance(node, ast.Attribute)
            and node.attr in {"environ", "environb", "getenv", "putenv"}
            and ast.unparse(node.value) == "os"
            and node not in allowed
        ):
            lines.append(node.lineno)
        if isinstance(node, ast.ImportFrom) and node.module == "os":
            lines += [node.lineno for alias in node.names if alias.name in {"environ", "getenv"}]
    return lines
