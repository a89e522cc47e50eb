"""Search of a study's texts for personal data, and decisions about the hits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from itertools import islice
from typing import Any

from django.db import transaction
from django.db.models import Count, Max, Q, QuerySet
from django.utils.translation import gettext as _

from webapp.conversations.models import Turn
from webapp.core.clock import database_now
from webapp.core.errors import Refused
from webapp.jobs.models import UNFINISHED, Job
from webapp.jobs.services.jobs import job_create
from webapp.ratings.erasure import ratings_of
from webapp.studies.models import Item, Participant, QuestionAnswers, Study
from webapp.transfer.exporters.base import ExportOptions, build_shown_filter
from webapp.transfer.models import RedactionHit, RedactionReview
from webapp.transfer.redaction.redactor import rules_of, strings_in, text_digest, value_digest
from webapp.transfer.redaction.rules import KINDS, Hit

_BATCH = 200
_CONTEXT_CHARS = 120
MOST_NAMES_CHARS = 20_000
Decision = RedactionHit.Decision
_PERSON_LABELS = {"PERSON", "PER"}


def _turns(study: Study) -> QuerySet[Any]:
    everything = ExportOptions(include_failed=True, include_synthetic=True)
    turns = Turn.objects.filter(build_shown_filter(study, everything, prefix="conversation__"))
    return turns.select_related("image")


def _turn_texts(turn: Turn) -> list[str]:
    image = getattr(turn, "image", None)
    return [turn.text, *strings_in(turn.trace), image.description if image is not None else ""]


_SOURCES: dict[str, tuple[Callable[[Study], QuerySet[Any]], Callable[[Any], list[str]]]] = {
    "turn": (_turns, _turn_texts),
    "rating": (ratings_of, lambda rating: [rating.comment, *strings_in(rating.other_answers)]),
    "answers": (
        lambda study: QuestionAnswers.objects.filter(participant__study=study),
        lambda answers: list(strings_in(answers.answers)),
    ),
    "item": (
        lambda study: Item.objects.filter(study=study),
        lambda item: list(strings_in([item.context, item.responses, item.reference, item.panel])),
    ),
}
"""Places of participants' and bots' texts, by the field of `RedactionHit`: their rows, and the texts of a row."""


def installed_models() -> list[str]:
    """Return the spaCy models installed here, without importing them."""
    return sorted({entry.name for entry in entry_points(group="spacy_models")})


def _name_finder(model: str) -> Callable[[Sequence[str]], Iterator[list[Hit]]]:
    """Return a function that finds names in texts with a spaCy model.

    Raises:
        Refused: `no_model`: it is not installed here.
    """
    if not model:
        return lambda texts: ([] for _text in texts)
    if model not in installed_models():
        raise Refused("no_model", _("The spaCy model {model} is not installed on this server.").format(model=model))
    import spacy  # type: ignore[import-not-found,unused-ignore]

    pipeline = spacy.load(model)

    def find_names(texts: Sequence[str]) -> Iterator[list[Hit]]:
        for document in pipeline.pipe(texts):
            yield [
                Hit("name", entity.start_char, entity.end_char, " ".join(entity.text.casefold().split()))
                for entity in document.ents
                if entity.label_ in _PERSON_LABELS
            ]

    return find_names


def texts_search(*, study: Study, report: Callable[[int], None] = lambda n_rows: None) -> RedactionReview:
    """Search all texts of a study, in constant memory; return the review.

    Decisions about hits that are still there stay. The review is reopened if hits or texts have been added.

    Args:
        report: called regularly with the number of rows read so far.

    Raises:
        Refused: `no_model`.
    """
    review, _created = RedactionReview.objects.get_or_create(study=study)
    find_names = _name_finder(review.model)
    rules = rules_of(study, review)
    n_rows = n_texts = n_new = 0
    for field, (select_rows, texts_of) in _SOURCES.items():
        rows = select_rows(study).order_by("pk").iterator(chunk_size=_BATCH)
        while batch := list(islice(rows, _BATCH)):
            row_texts = [(row, text) for row in batch for text in texts_of(row) if text]
            hits: dict[tuple[int, str, int, int, str], Hit] = {}
            name_hits = find_names([text for _row, text in row_texts])
            for (row, text), names in zip(row_texts, name_hits, strict=True):
                text_hits = rules.find_hits(text)
                free = [n for n in names if not any(n.start < h.end and h.start < n.end for h in text_hits)]
                if text_hits or free:
                    digest = text_digest(study, text)
                    for hit in [*text_hits, *free]:
                        hits[row.pk, digest, hit.start, hit.end, hit.kind] = hit
            n_new += _store_hits(study, field, [row.pk for row in batch], hits)
            n_rows, n_texts = n_rows + len(batch), n_texts + len(row_texts)
            report(n_rows)
    if n_new or n_texts != review.n_texts:
        review.finished_at = None
    review.n_texts, review.searched_at = n_texts, database_now()
    review.save(update_fields=["finished_at", "n_texts", "searched_at"])
    return review


def _store_hits(study: Study, field: str, pks: list[int], hits: dict[tuple[int, str, int, int, str], Hit]) -> int:
    """Make the stored hits of these rows equal to `hits`; return the number of new ones."""
    with transaction.atomic():
        RedactionReview.objects.select_for_update().get(study=study)  # one search at a time gives out numbers
        stored_hits = RedactionHit.objects.filter(study=study, **{f"{field}__in": pks})
        stored = {
            (getattr(hit, f"{field}_id"), hit.text_digest, hit.start, hit.end, hit.kind): hit for hit in stored_hits
        }
        RedactionHit.objects.filter(pk__in=[hit.pk for key, hit in stored.items() if key not in hits]).delete()
        new_hits = {key: hit for key, hit in hits.items() if key not in stored}
        digests = {key: value_digest(study, hit.kind, hit.value) for key, hit in new_hits.items()}
        study_hits = RedactionHit.objects.filter(study=study)
        known_values = study_hits.filter(value_digest__in=set(digests.values())).order_by()
        numbers = dict(known_values.values_list("value_digest", "number"))
        highest = dict(study_hits.order_by().values_list("kind").annotate(Max("number"))) if new_hits else {}
        rows = []
        for key in new_hits:
            pk, digest, start, end, kind = key
            if digests[key] not in numbers:
                highest[kind] = numbers[digests[key]] = highest.get(kind, 0) + 1
            row = RedactionHit(study=study, text_digest=digest, start=start, end=end, kind=kind)
            setattr(row, f"{field}_id", pk)
            row.value_digest, row.number = digests[key], numbers[digests[key]]
            rows.append(row)
        RedactionHit.objects.bulk_create(rows)
        return len(rows)


def search_order(*, study: Study, names: str, model: str, created_by: Any) -> Job:
    """Store what to look for, and return the job that searches the study's texts.

    Raises:
        Refused: `too_long`; `no_model`.
    """
    if len(names) > MOST_NAMES_CHARS:
        raise Refused("too_long", _("The list of names is longer than {n} characters.").format(n=MOST_NAMES_CHARS))
    if model and model not in installed_models():
        raise Refused("no_model", _("The spaCy model {model} is not installed on this server.").format(model=model))
    names = "\n".join(dict.fromkeys(filter(None, (" ".join(name.split()) for name in names.splitlines()))))
    with transaction.atomic():
        RedactionReview.objects.update_or_create(study=study, defaults={"names": names, "model": model})
        return search_job(study) or job_create(kind="redaction", payload={}, study=study, created_by=created_by)


def search_job(study: Study) -> Job | None:
    """Return the running search of a study's texts."""
    return Job.objects.filter(kind="redaction", study=study, state__in=UNFINISHED).first()


def hit_decide(*, study: Study, pk: int, decision: str, everywhere: bool = False) -> int:
    """Store the decision about a hit, or about all hits with its value; return their number.

    Raises:
        Refused: `bad_decision`; `no_hit`: the text has been erased.
    """
    if decision not in Decision.values:
        raise Refused("bad_decision", _("The decision is neither “replace” nor “keep”."))
    hits = RedactionHit.objects.filter(study=study)
    hit = hits.filter(pk=pk).first()
    if hit is None:
        raise Refused("no_hit", _("This hit no longer exists. Reload the page."))
    same = hits.filter(value_digest=hit.value_digest) if everywhere else hits.filter(pk=pk)
    n_hits = same.update(decision=decision)
    if decision == Decision.UNDECIDED:
        RedactionReview.objects.filter(study=study).update(finished_at=None)
    return n_hits


def rest_replace(*, study: Study, kind: str) -> int:
    """Decide to replace all undecided hits of a kind; return their number."""
    undecided = RedactionHit.objects.filter(study=study, kind=kind, decision=Decision.UNDECIDED)
    return undecided.update(decision=Decision.REPLACE)


def review_finish(*, study: Study) -> None:
    """Mark the review as finished.

    Raises:
        Refused: `not_searched`; `undecided`.
    """
    summary = summarise_redaction(study)
    if summary is None:
        raise Refused("not_searched", _("Search the texts first."))
    if summary.n_undecided:
        raise Refused("undecided", _("There are {n} undecided hits.").format(n=summary.n_undecided))
    RedactionReview.objects.filter(study=study).update(finished_at=database_now())


@dataclass(frozen=True, slots=True)
class RedactionSummary:
    """State of a study's review.

    Attributes:
        counts: number of hits by kind and decision.
        n_names: length of the researcher's list of names.
    """

    n_texts: int
    counts: dict[str, Counter[str]]
    n_names: int
    model: str
    is_finished: bool

    @property
    def n_undecided(self) -> int:
        """Number of hits without a decision."""
        return sum(counter[Decision.UNDECIDED] for counter in self.counts.values())

    def total(self, decision: str) -> int:
        """Return the number of hits with a decision."""
        return sum(counter[decision] for counter in self.counts.values())

    def describe(self) -> str:
        """Describe the review for the datasheet, the README and the dataset card."""
        if self.is_finished:
            opening = f"A person reviewed the hits in {self.n_texts:,} texts."
        else:
            opening = f"{self.n_texts:,} texts were searched; the review is not finished."
        replaced = [
            f"{KINDS[kind].lower()}: {n}"
            for kind, counter in self.counts.items()
            if (n := counter[Decision.REPLACE] + counter[Decision.UNDECIDED])
        ]
        ways = [f"from a list of {self.n_names}"] if self.n_names else []
        ways += [f"with the model {self.model}"] if self.model else []
        names = ", and ".join(ways) or "not searched"
        return (
            f"{opening} Replaced by placeholders: {', '.join(replaced) or 'nothing'}; kept after review: "
            f"{self.total(Decision.KEEP)}; undecided and therefore replaced: {self.n_undecided}. Names: {names}."
            + ("" if self.model else " Other names were not found without a model.")
        )


def summarise_redaction(study: Study) -> RedactionSummary | None:
    """Return the state of the review; None before the first search."""
    review = RedactionReview.objects.filter(study=study).exclude(searched_at=None).first()
    if review is None:
        return None
    counts: dict[str, Counter[str]] = {kind: Counter() for kind in KINDS}
    rows = RedactionHit.objects.filter(study=study).order_by().values_list("kind", "decision")
    for kind, decision, n in rows.annotate(n=Count("pk")):
        counts[kind][decision] = n
    n_names = len(review.names.splitlines())
    return RedactionSummary(review.n_texts, counts, n_names, review.model, review.finished_at is not None)


@dataclass(frozen=True, slots=True)
class ShownHit:
    """Hit with the words around it.

    Attributes:
        n_same: number of hits with the same value.
    """

    hit: RedactionHit
    place: str
    before: str
    value: str
    after: str
    n_same: int


_PLACES = {"turn": "Message", "rating": "Rating", "answers": "Answer before the task", "item": "Item"}


def list_hits(study: Study, *, kind: str, decided: bool, after: int, limit: int) -> list[ShownHit]:
    """Return hits with the words around them, in the order of their values.

    Args:
        kind: empty: all kinds.
        decided: True for decided hits, False for undecided ones.
        after: number of hits to skip.
    """
    hits = RedactionHit.objects.filter(study=study)
    hits = hits.exclude(decision="") if decided else hits.filter(decision="")
    hits = hits.filter(kind=kind) if kind else hits
    page = list(hits.select_related("turn__image", "rating", "answers", "item")[after : after + limit])
    values = {hit.value_digest for hit in page}
    same = RedactionHit.objects.filter(study=study, value_digest__in=values).order_by()
    n_same = dict(same.values_list("value_digest").annotate(n=Count("pk")))
    return [shown for hit in page if (shown := _show_hit(study, hit, n_same[hit.value_digest])) is not None]


def _show_hit(study: Study, hit: RedactionHit, n_same: int) -> ShownHit | None:
    """Return a hit with its context; None if the text has changed since the search."""
    field = next(name for name in _SOURCES if getattr(hit, f"{name}_id") is not None)
    texts = _SOURCES[field][1](getattr(hit, field))
    text = next((text for text in texts if text and text_digest(study, text) == hit.text_digest), None)
    if text is None:
        return None
    before, after = text[max(0, hit.start - _CONTEXT_CHARS) : hit.start], text[hit.end : hit.end + _CONTEXT_CHARS]
    before = f"…{before}" if hit.start > _CONTEXT_CHARS else before
    after = f"{after}…" if hit.end + _CONTEXT_CHARS < len(text) else after
    return ShownHit(hit, _PLACES[field], before, text[hit.start : hit.end], after, n_same)


def hits_of(people: QuerySet[Participant]) -> QuerySet[Any]:
    """Return the hits in these participants' texts."""
    return RedactionHit.objects.filter(
        Q(turn__conversation__participant__in=people)
        | Q(rating__participant__in=people)
        | Q(rating__conversation__participant__in=people)
        | Q(answers__participant__in=people)
    )


def redaction_review(study: Study) -> RedactionReview:
    """Return the study's review; an unsaved one before the first search."""
    return RedactionReview.objects.filter(study=study).first() or RedactionReview(study=study)


def hits_of_study(study: Study) -> QuerySet[Any]:
    """Return all hits of a study."""
    return RedactionHit.objects.filter(study=study)


def hits_forget(_study: Study, hits: QuerySet[Any]) -> None:
    """Delete hits whose texts are erased."""
    hits.delete()
