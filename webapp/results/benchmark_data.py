"""Data of the benchmark: uploaded files, and choices between pairs.

Files are kept in the data folder under the digest of their content: rated replies, and a judge's choices between
pairs. Choices of metrics and of a judge are compared with the same participants; `evaluate_metrics --study
--judged` prints what the same functions return.
"""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.files.uploadedfile import UploadedFile
from django.utils.translation import gettext as _

from evaluation.agreement.llm_judge import judged_file_read
from evaluation.analysis.pairwise_preference import PairJudgements
from evaluation.data.formats.base import Skipped
from evaluation.data.items import ChatPair, ReplyItem, judged_read
from webapp.bots.selectors import text_store
from webapp.core.errors import Refused
from webapp.core.project_disk import disk_demand, disk_keep
from webapp.core.project_scope import USUAL_PROJECT, project_of_new_rows
from webapp.core.whole_files import whole_file
from webapp.ratings.paired_comparisons import study_judgements, study_pair_chats, study_pair_items
from webapp.studies.models import Study
from webapp.studies.protocols.base import get_protocol

_LINES_LOOKED_AT = 50
_NAME = re.compile(r"[0-9a-f]{32}\.(jsonl(\.gz)?|csv)")
OF_JUDGE = ".csv"
"""Ending of the name of a file of a judge's choices."""


def benchmark_folder(project: str | None = None) -> Path:
    """Return the folder of a project's uploaded files, readable only by Confab's system user.

    Args:
        project: key of the project; None: the active one.
    """
    folder = Path(settings.DATA_DIR) / "benchmarks"
    if (key := project or project_of_new_rows()) != USUAL_PROJECT:
        folder /= key
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def project_benchmark_files(project: str) -> list[Path]:
    """Return the files that a project has uploaded for its benchmark."""
    return [path for path in benchmark_folder(project).iterdir() if path.is_file()]


def benchmark_file(name: str) -> Path | None:
    """Return the path of an uploaded file; None if missing."""
    path = benchmark_folder() / name
    return path if is_file_name(name) and path.is_file() else None


def is_file_name(name: str) -> bool:
    """Return True if an uploaded file can have this name."""
    return _NAME.fullmatch(name) is not None


def benchmark_files() -> list[Path]:
    """Return the uploaded files, newest first."""
    paths = [path for path in benchmark_folder().iterdir() if is_file_name(path.name)]
    return sorted(paths, key=lambda path: path.stat().st_mtime, reverse=True)


def benchmark_file_keep(upload: Path, ending: str) -> str:
    """Store a file of rated replies under its digest; return the name.

    Raises:
        Refused: its first lines have no rated reply; with the error of the first.
    """
    mistake = ""
    for number, judged_item in enumerate(judged_read(upload)):
        if not isinstance(judged_item, Skipped) and judged_item.dimensions:
            break
        if isinstance(judged_item, Skipped) and not mistake:
            mistake = f"line {judged_item.line}: {judged_item.reason}"
        if number + 1 == _LINES_LOOKED_AT:
            raise Refused("not_judged", _not_judged(mistake))
    else:
        raise Refused("not_judged", _not_judged(mistake))
    return _keep(upload, ending)


@contextmanager
def written(upload: UploadedFile, ending: str) -> Iterator[Path]:
    """Write an upload to a temporary file."""
    with tempfile.TemporaryDirectory(prefix="confab-benchmark-") as folder:
        path = Path(folder) / f"upload{ending}"
        with path.open("wb") as handle:
            handle.writelines(upload.chunks())
        yield path


def benchmark_upload_keep(upload: UploadedFile) -> str:
    """Store an upload of rated replies, as `benchmark_file_keep`."""
    ending = ".jsonl.gz" if (upload.name or "").lower().endswith(".gz") else ".jsonl"
    with written(upload, ending) as path:
        return benchmark_file_keep(path, ending)


def judged_file_keep(upload: Path) -> str:
    """Store a file of a judge's choices under its digest.

    Return the name.

    Raises:
        Refused: it is another kind of file, has several judges or no pair.
    """
    try:
        read = judged_file_read(upload)
    except (ValueError, UnicodeDecodeError) as error:
        error_text = str(error).replace(str(upload), str(_("the file")))
        raise Refused("not_judged", error_text) from error
    if not read.pairs:
        raise Refused("not_judged", str(_("The file contains no pairs with a choice of the judge.")))
    return _keep(upload, OF_JUDGE)


def _keep(upload: Path, ending: str) -> str:
    content = upload.read_bytes()
    name = f"{hashlib.sha256(content).hexdigest()[:32]}{ending}"
    path = benchmark_folder() / name
    if not path.is_file():
        disk_demand(len(content))
    with whole_file(path) as handle:
        handle.write(content)
    disk_keep(path)
    return name


def _not_judged(mistake: str) -> str:
    sentence = str(_("The first lines contain no rated reply."))
    return f"{sentence} {mistake}".strip()


@dataclass(frozen=True, eq=False)
class BenchmarkPairs:
    """Participants' choices between pairs, the pairs, and a judge's file if any."""

    people: PairJudgements
    items: tuple[ReplyItem, ...] | tuple[ChatPair, ...]
    judged: Path | None

    @property
    def n_items(self) -> int:
        """Number of pairs."""
        return len(self.items)


def pairs_judged(study: Study, judged: str = "") -> BenchmarkPairs:
    """Read a study's pairs.

    Args:
        judged: the name of an uploaded file of a judge's choices.

    Raises:
        Refused: the study has no comparison, or the file was deleted.
    """
    people = study_judgements(study)
    if people is None or not len(people):
        raise Refused("not_judged", str(_("This study has no comparisons of replies or chats.")))
    items: tuple[ReplyItem, ...] | tuple[ChatPair, ...] = tuple(study_pair_items(study))
    items = items or tuple(study_pair_chats(study))
    path = benchmark_folder() / judged if judged else None
    if path is not None and not path.is_file():
        raise Refused("no_file", str(_("The file with the judge’s choices no longer exists. Upload it again.")))
    return BenchmarkPairs(people, items, path)


def pairs_refusal(study: Study, *, judged: bool) -> str:
    """Explain why a judge's file does not match a study.

    Empty if it does.
    """
    if not judged or get_protocol(study).compares_pairs:
        return ""
    return str(
        _("Participants of “{study}” do not compare replies or chats, so a judge of pairs cannot be evaluated there.")
    ).format(study=study.name)


def choices_of_metric(pairs: BenchmarkPairs, metric: str, progress: Callable[[int, int], None]) -> dict[str, Any]:
    """Return the agreement of a metric's choices with participants' by question."""
    from evaluation.agreement.preference_benchmark import choose_everywhere
    from evaluation.metrics.text_cache import TextCache

    shared = TextCache(settings.CONFAB_DEVICE, store=text_store())
    chosen = choose_everywhere(pairs.people, pairs.items, metric, shared=shared, progress=progress)
    return {question: agreement.to_json() for question, agreement in chosen.items()}


def choices_of_judge(pairs: BenchmarkPairs) -> dict[str, Any]:
    """Return a judge's name, digest, biases and agreement (`choices`)."""
    from evaluation.agreement.llm_judge import JudgedPairs as Chosen
    from evaluation.agreement.llm_judge import judged_file_read
    from evaluation.agreement.preference_benchmark import judge_everywhere

    assert pairs.judged is not None, "a file of a judge is missing"
    read = judged_file_read(pairs.judged)
    chosen = judge_everywhere(pairs.people, read)
    biases = Chosen(read.name, read.pairs, n_requests=0, refused=0).to_json()
    return {
        "title": read.name,
        "identity": read.judge,
        "biases": {name: biases[name] for name in ("n", "position_bias", "changed", "length_bias")},
        "choices": {question: agreement.to_json() for question, agreement in chosen.items()},
    }


def choices_result(pairs: BenchmarkPairs, results: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the result of a comparison of choices, as its job stores it.

    It lacks the digest of the data.
    """
    return {
        "n_items": pairs.n_items,
        "questions": list(pairs.people.titles.items()),  # PostgreSQL reorders the keys of an object
        "judge": next((agreement for agreement in results if not agreement["metric"]), None),
        "metrics": [agreement for agreement in results if agreement["metric"]],
    }
