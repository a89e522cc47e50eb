"""The datasheet as Markdown and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import groupby

from webapp.studies.models import Study
from webapp.transfer.datasheet.filling import TO_BE_ANSWERED, Entry
from webapp.transfer.datasheet.questions import SECTIONS, VERSION


def datasheet_md(study: Study, entries: Sequence[Entry]) -> str:
    """Return the datasheet as Markdown; questions still to be answered stand there in bold."""
    n_open = sum(one.is_open for one in entries)
    parts = [
        f"# Human evaluation datasheet: {study.name}\n",
        f"After HEDS {VERSION} (Belz and Thomson, 2025), in short words of Confab's own; the numbers are those of the "
        f"datasheet. {n_open} of {len(entries)} questions are to be answered by the researchers.\n",
    ]
    for (section, criterion), found in groupby(
        entries, key=lambda one: (one.question.section, one.criterion)
    ):
        of = f": {criterion}" if criterion else ""
        parts.append(f"\n## {section} {SECTIONS[section]}{of}\n")
        for one in found:
            parts.append(f"\n**{one.question.number} {one.question.words}**\n")
            parts += [f"\n{text}\n" for text in (one.from_study, one.from_people) if text]
            if one.is_open:
                parts.append(f"\n**[{TO_BE_ANSWERED}]**\n")
    return "".join(parts)


def datasheet_json(study: Study, entries: Sequence[Entry]) -> str:
    """Return the datasheet as JSON."""
    found = {
        "heds": VERSION,
        "study": study.key,
        "answers": [
            {
                "number": one.question.number,
                "criterion": one.criterion or None,
                "question": one.question.words,
                "from_study": one.from_study or None,
                "from_researchers": one.from_people or None,
                "to_be_answered": one.is_open,
            }
            for one in entries
        ],
    }
    return json.dumps(found, ensure_ascii=False, indent=1) + "\n"
