"""Studies in notebooks: conversations and ratings, read or played, and their analyses.

    study = read("ratings.jsonl.gz")
    study.metrics(["question", "sentiment"])
    hybrid(study, target="quality").plot()

The tables have the columns of exports: `conversation`, `bot`, `rater`, `turn`, and one for each question.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from chatbots import Conversation
from chatbots.installation import TEXT_STORE_PATH
from chatbots.text import quote
from evaluation.agreement.metric_agreement import (
    JUDGED_TABLE,
    JudgedReplies,
    items_from_votes,
    judged_rows,
    judgements_of,
)
from evaluation.data.formats.base import CONDITION, RecordRating, Skipped
from evaluation.data.formats.scales import FileScales, Scale
from evaluation.data.formats.tables import is_missing
from evaluation.data.populations import SMALLEST_GROUP, Margins, read_margins
from evaluation.data.ratings import Ratings
from evaluation.data.scores import match_scores
from evaluation.metrics.imported import ScoreFileMetric, imported_metrics
from evaluation.metrics.registry import metric_defaults, metric_get, metric_list
from evaluation.metrics.text_cache import TextCache
from evaluation.number_format import figure, pluralise

if TYPE_CHECKING:
    import pandas as pd

    from chatbots.encoders.cache import TextStore
    from evaluation.analysis.agreement import ItemSets
    from evaluation.analysis.comparisons import Comparisons
    from evaluation.analysis.formula_model import FormulaModel, Kind
    from evaluation.analysis.population import PopulationResult
    from evaluation.analysis.raters import RaterAnalysis
    from evaluation.analysis.rating_models import RatingModels
    from evaluation.analysis.stopping import StoppingOutlook
    from evaluation.metrics.base import Metric, MetricTable
    from evaluation.plots.svg import Plot

FIRST_COLUMNS = ("conversation", "bot")

_data_folder: Callable[[], Path] | None = None


def vectors_kept_in(data_folder: Callable[[], Path] | None) -> None:
    """Store encoder vectors of all studies in a data folder shared with the server.

    Args:
        data_folder: called when vectors are first needed; None to store nothing.
    """
    global _data_folder
    _data_folder = data_folder


def text_store() -> TextStore | None:
    """Return the store of encoder vectors, if any (`vectors_kept_in`)."""
    if _data_folder is None:
        return None
    from chatbots.encoders.cache import TextStore

    return TextStore(_data_folder() / TEXT_STORE_PATH)


@dataclass(frozen=True, slots=True)
class StudyDialogue:
    """Conversation of a study with its bot, source and ratings.

    Attributes:
        flags: flags of its participant; None if the file has no flags.
        line: line number in its file, from 1; 0 if not from a file.
        condition: its level of each factor of the study.
        meta: other fields of the conversation, for models.
        person: the human chat partner; if empty, the only rater counts (`get_person`).
    """

    conversation: Conversation
    bot: str
    source: str = ""
    ratings: tuple[RecordRating, ...] = ()
    flags: tuple[str, ...] | None = None
    line: int = 0
    condition: Mapping[str, str] = field(default_factory=dict)
    meta: Mapping[str, Any] = field(default_factory=dict, hash=False)
    person: str = ""

    def get_person(self) -> str:
        """Return the human chat partner, or else the only rater; empty if unknown."""
        raters = {rating.rater for rating in self.ratings if rating.rater}
        return self.person or (raters.pop() if len(raters) == 1 else "")


@dataclass(frozen=True, eq=False, repr=False)
class Study:
    """Conversations and ratings to analyse.

    Attributes:
        name: name of the file, or of the bots that played.
        dialogues: in file order, with unique conversation ids.
        skipped: unreadable records with line and reason, or failed conversations of self-play.
        is_selfplay: True for self-play, in which metrics describe the bot's next utterance.
        device: device of metrics that use torch ("cpu", "cuda").
        scale: lowest and highest possible answer, or a mapping from questions ("" for all others). Without it, the
            smallest and largest answers are used and do not limit intervals.
        reversed, higher: questions for which high answers are bad, or good; unknown for all others.
        controls: deliberately poor bots, marked by `meta.degraded_control`; excluded from rankings and models.
        tables: exported tables of a data package, by name.
        left_out: names of tables missing from a data package because the requesting user lacked the permission.
        notes: guesses made when reading the file, and unused columns.
        imported: metrics of files of scores, by name (`with_scores`).
    """

    name: str
    dialogues: tuple[StudyDialogue, ...]
    skipped: tuple[Skipped, ...] = ()
    is_selfplay: bool = False
    device: str = "cpu"
    scale: Scale | Mapping[str, Scale] | None = None
    reversed: tuple[str, ...] = ()
    higher: tuple[str, ...] = ()
    controls: tuple[str, ...] = ()
    tables: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    imported: Mapping[str, ScoreFileMetric] = field(default_factory=dict)
    _computed: dict[str, MetricTable] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        seen: set[str] = set()
        for dialogue in self.dialogues:
            if dialogue.conversation.id in seen:
                raise ValueError(f"two conversations have the id {quote(dialogue.conversation.id)}; ids must be unique")
            seen.add(dialogue.conversation.id)

    def __len__(self) -> int:
        return len(self.dialogues)

    def __repr__(self) -> str:
        description = f"{pluralise(len(self), 'conversation')} with {pluralise(len(self.bots), 'bot')}"
        if self.dimensions:
            description += f", {pluralise(len(self.ratings), 'rating')} on {', '.join(self.dimensions)}"
        if self.skipped:
            description += f"; {pluralise(len(self.skipped), 'record')} skipped"
        if self.notes:
            description += f"; {pluralise(len(self.notes), 'note')} on how it was read"
        return f"Study {self.name}: {description}"

    @cached_property
    def judged(self) -> JudgedReplies:
        """Rated single replies for `judge`.

        These are a data package's table of them, otherwise the replies with votes.
        """
        table = self.tables.get(JUDGED_TABLE)
        if table is not None:
            return judgements_of(judged_rows(table))
        return judgements_of(items_from_votes((dialogue.conversation, dialogue.bot) for dialogue in self.dialogues))

    @cached_property
    def bots(self) -> tuple[str, ...]:
        """The bots in alphabetical order."""
        return tuple(sorted({dialogue.bot for dialogue in self.dialogues}))

    @cached_property
    def dimensions(self) -> tuple[str, ...]:
        """The questions that ratings answer, in order of first appearance."""
        return tuple(
            dict.fromkeys(key for dialogue in self.dialogues for rating in dialogue.ratings for key in rating.answers)
        )

    @cached_property
    def condition_columns(self) -> tuple[str, ...]:
        """Column names of the study's factors, in order of first appearance."""
        return tuple(dict.fromkeys(column for dialogue in self.dialogues for column in _condition(dialogue)))

    @cached_property
    def conversations(self) -> pd.DataFrame:
        """One row per conversation.

        The columns are `conversation`, `bot`, `source`, `n_turns`, `n_exchanges`, `n_ratings`, and `condition_…` for
        each factor.
        """
        return _frame(
            [
                {
                    **_ids(dialogue),
                    "source": dialogue.source,
                    "n_turns": len(dialogue.conversation.turns),
                    "n_exchanges": dialogue.conversation.n_exchanges,
                    "n_ratings": len(dialogue.ratings),
                    **_condition(dialogue),
                }
                for dialogue in self.dialogues
            ],
            (*FIRST_COLUMNS, "source", "n_turns", "n_exchanges", "n_ratings", *self.condition_columns),
        )

    @cached_property
    def messages(self) -> pd.DataFrame:
        """One row per utterance: `conversation`, `bot`, `turn` (from 0), `speaker`, `text`, `vote`."""
        return _frame(
            [
                {
                    **_ids(dialogue),
                    "turn": number,
                    "speaker": turn.speaker,
                    "text": turn.text,
                    "vote": turn.vote if turn.speaker == "bot" else None,
                }
                for dialogue in self.dialogues
                for number, turn in enumerate(dialogue.conversation.turns)
            ],
            (*FIRST_COLUMNS, "turn", "speaker", "text", "vote"),
        )

    @cached_property
    def ratings(self) -> pd.DataFrame:
        """One row per rating.

        The columns are `conversation`, `bot`, `rater` (None if raters are unnamed), one for each question, and
        `condition_…` for each factor.
        """
        table = _frame(
            [
                {
                    **rating.answers,
                    **_ids(dialogue),
                    "rater": None if is_missing(rating.rater) else rating.rater,
                    **_condition(dialogue),
                }
                for dialogue in self.dialogues
                for rating in dialogue.ratings
            ],
            (*FIRST_COLUMNS, "rater", *self.dimensions, *self.condition_columns),
        )
        table[list(self.dimensions)] = table[list(self.dimensions)].astype(float)
        return table

    @cached_property
    def answers(self) -> Ratings:
        """Ratings in the form that every analysis uses: higher is better."""
        return Ratings.from_frame(
            self.ratings,
            self.dimensions,
            scale=self.scale,
            reversed=self.reversed,
            higher=self.higher,
            controls=self.controls,
        )

    @cached_property
    def flags(self) -> dict[str, int]:
        """Number of conversations by participant flag; empty if the file has none."""
        flag_names = [name for dialogue in self.dialogues for name in dialogue.flags or ()]
        return {name: flag_names.count(name) for name in sorted(set(flag_names))}

    def where(self, *, bots: Sequence[str] | None = None, without: Sequence[str] | str = ()) -> Study:
        """Return a selection of the conversations.

        Args:
            bots: only these bots; None for all.
            without: flags such as "fast"; conversations of flagged participants are excluded, like the commands'
                `--without`.

        Raises:
            ValueError: if the study lacks a bot or the file has no flags.
        """
        bots = self.bots if bots is None else bots
        without = (without,) if isinstance(without, str) else tuple(without)
        unknown = [bot for bot in bots if bot not in self.bots]
        if unknown:
            raise ValueError(f"the study has no bot {quote(unknown[0])}; its bots are {', '.join(self.bots)}")
        if without and all(dialogue.flags is None for dialogue in self.dialogues):
            raise ValueError(f"{self.name} has no flags; the exported table of conversations has them")
        dialogues = tuple(
            dialogue
            for dialogue in self.dialogues
            if dialogue.bot in bots and not set(without) & set(dialogue.flags or ())
        )
        return replace(self, dialogues=dialogues)

    def within(self, scales: FileScales) -> Study:
        """Return the study without answers outside their scale; `skipped` lists these.

        Raises:
            ValueError: if a scale is given for a question that is not rated.
        """
        scales.check_questions(self.dimensions)
        dialogues, skipped = [], list(self.skipped)
        for dialogue in self.dialogues:
            ratings, reasons = scales.keep(dialogue.ratings)
            dialogues.append(replace(dialogue, ratings=ratings) if reasons else dialogue)
            name = dialogue.conversation.id
            skipped += [Skipped(dialogue.line, f"conversation {quote(name)}: {reason}") for reason in reasons]
        return replace(self, dialogues=tuple(dialogues), skipped=tuple(skipped))

    def metrics(
        self, names: Sequence[str] | None = None, *, level: Literal["conversation", "turn"] = "conversation"
    ) -> pd.DataFrame:
        """Compute metrics; values are cached.

        Args:
            names: metric names (see `docs/reference/metrics.md`); None for the defaults.
            level: one row per conversation, or per turn.

        Returns:
            `conversation`, `bot` (and `turn`), and one column per quantity; NaN if undefined.

        Raises:
            UnknownName: for an unknown metric; the message suggests the nearest names.
            MetricUnavailable: if a metric cannot be computed on this machine.
        """
        import pandas as pd

        from evaluation.metrics.registry import compute_all

        chosen: list[Metric]
        chosen = [self.imported.get(name) or metric_get(name) for name in names] if names else metric_defaults()
        missing = [metric for metric in chosen if metric.name not in self._computed]
        if missing:
            self._computed.update(
                compute_all(
                    [dialogue.conversation for dialogue in self.dialogues],
                    missing,
                    self_play=self.is_selfplay,
                    shared=self.shared,
                )
            )
        tables = [self._computed[metric.name] for metric in chosen]
        parts = [table.turns if level == "turn" else table.conversations for table in tables]
        table = pd.concat(parts, axis=1).reset_index()
        bot_of = {dialogue.conversation.id: dialogue.bot for dialogue in self.dialogues}
        table.insert(1, "bot", table["conversation"].map(bot_of).astype(object))
        return table

    @cached_property
    def shared(self) -> TextCache:
        """Cache shared by the study's metrics and fits: each text is encoded once.

        With `vectors_kept_in`, vectors are also reused across sessions.
        """
        return TextCache(self.device, store=text_store())

    def with_scores(self, path: Path | str) -> Study:
        """Return the study with the metrics of a file of scores, as `import_scores` reads it.

        `metrics(["maude"])` then returns them, `hybrid(study, features=["maude"])` uses them, and
        `judge(study, [study.imported["maude"]])` compares them with people. `skipped` lists unusable rows.

        Raises:
            ValueError: the file is not one of scores.
        """
        replies = {
            dialogue.conversation.id: [
                n for n, turn in enumerate(dialogue.conversation.turns) if self.is_selfplay or turn.speaker == "bot"
            ]
            for dialogue in self.dialogues
        }
        reserved = {column.name for metric in metric_list() for column in metric.columns} | set(self.dimensions)
        reserved |= {metric.name for metric in metric_list()} | set(FIRST_COLUMNS)
        items = {item.id for item in self.judged.items if item.id.rpartition("/")[0] not in replies} - replies.keys()
        known = {name: name for name in (*replies, *items)}
        matched = match_scores(Path(path), find=known.get, turns=replies.get, reserved=reserved)
        return replace(
            self,
            imported={**self.imported, **imported_metrics(matched.metrics)},
            skipped=(*self.skipped, *matched.skipped),
        )

    def plot(self, target: str | Sequence[str] | None = None, *, level: float | None = None) -> Plot:
        """Draw a matrix of mean differences between bots, as on the comparison page.

        Args:
            target: one or more questions (averaged); None for the ranking criterion.
            level: as in `compare`.

        Raises:
            ValueError: without ratings, with fewer than two rated bots, or for an unknown question.
        """
        from evaluation.analysis.comparisons import compare as compared
        from evaluation.analysis.levels import check_level

        return compared(replace(rated(self), level=check_level(level)), target, plans=False).plot()

    def summary(self) -> str:
        """Return a text table of the bots: conversations, ratings and mean answers."""
        counts = self.conversations.groupby("bot")["n_ratings"].agg(["size", "sum"])
        means = self.ratings.groupby("bot")[list(self.dimensions)].mean()
        width = max(map(len, (*self.bots, "bot")))
        heads = [f"{name:>6}" for name in self.dimensions]
        lines = [repr(self), f"{'bot':<{width}} {'chats':>7} {'ratings':>8} {' '.join(heads)}".rstrip()]
        for bot in self.bots:
            cells = [
                f"{figure(means[name].get(bot)):>{len(head)}}"
                for name, head in zip(self.dimensions, heads, strict=True)
            ]
            n_chats, n_ratings = counts.loc[bot]
            lines.append(f"{bot:<{width}} {n_chats:>7,} {n_ratings:>8,} {' '.join(cells)}".rstrip())
        return "\n".join([*lines, *(f"Note: {note}" for note in self.notes)])


Target = str | Sequence[str] | None
Factors = Mapping[str, Mapping[str, str]]


def compare(
    study: Study, target: Target = None, *, smallest: float | None = None, level: float | None = None
) -> Comparisons:
    """Compare every pair of a study's bots by their ratings.

    Tests both for differences and for equivalence.

    Args:
        target: one or more questions (averaged); None for the ranking criterion.
        smallest: smallest difference of interest, in points. Two bots are equivalent if the 1 − 2α = 90 % interval of
            their difference lies within ± this value. None: a tenth of the scale, if known.
        level: confidence level of the intervals; differences are tested at 1 − level. None: .90.
    """
    from evaluation.analysis.comparisons import compare as compared
    from evaluation.analysis.levels import check_level

    return compared(replace(rated(study), level=check_level(level)), target, smallest=smallest)


def when_to_stop(
    study: Study, target: Target = None, *, smallest: float | None = None, level: float | None = None
) -> StoppingOutlook:
    """Forecast how many more participants decide the undecided pairs of bots.

    The result is the line on the pages of a study that is collecting, with a range for every pair.

    Args:
        target: one or more questions (averaged); None for the ranking criterion.
        smallest: as in `compare`; bots whose difference is certainly smaller are decided, too.
        level: as in `compare`.

    Raises:
        ValueError: without ratings, or for an unknown question.
    """
    from evaluation.analysis.levels import check_level
    from evaluation.analysis.stopping import stopping_outlook

    return stopping_outlook(replace(rated(study, target), level=check_level(level)), smallest=smallest)


def models(
    study: Study, factors: Factors | None = None, *, target: Target = None, level: float | None = None
) -> RatingModels:
    """Model ratings by ANOVA, random rater effects and proportional odds.

    Args:
        factors: properties of the bots, as name → bot → level, such as `{"corpus": {"hred": "reddit", …}}`.
        target: one or more questions; None for all, with the ranking criterion first.
        level: confidence level of the intervals; tests are at 1 − level. None: .90, with tests at .05.
    """
    from evaluation.analysis.levels import check_level
    from evaluation.analysis.rating_models import rating_models

    return rating_models(rated(study, target), factors, level=check_level(level))


def model(
    study: Study | pd.DataFrame,
    formula: str,
    *,
    kind: Kind = "linear",
    factors: Mapping[str, Mapping[str, str]] | None = None,
    level: float | None = None,
) -> FormulaModel:
    """Fit a formula such as `quality ~ bot * scenario + (1|rater) + (1|item)` to ratings.

    Args:
        study: a study, with the conversations' conditions and `meta` as additional columns; or a table with one row per
            rating.
        formula: column names with `+ * :`, and random effects `(1|column)`; `y` is the ranking criterion.
        kind: "linear" or "ordinal" (cumulative logit).
        factors: properties of the bots, as name → bot → level.
        level: confidence level of the intervals; reported with the result. None: .90.

    Raises:
        ValueError: without ratings, for an invalid formula or an unknown column, or unless level is between .5 and 1.
    """
    from evaluation.analysis.formula_model import formula_model, model_frame
    from evaluation.analysis.levels import check_level

    level = check_level(level)
    if not isinstance(study, Study):
        return formula_model(study, formula, kind=kind, level=level)
    meta, ratings = {dialogue.conversation.id: dialogue.meta for dialogue in study.dialogues}, rated(study)
    return formula_model(model_frame(ratings, meta, factors), formula, kind=kind, level=level, ratings=ratings)


def population(
    study: Study,
    background: pd.DataFrame | Mapping[str, Mapping[str, str]],
    margins: Margins | Path | str | None = None,
    *,
    target: Target = None,
    smallest: int = SMALLEST_GROUP,
    level: float | None = None,
) -> PopulationResult:
    """Weight the raters to a population, and compare the bots by group of raters.

    Args:
        background: table with the column `rater` and one for each question; or question → rater → answer.
        margins: share of each answer in the population: question → answer → share, the table `question,answer,share`
            as text, or the path of its file. None to compare groups only.
        target: one or more questions (averaged); None for the ranking criterion.
        smallest: minimum number of raters in a group; smaller ones are merged in all results.
        level: confidence level of the intervals; differences are tested at 1 − level. None: .90.

    Raises:
        ValueError: without ratings, for an unknown question, or for an invalid table of shares.
    """
    from evaluation.analysis.levels import check_level
    from evaluation.analysis.population import population_result

    if not isinstance(background, Mapping):
        answers = background.set_index("rater").astype(object)
        answers = answers.where(answers.notna(), "").astype(str)
        background = {str(question): dict(answers[question]) for question in answers}
    if isinstance(margins, Path) or (isinstance(margins, str) and "\n" not in margins):
        margins = Path(margins).read_text(encoding="utf-8-sig")
    shares = read_margins(margins) if isinstance(margins, str) else dict(margins or {})
    if unknown := [question for question in shares if question not in background]:
        known = ", ".join(background) or "none"
        raise ValueError(f"the background has no question {quote(unknown[0])}; it has {known}")
    ratings = replace(rated(study, target), level=check_level(level))
    return population_result(ratings, background, shares, smallest=smallest)


def raters(study: Study, *, target: str | Sequence[str] | None = None) -> RaterAnalysis:
    """Return the raters' agreement, use of the scale, and screening by rater filters.

    Args:
        target: one or more questions; None for all, with the ranking criterion first.

    Raises:
        ValueError: without ratings, or for an unknown question.
    """
    from evaluation.analysis.raters import analyse_raters

    return analyse_raters(rated(study, target))


def agreement(study: Study) -> ItemSets:
    """Return inter-rater agreement by source: kappas and alpha, with intervals.

    Raises:
        ValueError: without ratings.
    """
    from evaluation.analysis.agreement import item_sets

    sets = {dialogue.conversation.id: dialogue.source for dialogue in study.dialogues}
    return item_sets(rated(study), sets)


def rated(study: Study, target: str | Sequence[str] | None = None) -> Ratings:
    """Return the study's ratings, restricted to the target if there is one.

    Raises:
        ValueError: without ratings, or for an unknown question.
    """
    if not study.dimensions:
        raise ValueError(f"{study.name} has no ratings, so there is nothing to analyse")
    return study.answers if target is None else study.answers.only(target)


def _ids(dialogue: StudyDialogue) -> dict[str, Any]:
    return {"conversation": dialogue.conversation.id, "bot": dialogue.bot}


def _condition(dialogue: StudyDialogue) -> dict[str, str]:
    return {f"{CONDITION}{factor}": level for factor, level in dialogue.condition.items()}


def _frame(rows: list[dict[str, Any]], columns: Sequence[str]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(rows, columns=list(columns))
