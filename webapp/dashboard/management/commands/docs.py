"""`docs [--check]`: rebuilds the catalogues of bots, metrics, commands and settings in docs."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError

from webapp.core.management.base import ConfabCommand
from webapp.dashboard.catalogue import catalogue_fill

DOCUMENTS = (
    *(f"docs/guide/{name}.md" for name in ("bots", "studies")),
    *(f"docs/reference/{name}.md" for name in ("commands", "data_formats", "metrics", "settings")),
)


class Command(ConfabCommand):
    help = "Rebuild the catalogues in docs from the code."

    def add_own_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--check", action="store_true", help="change nothing; fail if one is stale"
        )

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
