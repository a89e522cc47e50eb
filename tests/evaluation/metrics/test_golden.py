"""Golden values: when a number here changes, raise the metric's `version` and write the new one down."""

import pytest

from chatbots import Conversation
from evaluation.metrics.registry import metric_get

TEXTS = [
    "Hi, how are you?",
    "I am great, thanks! What do you do for fun?",
    "haha, I love hiking with my dog",
    "That sounds lovely. How old is your dog?",
    "She died last week and I feel terrible",
    "I am so sorry. What was her name?",
    "Bella. Anyway, what about you",
]

# metric: version, values with people, values in self-play. Words and laughs are counted by hand; the
# word coherences are left to the loops of test_word_coherence.py, their vectors change with the corpus.
GOLDEN = {
    "laughter": (
        "1",
        {"laughter_user": 1 / 3, "laughter_substring_user": 3 / 3},
        {"laughter_user": 1 / 6, "laughter_substring_user": 7 / 6},
    ),
    "length": ("1", {"n_turns": 7, "n_exchanges": 3}, {"n_turns": 7, "n_exchanges": 6}),
    "question": ("1", {"question_bot": 1.0}, {"question_bot": 3.5 / 6}),
    "words": (
        "1",
        {"words_user": (7 + 8 + 5) / 3, "words_bot": (10 + 8 + 8) / 3},
        {"words_user": 46 / 6, "words_bot": 46 / 6},
    ),
    "sentiment": (
        "1",
        {
            "sentiment_user": 0.0101,
            "sentiment_bot": 0.4296,
            "sentiment_transition": 0.0,
            "sentiment_minmax": -1.5737,
            "sentiment_coherence_user_bot": 0.7572,
        },
        {
            "sentiment_user": 0.2198,
            "sentiment_bot": 0.2198,
            "sentiment_transition": 0.0,
            "sentiment_minmax": -0.5542,
            "sentiment_coherence_user_bot": 0.8046,
        },
    ),
    "semantic_similarity": (
        "1",
        {"semantic_similarity_user_bot": 0.4249},
        {"semantic_similarity_user_bot": 0.3214},
    ),
}


@pytest.mark.parametrize("name", GOLDEN)
@pytest.mark.parametrize("self_play", [False, True])
def test_values_and_version_belong_together(name, self_play):
    metric = metric_get(name)
    version, with_people, in_self_play = GOLDEN[name]
    found = metric.compute([Conversation.from_texts(TEXTS, id="c")], self_play=self_play)
    values = found.conversations.loc["c"].to_dict()
    assert values == pytest.approx(in_self_play if self_play else with_people, abs=5e-4)
    assert metric.identity.version == version
