"""Protocols of items: single replies, comparisons of two, and two stored conversations.

Annotate: a number of stored replies are judged on the rubric, one after another. The forms of the papers are made
from it.

Aspects: several qualities of a reply, each on its own scale (Lan et al. 2020).

Majority: one of four ordered grades a reply, and the one that most raters give counts (Dziri et al. 2019).

Survey: how well does a reply fit, asked of a few items and one attention check a task (Huang et al. 2020).

Choose: participants choose a fixed number of several things; their shares give weights (Shi et al. 2023).

Reference: replies rated next to a known one that has a score (Shi et al. 2023).

Pairwise: two replies to one context, win, lose or tie on each question. As the one-turn evaluation of Ghandeharioun
et al. (2019): batches of comparisons, practice that must be passed, six to eight raters for each comparison.

Best-worst: four replies to one context, of which a participant names the best and the worst (Louviere et al. 2015).

Dialogues: two stored conversations side by side, a choice between their chatbots, and the reason. As ACUTE-Eval (Li
et al. 2019): there is no tie.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext, gettext_lazy, ngettext
from django.utils.translation import gettext_lazy as _

from chatbots import Identity
from chatbots.text import is_blank
from evaluation.analysis.best_worst import N_SHOWN, BestWorstChoices
from webapp.studies.models import Item, StudyVersion
from webapp.studies.protocols.base import (
    Activity,
    Draw,
    ExtraAnswer,
    Gives,
    JudgePage,
    ReplyOrder,
    SlotPlan,
    Step,
    StudyProtocol,
    TaskPlan,
    WorkDescription,
    register_protocol,
    usual_steps,
)
from webapp.studies.questions import Question
from webapp.studies.ready_made import READY_MADE, ready_questions
from webapp.studies.rubrics import post_task_questions
from webapp.studies.settings import StudyValues


@register_protocol
class AnnotateProtocol(StudyProtocol):
    """Protocol: single items on any questions.

    A task has as many items as the study sets; a returning participant gets others, possibly fewer in the last task.
    """

    name = "annotate"
    title = "Annotate items"
    description = "Each person rates some replies, one by one, on any questions that you like."
    headline = "Rate a chatbot’s replies"
    gives: Gives = "items"
    activity_place = 1
    settings: tuple[str, ...] = ("judging", "helping", "attention")
    identity = Identity("annotate", "1")
    steps = usual_steps(Step("judge", _("Rate")))
    page = JudgePage(_("How good is this reply?"), _("Reply %(n)s of %(of)s"))
    asks: tuple[Question, ...] = ready_questions("annotate")

    def next_task(self, draw: Draw) -> TaskPlan:
        items = draw.with_checks(draw.items(draw.values.judging.n_items, least=1))
        return TaskPlan("judge", tuple(SlotPlan(item=item) for item in items))


@register_protocol
class AspectsProtocol(AnnotateProtocol):
    """Protocol: fluency, coherence, engagement and the overall reply."""

    name = "aspects"
    title = "Several aspects"
    description = "Each person rates replies on several aspects: fluency, coherence, engagement, overall."
    headline = "Rate a chatbot’s replies"
    activity_place = 2
    identity = Identity("aspects", "1")
    page = JudgePage(_("Rate this reply"), _("Reply %(n)s of %(of)s"))
    asks = ready_questions("aspects")

    def example(self) -> dict[str, Any]:
        # A panel of three, as Lan et al. (2020) had.
        return {"judging": {"raters_least": 3, "raters_wanted": 3, "raters_most": 3}}


@register_protocol
class MajorityProtocol(AnnotateProtocol):
    """Bad, poor, good or excellent, stored as 0 to 3."""

    name = "majority"
    title = "Four grades, majority"
    description = "Each person grades replies from bad to excellent; what most say counts."
    headline = "Grade a chatbot’s replies"
    activity_place = 3
    identity = Identity("majority", "1")
    page = JudgePage(_("How good is this reply?"), _("Reply %(n)s of %(of)s"))
    results = ("grades",)
    asks = ready_questions("majority")

    def example(self) -> dict[str, Any]:
        # Five people for each reply, as Dziri et al. (2019) had.
        return {"judging": {"raters_least": 5, "raters_wanted": 5, "raters_most": 5}}


@register_protocol
class SurveyProtocol(AnnotateProtocol):
    """Protocol: five items with an attention check among them.

    The work of a participant who misses it is excluded.
    """

    name = "survey"
    title = "Coherence survey"
    description = "Each person says of a few replies how well they fit, with an attention check among them."
    headline = "Say how well replies fit"
    activity_place = 4
    identity = Identity("survey", "1")
    page = JudgePage(
        _("How well does the reply fit?"), _("Reply %(n)s of %(of)s"), hint=_("Judge the fit, not whether you agree.")
    )
    asks = ready_questions("survey")
    needs_checks = True

    def example(self) -> dict[str, Any]:
        check = {**READY_MADE["entries"]["attention_checks"], "expected": {"coherence": [2]}}
        # Eight to ten people for each reply, as Huang et al. (2020) had.
        raters = {"raters_least": 8, "raters_wanted": 8, "raters_most": 10}
        return {"attention": {"attention_checks": [check], "n_checks": 1}, "judging": raters}


@register_protocol
class ChooseProtocol(AnnotateProtocol):
    """Protocol: a choice from a list, once per participant.

    Each option is stored as chosen (1) or not (0).
    """

    name = "choose"
    title = "Choose what matters"
    description = "Each person chooses a given number of things that matter most, such as the weights of a rating."
    identity = Identity("choose", "1")
    activity: Activity | None = "list"
    settings = ("choosing",)
    asks = ready_questions("weights")
    instructions = "Read all of the things first.\nChoose those that matter most to you; there are no right answers."
    scale = (0, 1)
    page = JudgePage(_("What matters most?"), _("Question %(n)s of %(of)s"), sheet="choose", template="choose")
    has_one_item = True
    results = ("approval",)

    def next_task(self, draw: Draw) -> TaskPlan:
        [item] = draw.items(1)
        return TaskPlan("judge", (SlotPlan(item=item),))

    def work(self, values: StudyValues, n_asked: tuple[int, int]) -> WorkDescription:
        n = values.choosing.n_choose
        return WorkDescription(
            gettext("You choose from a list. There are no right or wrong answers."),
            ngettext("%(n)s item", "%(n)s items", n) % {"n": n},
            gettext("to choose"),
            "n_choose",
        )

    def answers_wrong(self, version: StudyVersion, answers: Mapping[str, float], comment: str) -> dict[str, str]:
        n_to_choose, chosen = version.values.choosing.n_choose, sum(answers.values())
        if chosen == n_to_choose:
            return {}
        words = ngettext(
            "Please choose exactly %(wanted)d; you chose %(chosen)d.",
            "Please choose exactly %(wanted)d; you chose %(chosen)d.",
            n_to_choose,
        )
        return {"chosen": words % {"wanted": n_to_choose, "chosen": chosen}}


@register_protocol
class ReferenceProtocol(AnnotateProtocol):
    """Protocol: replies compared with a known one, then rated.

    Participants say first whether a reply is better, then answer each question; they may revise the known reply's
    score.
    """

    name = "reference"
    title = "Rating beside a reference"
    description = (
        "Each person says whether a reply is better than one with a known score, then rates it; the known score "
        "may be revised."
    )
    headline = "Rate replies next to a reference reply"
    activity_place = 5
    identity = Identity("reference", "1")
    settings = ("judging", "attention", "referencing")
    page = JudgePage(
        gettext_lazy("Rate the reply next to a reference reply"),
        gettext_lazy("Reply %(n)s of %(of)s"),
        sheet="reference",
        template="reference",
        hint=gettext_lazy("The reference reply was rated earlier. Use its score as your benchmark."),
        is_wide=True,
    )
    asks = ready_questions("reference")
    instructions = (
        "Read what was said, then the reference reply and its score.\n"
        "Say whether the other reply is better, the same or worse, and rate it.\n"
        "Change the reference reply’s score where you disagree with it.\n"
        "Your answers are saved page by page, so you can stop and come back."
    )
    needs_reference = True
    n_more_asked = 1
    extra_answers = (
        ExtraAnswer(
            "direction",
            "integer",
            "Reply compared with the reference reply: 1 better, 0 the same, -1 worse.",
            ((-1, "Worse"), (0, "The same"), (1, "Better")),
        ),
        ExtraAnswer(
            "reference_score",
            "number",
            "The rater's new score for the reference reply; empty if it is unchanged from the table items.",
        ),
        ExtraAnswer("kept_both", "integer", "1 if the rater confirmed a direction that contradicts the scores."),
    )
    results = ("reference",)

    def example(self) -> dict[str, Any]:
        only_of = {
            "understandability": ["chitchat"],
            "emotional_awareness": ["empathetic"],
            "personality_awareness": ["persona"],
        }
        # Three people at least for each reply, as Shi et al. (2023) had.
        raters = {"raters_least": 3, "raters_wanted": 3}
        return {"referencing": {"asked_only_of": only_of}, "judging": raters}

    def leaves_out(self, version: StudyVersion) -> bool:
        return bool(version.values.referencing.asked_only_of)

    def not_asked(self, version: StudyVersion, item: Item) -> frozenset[str]:
        return version.values.referencing.not_asked(item.task)

    def more_answers(self, version: StudyVersion) -> Mapping[str, tuple[float, float]]:
        scale = (version.rubric.low, version.rubric.high)
        return {"direction": (-1, 1), "reference_score": scale, "kept_both": (0, 1)}

    def answers_wrong(self, version: StudyVersion, answers: Mapping[str, float], comment: str) -> dict[str, str]:
        if "direction" in answers:
            return {}
        return {"direction": gettext("Please say whether it is better, the same or worse.")}


@register_protocol
class PairwiseProtocol(StudyProtocol):
    """Protocol: pairs of replies, compared on each question.

    A task has as many comparisons as the study sets; the sides of the replies are balanced.
    """

    name = "pairwise"
    title = "Compare two replies"
    description = (
        "Each person reads what was said and two replies to it, and says of each question which is better, or "
        "that they are the same."
    )
    gives: Gives = "items"
    activity: Activity | None = "pairs"
    activity_place = 1
    compares_pairs = True
    n_replies = 2
    instructions = (
        "Read what was said, then both replies.\n"
        "Answer each question by itself; “Same” is a fine answer.\n"
        "Your answers are saved page by page, so you can stop and come back."
    )
    scale = (-1, 1)
    asks = ready_questions("pair")
    settings = ("judging", "attention", "training")
    identity = Identity("pairwise", "1")
    steps = usual_steps(Step("practice", _("Practice")), Step("judge", _("Compare")))
    page = JudgePage(
        heading=_("Which reply is better?"),
        count=_("Comparison %(n)s of %(of)s"),
        sheet="pair",
        template="pair",
        hint=_("Read what was said, then answer the questions. “Same” is a fine answer."),
        is_wide=True,
    )

    def next_task(self, draw: Draw) -> TaskPlan:
        items = draw.with_checks(draw.items(draw.values.judging.n_items, least=1))
        sides = draw.sides(items)
        slots = (SlotPlan(item=item, is_flipped=is_flipped) for item, is_flipped in sides.items())
        return TaskPlan("judge", tuple(slots))

    def example(self) -> dict[str, Any]:
        # Six to eight people for each comparison, as Ghandeharioun et al. (2019) had.
        return {"judging": {"raters_least": 6, "raters_wanted": 6, "raters_most": 8}}


BEST, WORST, *BETWEEN = ("best", "worst", "between_1", "between_2")
"""Names of the answers of best-worst scaling: numbers of the replies in their item, from 0."""
_ENDS = {
    BEST: "The best of the four replies shown",
    WORST: "The worst of them",
    **dict.fromkeys(BETWEEN, "One of the other replies"),
}


@register_protocol
class BestWorstProtocol(StudyProtocol):
    """Protocol: best and worst of four replies.

    A task has as many items as the study sets; the four replies of each item and their positions are balanced.
    """

    name = "best_worst"
    title = "Best and worst of four replies"
    description = (
        "Each person reads four replies to what was said, or four whole chats, and chooses the best and the worst."
    )
    headline = "Find the best and the worst text"
    gives: Gives = "items"
    activity: Activity | None = "pairs"
    activity_place = 2
    compares_pairs = True
    elicitation = "Relative quality estimation: best and worst of four."
    order = ReplyOrder((BEST, *BETWEEN, WORST), BestWorstChoices)
    extra_answers = tuple(
        ExtraAnswer(name, "integer", f"{words}: number of the reply among the item's responses, from 0.")
        for name, words in _ENDS.items()
    )
    n_replies = N_SHOWN
    most_replies = 8
    instructions = (
        "Read the whole page, with all four texts.\n"
        "Choose the best text and the worst one.\n"
        "Your answers are saved page by page, so you can stop and come back."
    )
    scale = (-1, 1)
    n_asked = 1
    n_more_asked = 2
    asks = ready_questions("best_worst")
    settings = ("judging",)
    identity = Identity("best_worst", "1")
    steps = usual_steps(Step("judge", _("Compare")))
    page = JudgePage(
        heading=_("Read all four texts"),
        count=_("Comparison %(n)s of %(of)s"),
        sheet="best_worst",
        template="best_worst",
        hint=_("Then choose the best and the worst: two different texts."),
        is_wide=True,
    )

    def next_task(self, draw: Draw) -> TaskPlan:
        items = draw.items(draw.values.judging.n_items, least=1)
        slots = tuple(SlotPlan(item=item) for item in items)
        return TaskPlan("judge", slots, {"shown": dict(draw.shown(items, N_SHOWN))})

    def not_asked(self, version: StudyVersion, item: Item) -> frozenset[str]:
        # The scale is of the pairs that a choice implies.
        return frozenset(question.key for question in post_task_questions(version) if question.is_rated)

    def more_answers(self, version: StudyVersion) -> Mapping[str, tuple[float, float]]:
        return dict.fromkeys((BEST, WORST, *BETWEEN), (0, self.most_replies - 1))

    def answers_wrong(self, version: StudyVersion, answers: Mapping[str, float], comment: str) -> dict[str, str]:
        return validate_ends(answers)


def validate_ends(answers: Mapping[str, float]) -> dict[str, str]:
    """Return an error for a missing best or worst reply, by name.

    Also if one reply was chosen as both.
    """
    missing = {BEST: gettext("Please choose the best text."), WORST: gettext("Please choose the worst text.")}
    wrong = {name: words for name, words in missing.items() if name not in answers}
    if not wrong and answers[BEST] == answers[WORST]:
        wrong[WORST] = gettext("You chose this text as the best one as well. Choose a different one as the worst.")
    return wrong


FEWEST_WORDS = 3
"""Minimum of words in a reason. Its content is not checked."""


@register_protocol
class DialoguesProtocol(StudyProtocol):
    """Protocol: pairs of stored conversations, with a choice and a reason.

    In each pair one conversation is A and one is B; the reason is the rating's comment.
    """

    name = "dialogues"
    title = "Compare two conversations"
    description = "Each person reads two stored conversations side by side, chooses one chatbot, and says why."
    gives: Gives = "conversations"
    activity_place = 1
    compares_pairs = True
    compares_dialogues = True
    settings = ("dialogues",)
    identity = Identity("dialogues", "1", {"fewest_words": FEWEST_WORDS})
    steps = usual_steps(Step("judge", gettext_lazy("Compare")))
    instructions = (
        "Read both conversations to their end.\n"
        "Look only at what the chatbots say, not at the other speakers.\n"
        "Choose the chatbot that you prefer, even slightly, and say why in a few words.\n"
        "Your answers are saved pair by pair, so you can stop and come back."
    )
    scale = (-1, 1)
    asks = ready_questions("dialogues")
    page = JudgePage(
        heading=gettext_lazy("Read both conversations"),
        count=gettext_lazy("Pair %(n)s of %(of)s"),
        sheet="choice",
        template="dialogues",
        hint=gettext_lazy("Look only at what the chatbots say."),
        is_wide=True,
    )

    def next_task(self, draw: Draw) -> TaskPlan:
        pairs = draw.dialogues(draw.values.dialogues.n_dialogues)
        sides = ((chat, side) for pair in pairs for chat, side in zip(pair, "AB", strict=True))
        return TaskPlan("judge", tuple(SlotPlan(conversation=chat, side=side) for chat, side in sides))

    def work(self, values: StudyValues, n_asked: tuple[int, int]) -> WorkDescription:
        n = values.dialogues.n_dialogues
        return WorkDescription(
            gettext("You read two conversations side by side and choose one of them."),
            ngettext("%(n)s pair", "%(n)s pairs", n) % {"n": n},
            gettext("of conversations to read"),
            "n_dialogues",
        )

    def answers_wrong(self, version: StudyVersion, answers: Mapping[str, float], comment: str) -> dict[str, str]:
        ties = {key: gettext("Please choose A or B.") for key, answer in answers.items() if not answer}
        return ties | validate_reason(comment)


def validate_reason(reason: str) -> dict[str, str]:
    """Return an error for a reason that is too short.

    Its name is `comments`; otherwise the result is empty.
    """
    if sum(not is_blank(word) for word in reason.split()) >= FEWEST_WORDS:
        return {}
    words = gettext("Please say why, in at least %(n)s words.")
    return {"comments": words % {"n": FEWEST_WORDS}}
