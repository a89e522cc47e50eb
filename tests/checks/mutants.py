"""Mutation check: change one operator of the product at a time, and run the tests of the mirrored folder.

    .venv/bin/python -m tests.checks.mutants --number 20 --seed 3

An unnoticed change is a missing case or an equivalent mutant, such as a boundary that no value reaches. The same seed
draws the same changes as long as the code is the same. A change is noticed only by a test that passes without it.
"""

import argparse
import io
import os
import random
import subprocess
import sys
import tarfile
import tempfile
import time
import tokenize
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
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


def find_tests(root: Path, path: str) -> list[str]:
    """Return the test files of the folder that mirrors a module's, those that name the module first."""
    folder = root / "tests" / Path(path).parent
    while not list(folder.rglob("test_*.py")):
        folder = folder.parent
    name = Path(path).stem if Path(path).stem != "__init__" else Path(path).parent.name
    files = sorted(folder.rglob("test_*.py"))
    files.sort(key=lambda file: (name not in file.stem, name not in file.read_text(encoding="utf-8")))
    return [str(file.relative_to(root)) for file in files]


def run_tests(root: Path, files: list[str], limit_s: float) -> str:
    """Run tests until the first failure; return the failure, or "" if none is found within the limit."""
    command = ["-m", "pytest", "-q", "-x", "--tb=no", "-m", "not browser", *files]
    # Bytecode is kept, or every start of pytest would rewrite the asserts of all files again.
    env = {**os.environ, "DATABASE_URL": "", "REDIS_URL": "", "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": ""}
    process = subprocess.Popen(
        [sys.executable, *command], cwd=root, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    try:
        output, _ = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return ""
    if process.returncode == 0:
        return ""
    failures = [line for line in output.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return failures[0] if failures else output[-200:]


def run_without_mutant(root: Path, failure: str, limit_s: float) -> str:
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
    parser.add_argument("--limit-s", type=float, default=300, help="seconds for the tests of one mutant")
    args = parser.parse_args()
    archive = subprocess.run(["git", "archive", args.revision], cwd=ROOT, check=True, capture_output=True).stdout
    with tempfile.TemporaryDirectory(prefix="confab-mutants-") as folder:
        root = Path(folder)
        with tarfile.open(fileobj=io.BytesIO(archive)) as files:
            files.extractall(root, filter="data")
        end = args.skip + args.count if args.count else None
        mutants = draw_mutants(root, args.number, args.seed)[args.skip : end]
        n_noticed = 0
        for mutant in mutants:
            file = root / mutant.path
            text = file.read_text(encoding="utf-8")
            started = time.monotonic()
            file.write_text(mutant.apply(text), encoding="utf-8")
            failure = run_tests(root, find_tests(root, mutant.path), args.limit_s)
            file.write_text(text, encoding="utf-8")
            fails_anyway = bool(failure) and bool(run_without_mutant(root, failure, args.limit_s))
            n_noticed += bool(failure) and not fails_anyway
            verdict = "FAILS ANYWAY" if fails_anyway else "noticed" if failure else "UNNOTICED"
            print(
                f"{verdict} {mutant.path}:{mutant.line}:{mutant.column} "
                f"{mutant.operator} -> {REPLACEMENTS[mutant.operator]} ({time.monotonic() - started:.0f} s)\n"
                f"    {text.splitlines()[mutant.line - 1].strip()}" + (f"\n    {failure}" if failure else ""),
                flush=True,
            )
        print(f"{n_noticed} of {len(mutants)} noticed")


if __name__ == "__main__":
    main()
