"""`study_example [PROTOCOL] [--output FILE.yaml]`."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from webapp.core.management.base import ConfabCommand
from webapp.studies.protocols.base import protocols
from webapp.studies.ready_made import STUDIES
from webapp.studies.study_file import study_example, study_file_json, study_file_text


class Command(ConfabCommand):
    help = "Print a study file for a protocol or a ready-made study; without a name, list them."

    def add_own_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("protocol", nargs="?", metavar="PROTOCOL")
        parser.add_argument("--output", type=Path, metavar="FILE", help=".yaml, or .json")

    def run(self, **options: Any) -> Any:
        name, path = options["protocol"], options["output"]
        if name is None:
            return [*protocols.names(), *STUDIES]
        file = study_example(name)
        as_json = path is not None and path.suffix == ".json"
        text = study_file_json(file) if as_json else study_file_text(file)
        if path is None:
            return {"protocol": name, "text": text}
        path.write_text(text, encoding="utf-8", newline="\n")
        return {"protocol": name, "file": str(path)}

    def present(self, result: Any) -> None:
        if isinstance(result, list):
            for name in result:
                title = protocols.get(name).title if name in protocols else study_example(name).name
                self.stdout.write(f"{name}: {title}")
        elif "text" in result:
            self.stdout.write(result["text"], ending="")
        else:
            self.stdout.write(f"The example {result['protocol']} was written.")
