"""The whole comparison: verdict, result as JSON and text, what is left out, and a notebook's way."""

from dataclasses import replace

import numpy as np
import pytest

import confab
from chatbots import Turn
from evaluation.data.formats.base import RecordRating
from evaluation.data.study import Study, StudyDialogue
from evaluation.simulation.realism.compare import realism
from evaluation.simulation.realism.result import BotPrediction, RealismResult, TraitDistance, TwoSampleTest
from evaluation.simulation.realism.verdict import bots_needed, decide_order, verdict_of
from evaluation.stats.correlation import fisher_interval
from evaluation.stats.effect_sizes import Effect
from tests.evaluation.simulation.realism.made import WORDS, chat

PLEASED = ("that is great, thanks", "i love that!", "cool, tell me more", "nice, what else?")
CONFUSED = ("what do you mean?", "that makes no sense", "no, i asked about you", "huh")


def talks(seed: int, side: str, *, n_bots: int = 5, n_chats: int = 14, is_shouting: bool = False) -> list:
    """Return chats in which better bots please their participants more often."""
    rng = np.random.default_rng(seed)
    results = []
    for bot in range(n_bots):
        for number in range(n_chats):
            texts = ["hello"]
            for _ in range(int(rng.integers(2, 5))):
                texts.append(f"do you like {rng.choice(WORDS)}?")
                pleased = rng.random() < (bot + 1) / (n_bots + 1)
                text = f"{rng.choice(PLEASED if pleased else CONFUSED)} {rng.choice(WORDS)}"
                texts.append(f"{text.upper()} {rng.choice(WORDS).upper()} !!!" if is_shouting else text)
            results.append(chat(f"{side}{bot}-{number}", f"b{bot}", *texts))
    return results


def study(chats: list, name: str, *, rated: bool = False) -> Study:
    """Return a study of these chats; ratings rise with the number of the bot."""
    rng = np.random.default_rng(0)
    rows = []
    for bot, conversation in chats:
        answers = {"quality": float(np.clip(round(int(bot[1:]) + 1 + rng.normal() * 0.7), 1, 7))}
        ratings = (RecordRating(rater=f"r{len(rows)}", answers=answers),) if rated else ()
        rows.append(StudyDialogue(conversation, bot, ratings=ratings))
    return Study(name, tuple(rows), scale=(1.0, 7.0))


def compared(people: list, simulated: list, **more: object) -> RealismResult:
    """Compare chats without ratings."""
    return realism(replace(study(people, "people"), **more), study(simulated, "simulated"))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def found() -> RealismResult:
    """Return the comparison of participants who shout, by a notebook's function."""
    people = study(talks(0, "p"), "people", rated=True)
    return confab.realism(people, study(talks(1, "s", is_shouting=True), "shouting"))


def test_participants_who_shout_are_distinguished(found: RealismResult) -> None:
    assert found.verdict.is_separable
    assert found.bots == ("b0", "b1", "b2", "b3", "b4")
    assert (found.n_people, found.n_simulated, found.is_within) == (70, 70, False)
    assert found.verdict.sentence.startswith("shouting: a classifier using ")
    lower = next(trait for trait in found.traits if trait.quantity == "lower_case" and trait.level == "turn")
    assert lower.standing == "different"
    assert "surface" in found.verdict.sentence
    vectors = found.tests[0]
    assert vectors.giveaways[0].text.isupper() or vectors.giveaways[0].score > 0
    assert not found.missing


def test_reactions_and_predictions_are_of_the_rated_bots(found: RealismResult) -> None:
    assert {reaction.n_bots for reaction in found.reactions} == {5}
    confusion = next(reaction for reaction in found.reactions if reaction.reaction == "confusion")
    assert confusion.people.high is not None
    assert confusion.people.high < 0  # bad bots confuse people
    assert {prediction.applied_to for prediction in found.predictions} == {"people", "simulated"}
    assert all(prediction.reason is not None or prediction.n_bots == 5 for prediction in found.predictions)


def test_the_result_is_read_back_from_json(found: RealismResult) -> None:
    assert RealismResult.from_json(found.to_json()) == found
    with pytest.raises(ValueError, match="verdict"):
        RealismResult.from_json({"participant": "x"})


def test_the_summary_has_every_table(found: RealismResult) -> None:
    text = found.summary()
    assert text.startswith(found.verdict.sentence)
    for words in ("No capital letter", "vectors", "Confusion and repair", "log_words".replace("_", " "), "simulated"):
        assert words in text


def test_without_ratings_only_traits_and_tests_are_compared() -> None:
    people, simulated = talks(0, "p", n_bots=2), talks(1, "s", n_bots=2)
    result = compared(people, simulated)
    assert {name: reason.code for name, reason in result.missing.items()} == {
        "reactions": "no_ratings",
        "predictions": "no_ratings",
    }
    assert result.traits
    assert result.verdict.order == "not_known"
    assert "at least 5 bots" in result.verdict.change


def test_bots_with_few_chats_and_controls_are_left_out() -> None:
    people, simulated = talks(0, "p", n_bots=3), talks(1, "s", n_bots=4)
    few = [person for person in people if person[0] != "b1"] + [person for person in people if person[0] == "b1"][:3]
    result = compared(few, simulated, controls=("b2",))
    assert result.bots == ("b0",)
    assert {bot: reason.code for bot, reason in result.left_out.items()} == {
        "b1": "few_chats",
        "b2": "control_bot",
        "b3": "few_chats",
    }
    assert result.n_simulated == 14


def test_nothing_to_compare_is_said() -> None:
    result = compared([], talks(1, "s", n_bots=1))
    assert set(result.missing) == {"traits", "tests", "reactions", "predictions"}
    assert result.verdict.is_separable is None
    assert "too few chats" in result.verdict.sentence
    assert RealismResult.from_json(result.to_json()) == result


def test_turns_within_stored_chats_are_recognised() -> None:
    people = talks(0, "p", n_bots=2)
    replaced = [
        (
            bot,
            replace(
                one, turns=tuple(turn if turn.speaker == "bot" else Turn("human", "ok then") for turn in one.turns)
            ),
        )
        for bot, one in people
    ]
    result = compared(people, replaced)
    assert result.is_within
    assert "requires chats with live bots" in result.verdict.change
    assert next(trait for trait in result.traits if trait.trait == "leaving").distance.value is None


def prediction(applied_to: str, r: Effect, null95: float = 0.5, n_bots: int = 8) -> BotPrediction:
    """Return the main fit's row."""
    return BotPrediction("strong", "people", applied_to, n_bots, r, null95)  # type: ignore[arg-type]


PEOPLE = prediction("people", Effect(0.9, 0.6, 0.98))


@pytest.mark.parametrize(
    ("simulated", "expected"),
    [
        (prediction("simulated", Effect(0.8, 0.3, 0.95)), "as_people"),
        (prediction("simulated", Effect(0.8, 0.3, 0.95), n_bots=4), "not_known"),
        (prediction("simulated", Effect(0.8, -0.1, 0.95)), "not_known"),
        (prediction("simulated", Effect(0.45, 0.1, 0.95)), "not_known"),  # chance passes it
        (prediction("simulated", Effect(-0.2, -0.7, 0.5)), "not_as_people"),
        (prediction("simulated", Effect(0.8)), "not_known"),
    ],
)
def test_orders(simulated: BotPrediction, expected: str) -> None:
    assert decide_order([PEOPLE, simulated]) == expected


def test_the_verdict_says_what_would_change_it() -> None:
    trait = TraitDistance("length", "x", "X", "turn", 0, 0, Effect(0.9, 0.5, 1.2), 0.1, 0.2, "different")
    test = TwoSampleTest("vectors", Effect(0.83, 0.8, 0.86))
    row = prediction("simulated", Effect(0.5, -0.3, 0.9))
    result = verdict_of("retrieval", [trait], [test], [PEOPLE, row], n_rated=8, is_within=False)
    assert result.sentence == (
        "retrieval: a classifier using sentence vectors identifies the simulated chat of a pair in 83 % [80, 86] of "
        "cases (chance: 50 %), and 1 of 1 trait is clearly different, most length of messages; it is not known whether "
        "their chats order the bots as people do (8 rated bots, r 0.50 [−0.30, 0.90])."
    ).replace("0.", ".")
    n = bots_needed(row) or 0
    assert (fisher_interval(0.5, n)[0] or 0) > 0 >= (fisher_interval(0.5, n - 1)[0] or 0)
    assert f"About {n} rated bots" in result.change
    # Turns of the bots that answer people predict by themselves.
    strong = prediction("simulated", Effect(0.9, 0.5, 0.98))
    assert verdict_of("x", [], [test], [PEOPLE, strong], n_rated=8, is_within=False).order == "as_people"
    assert verdict_of("x", [], [test], [PEOPLE, strong], n_rated=8, is_within=True).order == "not_known"
    unclear = verdict_of("x", [], [replace(test, auc=Effect(0.52, 0.45, 0.6))], [], n_rated=8, is_within=False)
    assert unclear.is_separable is False
    assert "does not prove that they are equal" in unclear.sentence
    assert "More chats narrow the classifier's interval and could reveal a difference." in unclear.change


def test_an_order_as_people_s_is_compared_with_self_play_or_says_that_there_is_none() -> None:
    row = prediction("simulated", Effect(0.9, 0.5, 0.98))

    def sentence(row: BotPrediction) -> str:
        return verdict_of("x", [], [], [PEOPLE, row], n_rated=8, is_within=False).sentence

    assert "no self-play of these bots was compared" in sentence(row)
    unclear = replace(row, selfplay_ratio=Effect(0.9, 0.7, 1.2))
    assert "do not demonstrably predict better than self-play" in sentence(unclear)
    assert "(ratio of errors .90 [.70, 1.20])" in sentence(unclear)
    assert "they predict better than self-play" in sentence(replace(row, selfplay_ratio=Effect(0.5, 0.3, 0.8)))
    assert "they predict worse than self-play" in sentence(replace(row, selfplay_ratio=Effect(2.0, 1.3, 2.8)))
    people = study(talks(0, "p"), "people", rated=True)
    played = realism(people, study(talks(1, "s"), "simulated"), study(talks(2, "b"), "self-play")).predictions
    ratios = {
        one.fit: one.selfplay_ratio for one in played if (one.fitted_on, one.applied_to) == ("people", "simulated")
    }
    assert ratios["strong"].high is not None
    assert ratios["strong"].low < ratios["strong"].value < ratios["strong"].high


def test_unknown_persons_are_said_next_to_the_figure() -> None:
    people, simulated = talks(0, "p", n_bots=2), talks(1, "s", n_bots=2)
    nameless = compared(people, simulated)
    assert (nameless.n_persons, nameless.n_nameless) == (0, 28)
    assert "(the person is unknown in 28 chats, so the classifier may recognise persons" in nameless.verdict.sentence
    rated = realism(study(people, "people", rated=True), study(simulated, "simulated"))
    assert (rated.n_persons, rated.n_nameless) == (28, 0)
    assert "unknown" not in rated.verdict.sentence.split(";")[0]
    assert "28 named persons" in rated.summary()


def test_equal_sides_differ_in_nothing() -> None:
    # Their ids repeat, as those of chats simulated within stored ones do.
    people = talks(0, "p", n_bots=2)
    result = compared(people, people)
    assert {trait.standing for trait in result.traits} <= {"close", "not_known"}
    assert not any(test.is_separable for test in result.tests)
