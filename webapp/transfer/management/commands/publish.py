"""`publish --study KEY --licence ID --output FOLDER`: writes a public data set, and uploads it if requested."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from chatbots.text import quote
from webapp.core.management.base import ConfabCommand, Usage
from webapp.studies.models import Study
from webapp.studies.selectors import study_by_key
from webapp.transfer.dataset import LICENCES, check_publishable, dataset_upload, dataset_write
from webapp.transfer.exporters.base import ExportOptions
from webapp.transfer.job_files import DATASET, export_record


class Command(ConfabCommand):
    help = "Write a study's redacted data set for the Hugging Face Hub and other tools, and upload it if requested."

    def add_own_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--study", metavar="KEY", required=True)
        parser.add_argument("--licence", required=True, choices=sorted(LICENCES), help="licence of the data")
        parser.add_argument("--output", required=True, type=Path, metavar="FOLDER", help="new or empty folder")
        parser.add_argument(
            "--unreviewed",
            action="store_true",
            help="write it although the review of personal data is not finished; undecided hits are replaced",
        )
        parser.add_argument(
            "--redistributable",
            action="store_true",
            help="the licence of the imported conversations allows their publication",
        )
        parser.add_argument("--upload", metavar="OWNER/NAME", default="", help="repository on the Hugging Face Hub")
        parser.add_argument(
            "--yes", action="store_true", help="upload; without it, --upload only says what would be uploaded"
        )
        parser.add_argument("--public", action="store_true", help="make a new repository public instead of private")
        parser.add_argument("--endpoint", metavar="URL", default="", help="address of another Hub")

    def run(self, **options: Any) -> dict[str, Any]:
        if options["yes"] and not options["upload"]:
            raise Usage("--yes needs --upload OWNER/NAME")
        try:
            study = study_by_key(options["study"])
        except Study.DoesNotExist:
            raise LookupError(f"there is no study {quote(options['study'])}") from None
        licence, folder = options["licence"], options["output"]
        review = check_publishable(
            study,
            licence=licence,
            may_redistribute=options["redistributable"],
            accepts_unreviewed=options["unreviewed"],
        )
        export_record(study, DATASET, "parquet", ExportOptions(is_redacted=True))
        dataset = dataset_write(study=study, folder=folder, licence=licence, review=review)
        address = ""
        if options["upload"] and options["yes"]:
            address = dataset_upload(
                folder=folder,
                repository=options["upload"],
                endpoint=options["endpoint"],
                is_private=not options["public"],
            )
        return {
            "folder": str(folder),
            "rows": dataset.rows,
            "texts": review.n_texts,
            "reviewed": review.is_finished,
            "replaced": review.total("replace") + review.n_undecided,
            "kept": review.total("keep"),
            "undecided": review.n_undecided,
            "would_upload_to": options["upload"] if not address else "",
            "uploaded_to": address,
        }

    def present(self, result: dict[str, Any]) -> None:
        state = "reviewed" if result["reviewed"] else "NOT reviewed by a person"
        self.stdout.write(
            f"{result['texts']} texts, {state}: {result['replaced']} hits replaced, {result['kept']} kept."
        )
        self.stdout.write(f"Written to {result['folder']}")
        if result["uploaded_to"]:
            self.stdout.write(f"Uploaded to {result['uploaded_to']}")
        elif result["would_upload_to"]:
            self.stdout.write(f"Nothing was uploaded. Add --yes to upload to {result['would_upload_to']}.")
