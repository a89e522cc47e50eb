"""Reading of judges' answers: the verdict, or none; never a number of the scale's own description."""

import json
from pathlib import Path

import pytest

from evaluation.metrics.verdicts import NO_LETTER, NO_NUMBER, REFUSED, read_verdict

CASES = Path(__file__).parents[2] / "cases"
NUMBERS = ("1", "2", "3", "4", "5")

RATINGS = [
    ("4", 4),
    ("4.", 4),
    ("**4**", 4),
    ("Rating: 4", 4),
    ("**Rating:** 4", 4),
    ("Rating: **4**", 4),
    ("4/5", 4),
    ("4 / 5", 4),
    ("4 out of 5", 4),
    ("Rating: 4/5", 4),
    ("Rating: 4 out of 5", 4),
    ("four", 4),
    ("Four.", 4),
    ("Rating: four", 4),
    ("I would give this a four.", 4),
    ("On a scale from 1 to 5, I would give this a 4.", 4),
    ("The 2 earlier turns matter. The reply fits well, so 4.", 4),
    ('{"scale": "1-5", "score": 4}', 4),
    ('```json\n{"rating": 3, "reason": "2 of 5 facts are wrong"}\n```', 3),
    ('{"coherence": 2, "fluency": 5}', None),
    ('{"coherence": 2, "overall": 5}', 5),
    ('{"min": 1, "max": 5, "score": "4"}', 4),
    ('{"rating": {"value": 4}}', 4),
    ('{"score": 4, "rating": 3}', None),
    ('{"rating": null}', None),
    ('{"rating": 4.5}', None),
    ('{"rating": "4/5"}', 4),
    ("4.5", None),
    ("4,5", None),
    ("3-4", None),
    ("3 or 4", None),
    ("Rating: 3-4", None),
    ("Rating: 3 to 4", None),
    ("between 3 and 4", None),
    ("Rating: 3\nOn reflection it is better.\nRating: 4", 4),
    ("Rating: 3 … Rating: 4", 4),
    ("٤", 4),
    ("４", 4),
    ("Rating: ४", 4),
    ("评分：4", 4),
    ("评分：4分", 4),
    ("Bewertung: 4", 4),
    ("Note : 4/5", 4),
    ("④", 4),
    ("4️⃣", 4),
    ("4½", None),
    ("8/10", None),
    ("Rating: 8/10", None),
    ("7", None),
    ("-4", None),
    ("Rating: -2", None),
    ("80%", None),
    ("<think>Maybe 2, maybe 3.</think>\n4", 4),
    ("<think>Maybe 2, maybe 3. Rating: 2", None),
    ("It is 2?</think>Rating: 4", 4),
    ("<answer>4</answer>", 4),
    ("<thinking>1</thinking><answer>5</answer>", 5),
    ("<rating>4</rating>", 4),
    ("\\boxed{4}", 4),
    ("$\\boxed{4}$", 4),
    ("I'm sorry, but as an AI I cannot rate this on the 1 to 5 scale.", None),
    ("I cannot rate this.", None),
    ("I can't assist with that request.", None),
    ("As a language model, I don't have opinions, 3.", None),
    ("N/A", None),
    ("Rating: N/A", None),
    ("", None),
    ("great", None),
    ("As an AI language model, I'd rate this a 4.", 4),
    ("Rating: 3. Final rating: 3 or 4", None),
    ("I give it a 2.", 2),
    ("I'd rate this a 3 out of 5 because it is dull.", 3),
    ("Score: 5 (very good)", 5),
    ("5 (very good)", 5),
    ("5 - very good", 5),
    ("My rating is 3.", 3),
    ("The rating is a 3.", 3),
    ("Overall score: 2", 2),
    ("It's not a 4.", None),
    ("Definitely not a 1; it's a 5", None),
    ("On a scale of 1-5: 2", 2),
    ("On a 1-5 scale, 4.", 4),
    ("On a scale of 1 (very bad) to 5 (very good), I'd say 3", 3),
    ("Using the 5-point scale: 4", 4),
    ("4 stars", 4),
    ("4 The reply is fine.", 4),
    ("4\n\nThe reply answers both questions.", 4),
    ("Rating: 4 (on a scale from 1 to 5)", 4),
    ("Rating: 4. Reply 2 was worse.", None),
    ("The reply has 3 sentences and answers 2 questions.\n\nRating: 5", 5),
    ("Coherence: 3\nFluency: 4\nRating: 2", 2),
    ("Coherence 3, fluency 4", None),
    ("# Rating\n4", 4),
    ("Rating:\n4", 4),
    ("Rating: [4]", 4),
    ("Rating: <4>", 4),
    ("Rating 4", 4),
    ("Final answer: 4", 4),
    ("4 and a half", None),
    ("four and a half", None),
    ("I was torn between 3 and 4, so 4.", None),
    ("Rating: 4.0", 4),
    ("I would rate it five.", 5),
    ("This one is good", None),
    ("Rating: 4\n\nLet me know if you need 2 more ratings!", 4),
    ("Rating: 45", None),
    ("10", None),
    ("1. It is relevant.\n2. It is fluent.\nRating: 4", 4),
    ("At least 3", None),
    ("rating=4", 4),
    ("Rating – 4", 4),
    ("[RATING] 4", 4),
    ("The answer is 4.", 4),
    ("I must decline to rate this; it is harmful. Rating: 1", 1),
]
PAIRS = [
    ("A", "A"),
    ("B", "B"),
    ("B.", "B"),
    ("(B)", "B"),
    ("**B**", "B"),
    ("Reply B", "B"),
    ("Reply A is off topic. Reply B is better.", "B"),
    ("Better: A", "A"),
    ("Better: Reply B", "B"),
    ("[[A]]", "A"),
    ('{"better": "B"}', "B"),
    ('{"better": "Reply A", "reason": "B is short"}', "A"),
    ("I prefer B.", "B"),
    ("I prefer reply A over reply B.", "A"),
    ("A is better than B.", "A"),
    ("A is worse than B.", "B"),
    ("Reply A is worse.", "B"),
    ("Both are equally good.", None),
    ("Tie", None),
    ("Better: tie", None),
    ("Better: neither", None),
    ("Neither A nor B is better.", None),
    ("A or B", None),
    ("Better: A/B", None),
    ("Better: A or B", None),
    ("A and B are equal", None),
    ("I cannot say whether A or B is better.", None),
    ("A good reply is short.", None),
    ("Reply A is not better.", None),
    ("<think>A is better</think>B", "B"),
    ("The better reply is B.", "B"),
    ("The winner is reply A", "A"),
    ("Reply B wins", "B"),
    ("B. It answers the question.", "B"),
    ("A is off topic.\n\nB", "B"),
    ("Reply A is clearly the better one, although B is longer", "A"),
    ("I'm sorry, I can't compare these.", None),
    ("Ｂ", "B"),
    ("В", "B"),
    ("C", None),
    ("Verdict: b", "B"),
    ("Reply A is better. Reply B is better.", None),
    ("Better: A\nActually,\nBetter: B", "B"),
    ("Answer: A is better", "A"),
    ("Is A better? No.", None),
    ("Reply A has a nice tone, but Reply B answers the question, so B is better.", "B"),
    ("I would go with B", "B"),
    ("Chatbot A", "A"),
    ("A > B", "A"),
    ("A < B", "B"),
    ("A >> B", "A"),
    ("B is the stronger reply", "B"),
    ("Better: a tie", None),
    ("", None),
]


@pytest.mark.parametrize(("text", "points"), RATINGS)
def test_a_rating_is_read_or_rejected(text: str, points: int | None) -> None:
    label = read_verdict(text, NUMBERS).label
    assert (None if label is None else int(label)) == points


@pytest.mark.parametrize(("text", "letter"), PAIRS)
def test_a_preference_is_read_or_rejected(text: str, letter: str | None) -> None:
    assert read_verdict(text, ("A", "B")).label == letter


@pytest.mark.parametrize(
    ("name", "points"),
    [("json_scale", "4"), ("reason_first", "4"), ("refusal", None), ("scale_first", "4"), ("tiny_logprobs", "2")],
)
def test_the_field_cases_are_read(name: str, points: str | None) -> None:
    case = json.loads((CASES / f"judge_{name}.json").read_text())
    assert read_verdict(case["answer"], NUMBERS).label == points


def test_a_scale_from_0_to_9_is_read() -> None:
    numbers = [str(number) for number in range(10)]
    assert read_verdict("On a scale from 0 to 9: 0", numbers).label == "0"
    assert read_verdict("Rating: 9/9", numbers).label == "9"
    assert read_verdict("Rating: 10", numbers).label is None


@pytest.mark.parametrize(
    "text",
    [
        "I'm sorry, but as an AI I cannot rate this on the 1 to 5 scale.",
        "I can’t help with that.",
        "I am unable to evaluate this content.",
        "I must decline to judge this.",
        "I don't have opinions.",
        "Es tut mir leid, das kann ich nicht bewerten.",
    ],
)
def test_a_refusal_is_named_as_one(text: str) -> None:
    assert read_verdict(text, NUMBERS) == (None, REFUSED)


def test_an_answer_without_a_verdict_is_named() -> None:
    assert read_verdict("great", NUMBERS) == (None, NO_NUMBER)
    assert read_verdict("Both are fine.", ("A", "B")) == (None, NO_LETTER)
