"""Licence check of the installed packages: an allow-list; GPL, unknown and new ones fail.

    python -m tests.checks.licences

Packages outside the list stand in `BY_NAME` or `BY_PREFIX`, each with its reason.
"""

import json
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import metadata

# SPDX identifiers and the names that older packages use.
ALLOWED = frozenset(
    {
        "0BSD",
        "3-Clause BSD License",
        "Apache 2.0 License",
        "Apache License 2.0",
        "Apache Software License",
        "Apache-2.0",
        "Apache-2.0 WITH LLVM-exception",
        "BSD",
        "BSD License",
        "BSD-2-Clause",
        "BSD-3-Clause",
        "BSL-1.0",
        "CC0-1.0",
        "CNRI-Python",
        "ISC",
        "ISC License (ISCL)",
        "MIT",
        "MIT License",
        "MIT-0",
        "MIT-CMU",
        # Copyleft of single files, which Confab does not change.
        "MPL-2.0",
        "Mozilla Public License 2.0 (MPL 2.0)",
        "PSF-2.0",
        "Python Software Foundation License",
        "TCL",
        "Unlicense",
        "ZPL-2.1",
        "Zlib",
    }
)

BY_NAME = {
    "docutils": "Public domain and BSD; GPL is only its mode for Emacs, which its wheel has not. Builds the "
    "documentation, and is not needed to run Confab.",
    "psycopg2-binary": "LGPL, used unchanged as a library of its own: it binds nothing that is "
    "linked to it by an import. The usual PostgreSQL driver of Django.",
}

# PyTorch's CUDA build brings them; the CPU build does not.
BY_PREFIX = {
    "nvidia-": "NVIDIA's run-time libraries, free to redistribute under NVIDIA's own terms",
    "cuda-": "NVIDIA's run-time libraries, free to redistribute under NVIDIA's own terms",
}

# No licence in the metadata, but a licence file beside it, which must open with this line.
BY_FILE = {"skeletoken": "MIT License", "axe-playwright-python": "MIT License"}


@dataclass(frozen=True)
class Refusal:
    """A package that may not be installed, and why."""

    package: str
    licence: str
    why: str


def licence_allowed(expression: str) -> bool:
    """Tell whether an SPDX expression, or a list of classifiers joined by ";", is covered.

    Parentheses are ignored, and AND and ";" are split before OR: that can only refuse more.
    """
    plain = expression.replace("(ISCL)", "<ISCL>").replace("(MPL 2.0)", "<MPL 2.0>")
    plain = plain.replace("(", " ").replace(")", " ").replace("<", "(").replace(">", ")")
    parts = [part for group in plain.split(";") for part in group.split(" AND ")]
    return all(any(_known(choice) for choice in part.split(" OR ")) for part in parts)


def _known(name: str) -> bool:
    return " ".join(name.split()) in ALLOWED


def refusals(packages: Iterable[tuple[str, str]]) -> list[Refusal]:
    """Return those of `packages`, pairs of name and licence, that nothing allows."""
    results = []
    for package, licence in packages:
        if package in BY_NAME or package.startswith(tuple(BY_PREFIX)):
            continue
        if package in BY_FILE:
            opening = _licence_file_opening(package)
            if opening == BY_FILE[package]:
                continue
            results.append(Refusal(package, licence, f"its licence file now opens with {opening!r}"))
        elif not licence_allowed(licence):
            why = "no licence is known" if licence == "UNKNOWN" else "not on the allow-list"
            results.append(Refusal(package, licence, why))
    return results


def _licence_file_opening(package: str) -> str:
    """Return the first line of the licence that the installed package ships; "" without one."""
    for file in metadata.files(package) or []:
        if file.name.upper().startswith("LICEN"):
            return file.read_text().strip().partition("\n")[0].strip()
    return ""


def installed() -> list[tuple[str, str]]:
    """Name and licence of every installed package, by pip-licenses."""
    command = [sys.executable, "-m", "piplicenses", "--with-system", "--from=mixed"]
    output = subprocess.run([*command, "--format=json"], capture_output=True, text=True, check=True).stdout
    return [(entry["Name"].lower(), entry["License"]) for entry in json.loads(output)]


def main() -> int:
    """Print what is refused; 1 if anything is."""
    packages = installed()
    refused = refusals(packages)
    for refusal in refused:
        print(f"{refusal.package}: {refusal.licence!r}: {refusal.why}", file=sys.stderr)
    print(f"licences: {len(packages)} packages, {len(refused)} refused")
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
