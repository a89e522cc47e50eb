"""Mutation check: change one operator of the product at a time, and run the tests of the mirrored folder.

    .venv/bin/python -m tests.checks.mutants --number 20 --seed 3

An unnoticed change is a missing case or an equivalent mutant, such as a boundary that no value reaches. The same seed
draws the same changes as long as the code is the same. A change is noticed only by a test that passes without it.
"""

import argparse
import io
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import tokenize
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MIGRATED = ROOT / ".pytest_cache" / "migrated"
PACKAGES = ("chatbots", "evaluation", "webapp")
REPLACEMENTS = {
    "<": "<=",
    "<=": "<",
    ">": ">=",
    ">=": ">",
    "==": "!=",
    "!=": "==",
    "+": "-",
    "-": "+",
    "and": "or",
    "or": "and",
}
OUT_OF_TIME = "the limit of CPU time"


@dataclass(frozen=True)
class Mutant:
    """One operator at a place, and what replaces it."""

    path: str
    line: int
    column: int
    operator: str

    def apply(self, text: str) -> str:
        """Return the module's text with the operator replaced."""
        lines = text.splitlines(keepends=True)
        line, end = lines[self.line - 1], self.column + len(self.operator)
        lines[self.line - 1] = line[: self.column] + REPLACEMENTS[self.operator] + line[end:]
        return "".join(lines)


def find_mutants(path: str, text: str) -> list[Mutant]:
    """Return a mutant for each operator of a module; signs of numbers are not operators."""
    mutants, previous = [], None
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        is_binary = previous is not None and (
            previous.type in (tokenize.NAME, tokenize.NUMBER, tokenize.STRING) or previous.string in (")", "]", "}")
        )
        is_sign = token.string in "+-" and (not is_binary or (previous and previous.string in ("return", "in", "else")))
        if token.type in (tokenize.OP, tokenize.NAME) and token.string in REPLACEMENTS and not is_sign:
            mutants.append(Mutant(path, *token.start, token.string))
        previous = token
    return mutants


def draw_mutants(root: Path, number: int, seed: int) -> list[Mutant]:
    """Draw mutants uniformly from all operators of the product, without migrations."""
    mutants = [
        mutant
        for package in PACKAGES
        for path in sorted((root / package).rglob("*.py"))
        if "migrations" not in path.parts
        for mutant in find_mutants(str(path.relative_to(root)), path.read_text(encoding="utf-8"))
    ]
    return random.Random(seed).sample(mutants, number)


def find_tests(root: Path, path: str, number: int) -> list[str]:
    """Return test files that may notice a change of a module, the likeliest first.

    These are the files of the folder that mirrors the module's, and all others that import the module. Those named
    after it come first, then those that import it, then those that name it.

    Args:
        number: most files that are returned.
    """
    folder = root / "tests" / Path(path).parent
    while not list(folder.rglob("test_*.py")):
        folder = folder.parent
    module = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    name = module.rpartition(".")[2]
    ranks = {}
    for file in sorted((root / "tests").rglob("test_*.py")):
        text = file.read_text(encoding="utf-8")
        is_imported = re.search(rf"(from|import) {re.escape(module)}\b", text) is not None
        if is_imported or file.is_relative_to(folder):
            ranks[file] = name not in file.stem, not is_imported, name not in text
    return [str(file.relative_to(root)) for file in sorted(ranks, key=ranks.__getitem__)[:number]]


def run_tests(root: Path, files: list[str], limit_s: int) -> str:
    """Run tests until the first failure; return the failure, or "" if all pass.

    Args:
        limit_s: seconds of CPU, after which `OUT_OF_TIME` is returned.
    """
    command = ["-m", "pytest", "-q", "-x", "--tb=no", "-m", "not browser", *files]
    # Bytecode is kept, or every start of pytest would rewrite the asserts of all files again.
    env = {**os.environ, "DATABASE_URL": "", "REDIS_URL": "", "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": ""}
    done = subprocess.run(
        [sys.executable, *command],
        cwd=root,
        env=env,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (limit_s, limit_s + 5)),
    )
    if done.returncode == -signal.SIGXCPU:
        return OUT_OF_TIME
    if done.returncode == 0:
        return ""
    failures = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return failures[0] if failures else done.stdout[-200:]


def run_without_mutant(root: Path, failure: str, limit_s: int) -> str:
    """Run the test of a failure on the unchanged code; return how it fails there, or "" if it passes."""
    words = failure.split(" - ", 1)[0].split(maxsplit=1)
    return run_tests(root, [words[1]], limit_s) if words and words[0] in ("FAILED", "ERROR") else ""


def main() -> None:
    """Draw mutants, test each in a copy of a revision, and print which were noticed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--number", type=int, default=50, help="number of mutants that are drawn")
    parser.add_argument("--skip", type=int, default=0, help="number of drawn mutants that are not tested")
    parser.add_argument("--count", type=int, help="number of mutants tested after these; all by default")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--revision", default="HEAD", help="commit that is copied and tested")
    parser.add_argument("--files", type=int, default=20, help="most test files that are run for a mutant")
    parser.add_argument("--limit-s", type=int, default=120, help="seconds of CPU for the tests of one mutant")
    args = parser.parse_args()
    archive = subprocess.run(["git", "archive", args.revision], cwd=ROOT, check=True, capture_output=True).stdout
    with tempfile.TemporaryDirectory(prefix="confab-mutants-") as folder:
        root = Path(folder)
        with tarfile.open(fileobj=io.BytesIO(archive)) as files:
            files.extractall(root, filter="data")
        # Migrating takes longer than the tests of most mutants; it is done again where a model is changed.
        if MIGRATED.exists():
            shutil.copytree(MIGRATED, root / MIGRATED.relative_to(ROOT))
        end = args.skip + args.count if args.count else None
        mutants = draw_mutants(root, args.number, args.seed)[args.skip : end]
        n_noticed = 0
        for mutant in mutants:
            file = root / mutant.path
            text = file.read_text(encoding="utf-8")
            started = time.monotonic()
            file.write_text(mutant.apply(text), encoding="utf-8")
            failure = run_tests(root, find_tests(root, mutant.path, args.files), args.limit_s)
            file.write_text(text, encoding="utf-8")
            if failure == OUT_OF_TIME:
                verdict = "OUT OF TIME"
            elif failure and run_without_mutant(root, failure, args.limit_s):
                verdict = "FAILS ANYWAY"
            else:
                verdict = "noticed" if failure else "UNNOTICED"
            n_noticed += verdict == "noticed"
            print(
                f"{verdict} {mutant.path}:{mutant.line}:{mutant.column} "
                f"{mutant.operator} -> {REPLACEMENTS[mutant.operator]} ({time.monotonic() - started:.0f} s)\n"
                f"    {text.splitlines()[mutant.line - 1].strip()}" + (f"\n    {failure}" if failure else ""),
                flush=True,
            )
        print(f"{n_noticed} of {len(mutants)} noticed")


if __name__ == "__main__":
    main()
