"""Folder of a study's public data set, for the Hugging Face Hub and for other tools.

It holds the card with its licence, tables as Parquet, and the same redacted conversations for Label Studio, Argilla,
trainers (`messages`, preference pairs), Excel and R. Formats follow the tools' documentation: dataset cards
(huggingface/hub-docs, datasetcard.md), Label Studio's task format, Argilla 2's `Record.to_dict`, and TRL's dataset
formats.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

from django.utils.translation import gettext as _

from webapp.conversations.models import Conversation
from webapp.core.errors import Refused
from webapp.ratings.paired_comparisons import pairs_counted
from webapp.studies.models import Study
from webapp.studies.privacy import pseudonym
from webapp.studies.rubrics import post_task_questions
from webapp.transfer.datasheet import datasheet_md, datasheet_of
from webapp.transfer.exporters.base import ExportOptions, table_of
from webapp.transfer.import_mappings import check_licences
from webapp.transfer.package.contents import load_r
from webapp.transfer.package.tables import PackagedTable, WrittenTable, packaged_tables
from webapp.transfer.redaction.redactor import Redactor
from webapp.transfer.redaction.review import RedactionSummary, summarise_redaction, texts_search
from webapp.transfer.writers import stream, whole_file, write_file

LICENCES = {
    "cc-by-4.0": "https://creativecommons.org/licenses/by/4.0/legalcode",
    "cc-by-sa-4.0": "https://creativecommons.org/licenses/by-sa/4.0/legalcode",
    "cc-by-nc-4.0": "https://creativecommons.org/licenses/by-nc/4.0/legalcode",
    "cc-by-nc-sa-4.0": "https://creativecommons.org/licenses/by-nc-sa/4.0/legalcode",
    "cc0-1.0": "https://creativecommons.org/publicdomain/zero/1.0/legalcode",
    "odc-by": "https://opendatacommons.org/licenses/by/1-0/",
    "odbl": "https://opendatacommons.org/licenses/odbl/1-0/",
}
"""Licences of data, by the Hub's identifier, with the address of their text."""
_R_NAME = re.compile(r"(?!(if|else|repeat|while|function|for|next|break|in)$)[A-Za-z][A-Za-z0-9_.]*")
"""Names that R reads without backticks."""
_TABLES = ("conversations", "turns", "ratings", "items", "judged", "metrics", "bots")
_BATCH = 500
_ROLES = {"human": "user", "bot": "assistant"}
_RATERS = uuid.UUID("6f1d5d1a-6a5e-4b8e-9a63-3a0e2c1c7c55")
"""Namespace of the raters' ids for Argilla, which accepts UUIDs only."""


@dataclass(frozen=True, slots=True)
class WrittenDataset:
    """A written data set.

    Attributes:
        rows: number of rows by file.
        review: state of the review of its texts.
    """

    rows: dict[str, int]
    review: RedactionSummary


def check_publishable(
    study: Study, *, licence: str, may_redistribute: bool, accepts_unreviewed: bool
) -> RedactionSummary:
    """Search the study's texts for personal data, and check that they may be published.

    Raises:
        Refused: `bad_licence`; `not_redistributable`: imported data whose licence forbids it, or whose licence is
            unknown without the researcher's statement that it allows it;
            `not_reviewed`: with the number of texts and of undecided hits.
    """
    if licence not in LICENCES:
        raise Refused("bad_licence", _("The licence is none of {names}.").format(names=", ".join(LICENCES)))
    is_free = check_licences(study, licence)
    has_imports = study.conversations.filter(source=Conversation.Source.IMPORT).exists()
    if has_imports and not (is_free or may_redistribute):
        raise Refused(
            "not_redistributable",
            _(
                "The study contains imported conversations without a known free licence, which count as not "
                "redistributable. Check the licence of their source; if it allows publication under {licence}, add "
                "--redistributable."
            ).format(licence=licence),
        )
    texts_search(study=study)
    summary = summarise_redaction(study)
    assert summary is not None, "searched above"
    if not summary.is_finished and not accepts_unreviewed:
        raise Refused(
            "not_reviewed",
            _(
                "The review of {texts} texts for personal data is not finished: {n} hits are undecided. Finish it on "
                "the study's page Redaction, or add --unreviewed to replace all undecided hits."
            ).format(texts=summary.n_texts, n=summary.n_undecided),
        )
    return summary


def dataset_write(*, study: Study, folder: Path, licence: str, review: RedactionSummary) -> WrittenDataset:
    """Write the folder, in constant memory per file except for the ratings of one conversation.

    Args:
        folder: must not exist, or be empty.
        review: as `check_publishable` returned it.

    Raises:
        ValueError: the folder has files.
        OSError: it cannot be written.
    """
    if folder.exists() and any(folder.iterdir()):
        raise ValueError(f"{folder} is not empty; name a new folder")
    for part in ("data", "csv"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    options = ExportOptions(is_redacted=True)
    rows: dict[str, int] = {}
    tables = [table for table in packaged_tables(study, options) if table.name in _TABLES]
    for table in sorted(tables, key=lambda table: _TABLES.index(table.name)):
        n_rows = write_file(
            folder / "data" / f"{table.name}.parquet", "parquet", table.columns, table.rows(study, options)
        )
        if not n_rows:
            (folder / "data" / f"{table.name}.parquet").unlink()
            continue
        rows[f"data/{table.name}.parquet"] = n_rows
        with whole_file(folder / "csv" / f"{table.name}.csv") as file:
            file.write(b"\xef\xbb\xbf")  # Excel reads UTF-8 only with this mark
            for piece in stream("csv", table.columns, table.rows(study, options)):
                file.write(piece)
    if table_of(study, "conversations", options).exporter.count(study, options):  # type: ignore[attr-defined]
        rows |= _write_conversations(study, options, folder)
    if n_pairs := _write_lines(folder / "preferences.jsonl", _preferences(study)):
        rows["preferences.jsonl"] = rows["data/preferences.parquet"] = n_pairs
        _write_nested(folder / "data" / "preferences.parquet", _preferences_schema(), _preferences(study))
    else:
        (folder / "preferences.jsonl").unlink()
    written = [table for table in tables if f"data/{table.name}.parquet" in rows]
    (folder / "label_studio.xml").write_text(_label_studio_config(study), encoding="utf-8")
    (folder / "load.R").write_text(_load_r(study, written), encoding="utf-8")
    (folder / "LICENSE").write_text(f"{licence}\n{LICENCES[licence]}\n", encoding="utf-8")
    (folder / "heds.md").write_text(datasheet_md(study, datasheet_of(study)), encoding="utf-8")
    (folder / "README.md").write_text(_card(study, licence, rows, review), encoding="utf-8")
    return WrittenDataset(rows, review)


def _write_conversations(study: Study, options: ExportOptions, folder: Path) -> dict[str, int]:
    """Write the files of conversations; return their rows."""
    n_rows = _write_lines(folder / "messages.jsonl", map(_messages, _conversations(study, options)))
    _write_list(folder / "label_studio.json", map(_label_studio, _conversations(study, options)))
    _write_list(folder / "argilla.json", map(_argilla, _conversations(study, options)))
    schema = _messages_schema(study, options)
    _write_nested(folder / "data" / "messages.parquet", schema, map(_messages, _conversations(study, options)))
    return dict.fromkeys(("data/messages.parquet", "messages.jsonl", "label_studio.json", "argilla.json"), n_rows)


def _conversations(study: Study, options: ExportOptions) -> Iterator[dict[str, Any]]:
    """Yield conversations with redacted texts and with pseudonyms of raters."""
    table = table_of(study, "conversations", options)
    names = [column.name for column in table.columns]
    for row in table.rows:
        chat = dict(zip(names, row, strict=True))
        for rating in chat["ratings"]:
            if "rater" in rating:
                rating["rater"] = pseudonym(study, rating["rater"])
        yield chat


def _role_messages(chat: dict[str, Any]) -> list[dict[str, str]]:
    return [{"role": _ROLES[turn["speaker"]], "content": turn["text"]} for turn in chat["turns"]]


def _messages(chat: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": chat["conversation"],
        "bot": chat["bot"],
        "messages": _role_messages(chat),
        "ratings": chat["ratings"],
    }


def _answers(rating: dict[str, Any]) -> dict[str, Any]:
    """Return the answers on scales."""
    return {key: value for key, value in rating.items() if isinstance(value, int | float)}


def _label_studio(chat: dict[str, Any]) -> dict[str, Any]:
    return {
        "data": {
            "dialogue": [{"author": turn["speaker"], "text": turn["text"]} for turn in chat["turns"]],
            "conversation": chat["conversation"],
            "bot": chat["bot"],
        },
        "annotations": [
            {
                "result": [
                    {"from_name": key, "to_name": "dialogue", "type": "number", "value": {"number": value}}
                    for key, value in _answers(rating).items()
                ]
            }
            for rating in chat["ratings"]
        ],
    }


def _label_studio_config(study: Study) -> str:
    """Return the labelling interface whose names the annotations use."""
    lines = [
        "<View>",
        '  <Paragraphs name="dialogue" value="$dialogue" layout="dialogue" nameKey="author" textKey="text"/>',
    ]
    for question in post_task_questions(study.version):
        if question.kind == "scale":
            lines.append(f"  <Header value={quoteattr(question.title)}/>")
            ends = f'min="{question.low}" max="{question.high}"'
            lines.append(f'  <Number name={quoteattr(question.key)} toName="dialogue" {ends}/>')
    return "\n".join([*lines, "</View>", ""])


def _argilla(chat: dict[str, Any]) -> dict[str, Any]:
    responses: dict[str, list[dict[str, Any]]] = {}
    for rating in chat["ratings"]:
        rater = str(uuid.uuid5(_RATERS, rating.get("rater", "")))
        for key, value in _answers(rating).items():
            responses.setdefault(key, []).append({"value": value, "user_id": rater})
    return {
        "id": chat["conversation"],
        "fields": {"dialogue": _role_messages(chat)},
        "metadata": {"bot": chat["bot"]},
        "suggestions": {},
        "responses": responses,
        "vectors": {},
        "_server_id": None,
    }


def _preferences(study: Study) -> Iterator[dict[str, Any]]:
    """Yield a pair of replies for every judgement of the leading question; ties are left out."""
    leading = next((question.key for question in post_task_questions(study.version) if question.kind == "scale"), "")
    redactor = Redactor(study)
    ratings = pairs_counted(study).filter(item__isnull=False, item__responses__2__isnull=True).select_related("item")
    for rating in ratings.order_by("pk").iterator(chunk_size=500):
        answer, item = rating.answers.get(leading), rating.item
        if item is None or not answer or not isinstance(answer, int | float):
            continue
        replies = [redactor.redact_text(response["text"]) for response in item.responses]
        models = [response.get("model") or "" for response in item.responses]
        chosen, rejected = (0, 1) if answer > 0 else (1, 0)
        context = redactor.redact_value(item.context)
        # The last utterance before a reply is the person's.
        roles = ["user" if (len(context) - i) % 2 else "assistant" for i in range(len(context))]
        yield {
            "prompt": [{"role": role, "content": text} for role, text in zip(roles, context, strict=True)],
            "chosen": [{"role": "assistant", "content": replies[chosen]}],
            "rejected": [{"role": "assistant", "content": replies[rejected]}],
            "chosen_model": models[chosen],
            "rejected_model": models[rejected],
            "question": leading,
            "rater": pseudonym(study, str(rating.participant_id or rating.rater)),
        }


def _messages_type() -> Any:
    import pyarrow as pa

    return pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))


def _messages_schema(study: Study, options: ExportOptions) -> Any:
    """Return the schema of messages with ratings; every question of the study is a field of a rating."""
    import pyarrow as pa

    columns = table_of(study, "ratings", options).columns
    keys = dict.fromkeys(column.asked.key for column in columns if column.asked and column.type == "number")
    rating = [("rater", pa.string()), *((key, pa.float64()) for key in keys), ("comment", pa.string())]
    return pa.schema(
        [
            ("id", pa.string()),
            ("bot", pa.string()),
            ("messages", _messages_type()),
            ("ratings", pa.list_(pa.struct(rating))),
        ]
    )


def _preferences_schema() -> Any:
    import pyarrow as pa

    texts = [(name, _messages_type()) for name in ("prompt", "chosen", "rejected")]
    return pa.schema([*texts, *((n, pa.string()) for n in ("chosen_model", "rejected_model", "question", "rater"))])


def _write_nested(path: Path, schema: Any, records: Iterable[dict[str, Any]]) -> None:
    """Write Parquet with nested columns; the Hub needs one format for all configurations."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    iterator = iter(records)
    with whole_file(path) as file, pq.ParquetWriter(file, schema) as writer:
        while batch := list(islice(iterator, _BATCH)):
            writer.write_table(pa.Table.from_pylist(batch, schema=schema))


def _write_lines(path: Path, records: Iterable[dict[str, Any]]) -> int:
    n_rows = 0
    with whole_file(path) as file:
        for record in records:
            file.write(json.dumps(record, ensure_ascii=False, allow_nan=False).encode("utf-8") + b"\n")
            n_rows += 1
    return n_rows


def _write_list(path: Path, records: Iterable[dict[str, Any]]) -> int:
    n_rows = 0
    with whole_file(path) as file:
        file.write(b"[")
        for record in records:
            file.write(b",\n" if n_rows else b"\n")
            file.write(json.dumps(record, ensure_ascii=False, allow_nan=False).encode("utf-8"))
            n_rows += 1
        file.write(b"\n]\n")
    return n_rows


def _load_r(study: Study, tables: Sequence[PackagedTable]) -> str:
    """Return a script that loads the tables, with a model of each scale, commented out."""
    written = [WrittenTable(replace(table), 0, [], []) for table in tables]
    text = load_r(written)
    text = text.replace('file.path("data", paste0(name', 'file.path("csv", paste0(name')
    text = text.replace('encoding = "UTF-8", check', 'fileEncoding = "UTF-8-BOM", check')
    lines = [text, "", '# Models; install.packages(c("lme4", "ordinal")) first. The first bot is the reference.']
    for question in post_task_questions(study.version):
        if question.kind == "scale":
            key = question.key if _R_NAME.fullmatch(question.key) else f"`{question.key}`"
            formula = f"{key} ~ bot + (1 | rater)"
            lines.append(f"# lme4::lmer({formula}, data = ratings)")
            lines.append(f"# ordinal::clmm(factor({key}, ordered = TRUE) ~ bot + (1 | rater), data = ratings)")
    return "\n".join([*lines, ""])


def _card(study: Study, licence: str, rows: dict[str, int], review: RedactionSummary) -> str:
    """Return the dataset card, whose head the Hub and `datasets` read."""
    import yaml

    loadable = [name for name in rows if name.endswith(".parquet")]
    n = max(rows.values(), default=0)
    sizes = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))
    head = {
        "license": licence,
        "language": [study.values.texts.language[:2]],
        "pretty_name": study.name,
        "size_categories": [next((title for limit, title in sizes if n < limit), "1M<n<10M")],
        "tags": ["human-evaluation", "dialogue", "confab"],
        "configs": [
            {
                "config_name": Path(name).stem,
                "data_files": [{"split": "train", "path": name}],
                **({"default": True} if name == "data/messages.parquet" else {}),
            }
            for name in loadable
        ],
    }
    lines = [
        f"---\n{yaml.safe_dump(head, sort_keys=False, allow_unicode=True)}---",
        f"# {' '.join(study.name.split())}",
        "Conversations between people and chatbots with human ratings, collected or imported with Confab. "
        "Participants have pseudonyms.",
        "## Files",
        "\n".join(["| file | rows |", "| --- | --- |", *(f"| `{name}` | {count:,} |" for name, count in rows.items())]),
        "`csv/` has the tables for Excel, `load.R` loads them into R, `label_studio.xml` is the interface for "
        "`label_studio.json`, and `heds.md` is the human evaluation datasheet.",
        "## Personal data",
        review.describe(),
        "## Licence",
        f"[{licence}]({LICENCES[licence]})",
    ]
    return "\n\n".join(lines) + "\n"


def dataset_upload(*, folder: Path, repository: str, endpoint: str = "", is_private: bool = True) -> str:
    """Upload a written folder to the Hugging Face Hub; return its address.

    The token comes from the Hub's own settings (`hf auth login`, `HF_TOKEN`).

    Args:
        repository: `owner/name`, created if needed.
        endpoint: address of the Hub; empty: the public one.

    Raises:
        Refused: `upload_failed`.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    api = HfApi(endpoint=endpoint or None)
    try:
        api.create_repo(repository, repo_type="dataset", private=is_private, exist_ok=True)
        api.upload_folder(repo_id=repository, folder_path=folder, repo_type="dataset")
    except (HfHubHTTPError, HFValidationError, OSError) as error:
        raise Refused("upload_failed", _("The upload failed: {error}").format(error=error)) from error
    return f"{api.endpoint}/datasets/{repository}"
