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

# metric: version, values with people, values in self-play. Words, letters and laughs are counted by hand; the
# word coherences are left to the loops of test_word_coherence.py, their vectors change with the corpus.
GOLDEN = {
    "distinct": (
        "1",
        {"distinct_1_bot": 25 / 31, "distinct_2_bot": 27 / 28, "distinct_1_user": 20 / 22, "distinct_2_user": 1.0},
        {"distinct_1_bot": 40 / 53, "distinct_2_bot": 46 / 47, "distinct_1_user": 40 / 53, "distinct_2_user": 46 / 47},
    ),
    "laughter": (
        "2",
        {"laughter_user": 1 / 3, "laughter_bot": 0, "laughter_substring_user": 3 / 3},
        {"laughter_user": 1 / 6, "laughter_bot": 1 / 6, "laughter_substring_user": 7 / 6},
    ),
    "length": ("1", {"n_turns": 7, "n_exchanges": 3}, {"n_turns": 7, "n_exchanges": 6}),
    "phrases": (
        "1",
        {"compliment_bot": 0, "politeness_bot": 1 / 3, "support_bot": 0, "cheer_bot": 0, "you_bot": 1 / 3},
        {"compliment_bot": 0, "politeness_bot": 1 / 6, "support_bot": 0, "cheer_bot": 0, "you_bot": 2 / 6},
    ),
    "question": (
        "2",
        {"question_bot": 1.0, "question_user": 0.5 / 3},
        {"question_bot": 3.5 / 6, "question_user": 3.5 / 6},
    ),
    "readability": (
        "1",
        {
            "reading_ease_bot": 110.7867,
            "reading_grade_bot": -1.1167,
            "reading_ease_user": 78.6470,
            "reading_grade_user": 3.7388,
        },
        {
            "reading_ease_bot": 94.7168,
            "reading_grade_bot": 1.3111,
            "reading_ease_user": 94.7168,
            "reading_grade_user": 1.3111,
        },
    ),
    "repetition": (
        "1",
        {
            "conversation_repetition_bot": -1 / 3,  # "what", asked in the first and the last turn
            "utterance_repetition_bot": -1 / 3,  # "do", in the first
            "self_repetition_bot": (0 / 5 + 1 / 3) / 2,
            "repeated_turn_bot": 0,
            "word_similarity_bot_user": 0,
        },
        {
            "conversation_repetition_bot": -4 / 6,
            "utterance_repetition_bot": -1 / 6,
            "self_repetition_bot": 0.1778,
            "repeated_turn_bot": 0,
            "word_similarity_bot_user": 0.0238,
        },
    ),
    "self_similarity": ("1", {"self_similarity_bot": 0.1533}, {"self_similarity_bot": 0.3284}),
    "votes": ("1", {"vote_bot": 0}, {"vote_bot": float("nan")}),
    "words": (
        "2",
        {
            "words_user": (7 + 8 + 5) / 3,
            "words_bot": (10 + 8 + 8) / 3,
            "response_length_bot": (10 + 8 + 8) / 3,
            "characters_user": (31 + 38 + 29) / 3,
            "characters_bot": (43 + 40 + 33) / 3,
        },
        {
            "words_user": 46 / 6,
            "words_bot": 46 / 6,
            "response_length_bot": 46 / 6,
            "characters_user": 214 / 6,
            "characters_bot": 214 / 6,
        },
    ),
    "vader": (
        "1",
        {
            "vader_user": 0.0101,
            "vader_bot": 0.4296,
            "vader_transition": 0.0,
            "vader_minmax": -1.5737,
            "vader_coherence_user_bot": 0.7572,
            "vader_variance_user": 0.4128,
            "vader_auc_user": 0.0,
        },
        {
            "vader_user": 0.2198,
            "vader_bot": 0.2198,
            "vader_transition": 0.0,
            "vader_minmax": -0.5542,
            "vader_coherence_user_bot": 0.8046,
            "vader_variance_user": 0.3535,
            "vader_auc_user": 0.0,
        },
    ),
    "sentiment": (
        "2",
        {
            "sentiment_user": 0.0691,
            "sentiment_bot": 0.2194,
            "sentiment_transition": -0.0305,
            "sentiment_minmax": -1.6052,
            "sentiment_coherence_user_bot": 0.3849,
            "sentiment_variance_user": 0.4297,
            "sentiment_auc_user": -0.0916,
        },
        {
            "sentiment_user": 0.1442,
            "sentiment_bot": 0.1442,
            "sentiment_transition": -0.0153,
            "sentiment_minmax": -0.8026,
            "sentiment_coherence_user_bot": 0.2573,
            "sentiment_variance_user": 0.3892,
            "sentiment_auc_user": -0.0916,
        },
    ),
    "semantic_similarity": (
        "2",
        {"semantic_similarity_user_bot": 0.4249, "semantic_similarity_bot_user": 0.2179},
        {"semantic_similarity_user_bot": 0.3214, "semantic_similarity_bot_user": 0.3214},
    ),
}


@pytest.mark.parametrize("name", GOLDEN)
@pytest.mark.parametrize("self_play", [False, True])
def test_values_and_version_belong_together(name, self_play):
    metric = metric_get(name)
    version, with_people, in_self_play = GOLDEN[name]
    found = metric.compute([Conversation.from_texts(TEXTS, id="c")], self_play=self_play)
    values = found.conversations.loc["c"].to_dict()
    assert values == pytest.approx(in_self_play if self_play else with_people, abs=5e-4, nan_ok=True)
    assert metric.identity.version == version
