"""A study as a file in YAML or JSON, with all values of a version.

One model reads it, and it is written in one format.

    confab_study: 1
    key: everyday-talk
    name: Everyday talk
    protocol: chat
    rule: balanced
    bots: [eliza, parrot]
    questions: []            # before the task
    after:                   # after it; its scales are what bots are rated on
      - {key: quality, title: "How good was it?", kind: scale, low: 1, high: 7}
    texts: {title: Chat with a chatbot, minutes: 8}
    …

Sections and their settings are those of `webapp.studies.settings`; missing ones have their defaults. Items are in the
file, or in one next to it that `items` names. The same study is always written as the same bytes.

There is a ready-made study for each protocol. When its language changes, default texts are translated.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from django.db.models import QuerySet
from pydantic import AfterValidator, Field, model_validator

from chatbots.text import did_you_mean
from chatbots.type_descriptions import TypeDescription
from chatbots.validation import InputModel, Many, Mistake, Number, ValuesError, values_read
from evaluation.data.formats.base import Skipped
from evaluation.data.formats.text_files import text_lines
from evaluation.data.items import Criteria, RightAnswers, item_read, json_lines
from evaluation.data.items import ReplyItem as ReadItem
from webapp.core.plain_yaml import NotPlain, plain_read, plain_text
from webapp.studies.assignment.rules.base import rules
from webapp.studies.items import gold_fields
from webapp.studies.models import Item, Study, StudyVersion
from webapp.studies.participant_texts import texts_in, texts_said
from webapp.studies.protocols.base import StudyProtocol, protocols
from webapp.studies.questions import Key
from webapp.studies.ready_made import DEFAULT_QUESTIONS, QUESTION_SETS, READY_MADE, STUDIES, QuestionSet
from webapp.studies.rubrics import post_task_questions
from webapp.studies.settings import SECTION_OF, SECTIONS, StudyValues
from webapp.studies.validation.sections import SECTION_VALIDATORS, as_mistakes, section_errors

FORMAT = 1
MOST_INLINE = 20
"""Maximum number of items written into a study's file; more get a separate file."""
_OF_EVERY_STUDY = (
    "texts",
    "comfort",
    "asking",
    "checking",
    "recruitment",
    "quotas",
    "closing",
    "planning",
    "assignment",
)
_NEEDED = {"", "confab_study", "key", "protocol", "rule"}
"""Parts of a file without which nothing else can be validated."""
_HEAD = (
    "# A study as a file. `import_study` creates a study from it, or a new version of the study with its key;\n"
    "# `export_study` writes the same file again.\n"
)


def _protocol(name: str) -> str:
    return _registered(name, protocols.names())


def _rule(name: str) -> str:
    return _registered(name, rules.names())


def _registered(name: str, known: list[str]) -> str:
    if name not in known:
        near = did_you_mean(name, known)
        raise ValueError(f"{near} It must be one of {', '.join(known)}".strip())
    return name


class Reply(InputModel):
    """One of several replies of an item."""

    model: str = Field(default="", max_length=100)
    text: str = Field(min_length=1, max_length=20_000)


class FileItem(InputModel):
    """One item in a study's file: a context, and one or several replies."""

    id: str = Field(min_length=1, max_length=200)
    context: Many[str] = ()
    response: str = ""
    model: str = ""
    responses: Many[Reply] = ()
    reference: str | None = None
    reference_score: Number | None = None
    task: str = Field(default="", max_length=50)
    persona: Many[str] = ()
    emotion: str = Field(default="", max_length=200)
    topic: str = Field(default="", max_length=200)
    gold: dict[Key, RightAnswers] = {}
    criteria: Criteria = ()

    @model_validator(mode="after")
    def _has_replies(self) -> FileItem:
        if bool(self.response) == bool(self.responses):
            raise ValueError("response must be a text or responses a list of several; give one of the two")
        return self

    @classmethod
    def from_row(cls, item: Item) -> FileItem:
        """Return a stored item in the form of a file."""
        replies = [{"model": reply.get("model") or "", "text": reply["text"]} for reply in item.responses]
        [first, *other_replies] = replies
        reply_fields = {"responses": replies} if other_replies else {"response": first["text"], **first}
        reply_fields.pop("text", None)
        return cls.model_validate(
            {
                "id": item.key,
                "context": item.context,
                **reply_fields,
                "reference": item.reference,
                "reference_score": item.reference_score,
                "task": item.task,
                **item.panel,
                "gold": item.expected,
                "criteria": item.criteria,
            }
        )

    def to_row(self, study: Study) -> Item:
        """Return it as an unsaved row."""
        replies = self.responses or (Reply(model=self.model, text=self.response),)
        panel = {"persona": list(self.persona), "emotion": self.emotion, "topic": self.topic}
        return Item(
            study=study,
            key=self.id,
            context=list(self.context),
            responses=[reply.model_dump() for reply in replies],
            reference=self.reference,
            reference_score=self.reference_score,
            task=self.task,
            panel={name: value for name, value in panel.items() if value},
            criteria=[criterion.model_dump() for criterion in self.criteria],
            **gold_fields(self.gold),
        )

    def to_plain(self) -> dict[str, Any]:
        """Return the item as in a file."""
        plain = self.model_dump(mode="json", exclude_defaults=True)
        if self.gold:  # the same order on every database
            plain["gold"] = dict(sorted(plain["gold"].items()))
        return plain


Slug = Annotated[
    str, Field(pattern="^[-a-zA-Z0-9_]{1,60}$"), TypeDescription("letters, digits, - and _, at most 60 of them")
]


class StudyFile(StudyValues):
    """Content of a study's file.

    `items` is a list, or the name of a file next to it.
    """

    confab_study: Literal[1]
    key: Slug
    name: Annotated[str, Field(min_length=1, max_length=200)]
    protocol: Annotated[str, AfterValidator(_protocol)]
    rule: Annotated[str, AfterValidator(_rule)] = "balanced"
    seed: int = Field(default=0, ge=-(2**63), lt=2**63)
    items: Many[FileItem] | str = ()

    @property
    def values(self) -> StudyValues:
        """Values that a version of the study stores."""
        return StudyValues.model_construct(**{name: getattr(self, name) for name in StudyValues.model_fields})

    def to_plain(self) -> dict[str, Any]:
        """Return the content of the file, in its order."""
        plain: dict[str, Any] = {
            "confab_study": FORMAT,
            "key": self.key,
            "name": self.name,
            "protocol": self.protocol,
            "rule": self.rule,
            "seed": self.seed,
            "bots": list(self.bots),
            "questions": [question.to_plain() for question in self.questions],
            "after": [question.to_plain() for question in self.after],
        }
        used = (*_OF_EVERY_STUDY, *protocols.get(self.protocol).settings)
        for section, kind in SECTIONS.items():
            section_values = getattr(self, section)
            if section in used or section_values != kind():
                plain[section] = (
                    section_values.to_plain()
                    if hasattr(section_values, "to_plain")
                    else section_values.model_dump(mode="json")
                )
        if isinstance(self.items, str):
            plain["items"] = self.items
        elif self.items:
            plain["items"] = [item.to_plain() for item in self.items]
        return plain


def study_file_read(text: str | bytes) -> StudyFile:
    """Return the study parsed from a file.

    Raises:
        ValuesError: with all errors, each with its path and the expected form.
    """
    return study_file_made(study_file_plain(text))


def study_file_made(plain: Any) -> StudyFile:
    """Return the study's file that these plain values describe.

    Raises:
        ValuesError: as `study_file_read`.
    """
    file, mistakes = study_file_parts(plain)
    if file is None or mistakes:
        raise ValuesError(mistakes)
    return file


def study_file_plain(text: str | bytes) -> dict[str, Any]:
    """Return the keys and values of a study's file, without validation.

    Raises:
        ValuesError: the content is not YAML or JSON with keys and values.
    """
    try:
        plain = plain_read(text)
    except NotPlain as error:
        raise ValuesError(f"the study file cannot be read: {error}") from None
    if not isinstance(plain, dict):
        raise ValuesError("the study file must contain keys and values, as `study_example` prints")
    return plain


def study_file_parts(plain: Any) -> tuple[StudyFile | None, list[Mistake]]:
    """Parse a study's file as far as possible.

    Returns the file and all mistakes, including those that others would hide. In the file, parts with a mistake have
    their defaults; it is None without a usable key, protocol or rule.
    """
    remaining, mistakes, file = plain, dict[str, Mistake](), None
    while file is None:
        try:
            file = values_read(StudyFile, remaining, subject="the study's file")
        except ValuesError as error:
            mistakes_by_path = {mistake.path: _in_its_section(mistake) for mistake in error.mistakes}
            parts, is_new = parts_of(mistakes_by_path), not mistakes_by_path.keys() <= mistakes.keys()
            mistakes |= mistakes_by_path
            if parts & _NEEDED or not is_new:
                break
            remaining = {"name": "?", **{name: remaining[name] for name in remaining if name not in parts}}
    broken = parts_of(mistakes)
    sections = SECTION_VALIDATORS.keys() - broken if mistakes and isinstance(plain, Mapping) else ()
    within = [
        mistake
        for section in sorted(sections)
        for mistake in as_mistakes(section_errors(section, values_read(SECTIONS[section], plain.get(section, {}))))
    ]
    return file, [*mistakes.values(), *within]


def parts_of(paths: Iterable[str]) -> set[str]:
    """Return the parts of a study's file that contain these paths.

    A misplaced setting spoils its own section, too.
    """
    parts = {re.split(r"[.\[]", path)[0] for path in paths}
    return parts | {SECTION_OF[name] for name in parts & set(SECTION_OF)}


def _in_its_section(mistake: Mistake) -> Mistake:
    """Explain to which section a misplaced setting belongs."""
    section = SECTION_OF.get(mistake.path)
    if section is None or " is an unknown key" not in mistake.message:
        return mistake
    name = mistake.path
    return Mistake(name, f"{name} is an unknown key; it belongs in {section}: write {section}.{name}")


def study_file_of(study: Study, version: StudyVersion | None = None) -> StudyFile:
    """Return a version of a study as a file.

    The newest version if none is named; every version has the current items.
    """
    version = version or study.version
    version_values = {name: getattr(version.values, name) for name in StudyValues.model_fields}
    version_values["after"] = post_task_questions(version)
    stored = _items_of(study)
    n_items = stored.count()
    items: Any = items_name(study)
    if n_items <= MOST_INLINE:
        items = tuple(FileItem.from_row(item) for item in stored)
    study_fields = {name: getattr(study, name) for name in ("key", "name", "protocol", "rule", "seed")}
    return StudyFile.model_construct(confab_study=FORMAT, **study_fields, **version_values, items=items)


def without_codes(file: StudyFile, *, links: bool = False) -> StudyFile:
    """Return a study's file without its completion codes.

    They are worth money. With `links`, return links are left out, too, because a panel's link may contain its code.
    """
    kinds = ("code_", "link_") if links else ("code_",)
    codes = {name: "" for name in type(file.recruitment).model_fields if name.startswith(kinds)}
    recruitment = file.recruitment.model_copy(update=codes)
    return file.model_copy(update={"recruitment": recruitment})


def _items_of(study: Study) -> QuerySet[Item]:
    """Return the items that were given to the study.

    Attention checks, and an item that the protocol makes, are left out.
    """
    makes_its_own = study.protocol in protocols and protocols.get(study.protocol).has_one_item
    items = study.items.none() if makes_its_own else study.items.filter(purpose__in=("", Item.Purpose.GOLD))
    return items.order_by("pk")


def items_name(study: Study) -> str:
    """Return the name of the file of a study's items."""
    return f"{study.key}.items.jsonl"


def items_lines(study: Study) -> Iterator[str]:
    """Return the lines of the file of a study's items."""
    for item in _items_of(study).iterator(chunk_size=500):
        yield json.dumps(FileItem.from_row(item).to_plain(), ensure_ascii=False) + "\n"


def items_of_file(path: Path) -> Iterator[tuple[int, FileItem] | Skipped]:
    """Stream the items of a file with their line numbers.

    An invalid line is yielded as `Skipped`, with all its errors.
    """
    return json_lines(path, _line_item)


def holds_items(path: Path) -> bool:
    """Return True if a file's first line is an item, not a conversation."""
    lines = text_lines(path) if ".json" in path.name.lower() else iter(())
    try:
        plain = json.loads(next((line[1] for line in lines if not isinstance(line, Skipped)), "null"))
    except (ValueError, RecursionError):
        return False
    return isinstance(plain, dict) and "turns" not in plain and not plain.keys().isdisjoint(("response", "responses"))


def _line_item(plain: Any) -> FileItem:
    if isinstance(plain, dict) and "responses" in plain:
        return values_read(FileItem, plain, subject="the line")
    read = item_read(ReadItem, plain)
    fields = {name: getattr(read, name) for name in FileItem.model_fields if name in type(read).model_fields}
    if read.second_response:
        replies = (read.model, read.response), (read.second_model, read.second_response)
        fields |= {"responses": [{"model": model, "text": text} for model, text in replies]}
        fields |= {"response": "", "model": ""}
    return FileItem.model_validate({**fields, "id": read.key})


def study_file_text(file: StudyFile) -> str:
    """Return a study's file as YAML.

    The same study always gives the same text.
    """
    parts = [_HEAD]
    for name, value in file.to_plain().items():
        if note := _NOTES.get(name):
            parts.append(f"\n# {note}\n")
        parts.append(plain_text({name: value}))
    return "".join(parts)


def study_file_json(file: StudyFile) -> str:
    """Return a study's file as JSON."""
    return json.dumps(file.to_plain(), ensure_ascii=False, indent=2) + "\n"


_NOTES = {
    "bots": "Bots that participants chat with. Their order sets their marks in plots.",
    "questions": "Questions asked once, before the first task.",
    "after": "Questions asked after every task, or about every item. Bots are rated on the scales.",
    "items": "Items that participants rate.",
    **{name: " ".join((kind.__doc__ or "").split()) for name, kind in SECTIONS.items()},
}


_MODELS = ("one", "other")
_MORE_MODELS = ("third", "fourth")
EXAMPLE_BOTS = ["eliza", "retrieval", "parrot", "generic"]
_JUDGING = {
    "instructions_text": (
        "Read what was said before each reply.\n"
        "Judge the replies one by one; there are no right answers.\n"
        "Your answers are saved page by page, so you can stop and come back."
    ),
    "consent_points": "You can stop at any time.\nWe keep your answers, without your name.",
    "minutes": 5,
}


def study_example(name: str, language: str = "en") -> StudyFile:
    """Return the file of a ready-made study or of a protocol's example.

    Args:
        language: language of the protocol's example; its items stay in English.

    Raises:
        LookupError: there is no such protocol.
    """
    if name in STUDIES:
        return study_file_read(STUDIES[name].read_text(encoding="utf-8"))
    protocol = protocols.get(name)
    plain: dict[str, Any] = {
        "confab_study": FORMAT,
        "key": f"{name}-example",
        "name": f"Example: {protocol.title}",
        "protocol": name,
    }
    if protocol.gives == "bots":
        plain["bots"] = EXAMPLE_BOTS
    texts: dict[str, Any] = {}
    if protocol.gives != "bots":  # participants do not write to a chatbot
        texts = {**_JUDGING}
    if protocol.instructions:
        texts["instructions_text"] = protocol.instructions
    if texts:
        texts["title"] = protocol.headline or protocol.title
        plain["texts"] = texts
    if protocol.gives == "items" and not protocol.has_one_item:
        plain["items"] = items_sample(protocol)
    plain["after"] = [question.to_plain() for question in protocol.asks or DEFAULT_QUESTIONS]
    example = protocol.example()
    texts |= example.get("texts", {})
    sections = {"after": plain.pop("after"), **example, **({"texts": texts} if texts else {})}
    if language != "en":
        sections = texts_in({**sections, "texts": {**texts, "language": language}}, language)
    return study_file_made({**plain, **sections})


def default_lines() -> set[str]:
    """Return the English default lines of all new studies."""
    examples = [study_example(protocol.name).to_plain() for protocol in protocols]
    contents = [{k: v for k, v in plain.items() if k not in ("name", "items")} for plain in examples]
    return set(texts_said(contents))


def items_sample(protocol: StudyProtocol) -> list[dict[str, Any]]:
    """Return sample items in the form of a study's file.

    Each has as many replies as the protocol shows.
    """
    items: list[dict[str, Any]] = []
    for number, talk in enumerate(READY_MADE["talks"], start=1):
        item, replies = (
            {"id": f"example-{number}", "context": talk["context"]},
            zip(_MODELS, talk["replies"], strict=True),
        )
        if protocol.n_replies is not None:
            other_replies = zip(_MORE_MODELS, (talk["reference"], READY_MADE["any_reply"]), strict=True)
            all_replies = [{"model": model, "text": text} for model, text in (*replies, *other_replies)]
            items.append({**item, "responses": all_replies[: protocol.n_replies]})
            continue
        for model, text in replies:
            reply_fields = {"id": f"example-{number}-{model}", "response": text, "model": model}
            about_reply = {"reference": talk["reference"], "reference_score": 4}
            if protocol.needs_criteria:
                about_reply = {"criteria": talk["criteria"]}
            items.append({**item, **reply_fields, **about_reply})
    return items


def sets_for(protocol: str) -> list[QuestionSet]:
    """Return the question sets that this protocol's form can ask."""
    if protocol not in protocols:
        return []
    study_protocol = protocols.get(protocol)
    about = "chat" if study_protocol.gives == "bots" else "reply"
    return [
        question_set
        for question_set in QUESTION_SETS
        if protocol in question_set.only_in
        or (not question_set.only_in and study_protocol.scale is None and question_set.about == about)
    ]
