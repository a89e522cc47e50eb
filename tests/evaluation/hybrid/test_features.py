"""Features of the hybrid metric: columns, blocks and embeddings."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from chatbots import Conversation
from evaluation.hybrid.features import PAPER_FEATURES, HybridError, design_of, pooled_embeddings
from evaluation.metrics.registry import metric_list


def table():
    return pd.DataFrame(
        {
            "conversation": [1, 1, 2, 3, 4, 5],
            "bot": ["a", "a", "a", "b", "b", "b"],
            "participant": ["p", "p", None, "q", "q", "r"],
            "f": [1.0, 1.0, 2.0, np.nan, 4.0, 5.0],
            "g": [1.0, 1.0, np.inf, 3.0, 4.0, 5.0],
            "quality": [1, 3, 4, 5, 6, np.nan],
            "fluency": [2, 2, 2, 2, None, 2],
        }
    )


def test_raters_of_one_conversation_are_averaged():
    found = design_of(table(), ["f"], ["quality"])
    assert found.bots.tolist() == ["a", "a", "b", "b"]
    assert found.y[:3].tolist() == [2.0, 4.0, 6.0]
    assert np.isnan(found.y[3])
    assert found.people.tolist() == ["p", None, "q", "r"]


def test_undefined_features_leave_the_conversation_out_and_are_counted():
    found = design_of(table(), ["f", "g"], ["quality"])
    assert found.x.tolist() == [[1, 1], [4, 4], [5, 5]]
    assert found.n_dropped == 2
    assert found.dropped == {"f": 1, "g": 1}
    # the ratings of conversations left out still count for their bot
    assert found.rated["b"][0].tolist() == [5.0, 6.0]


def test_several_targets_are_averaged_and_all_needed():
    found = design_of(table(), ["f"], ["quality", "fluency"])
    assert found.y[:2].tolist() == [2.0, 3.0]
    assert np.isnan(found.y[2])  # no fluency


@pytest.mark.parametrize(
    ("features", "targets", "message"),
    [
        (["f"], ["qualitty"], "no column 'qualitty'; did you mean quality"),
        (["h"], ["quality"], "no column 'h'"),
        ([], ["quality"], "no feature"),
    ],
)
def test_missing_columns_are_explained(features, targets, message):
    with pytest.raises(HybridError, match=message):
        design_of(table(), features, targets)


def test_numbers_written_as_text_count():
    texts = table().astype({"f": "object"})
    texts["f"] = ["1.0", "1.0", "2", "none", 4, 5]
    assert design_of(texts, ["f"]).x.ravel().tolist() == [1, 2, 4, 5]


def test_the_papers_features_are_columns_of_registered_metrics():
    columns = {c.name for m in metric_list() for c in m.columns if c.level == "conversation"}
    assert set(PAPER_FEATURES) <= columns
    assert len(PAPER_FEATURES) == 11


class ByLength:
    """Stands for the texts of a run: the vector of a text is its length and 1."""

    def encode(self, texts):
        return np.array([[len(text), 1.0] for text in texts]).reshape(-1, 2)


def test_a_participants_answers_and_a_bots_turns_are_averaged():
    talk = [
        Conversation.from_texts(["opener", "ab", "abcd", "abc", "abcdef"], id="1"),
        Conversation.from_texts(["hello", "a"], id="2"),
    ]
    table = pooled_embeddings(talk, shared=ByLength()).set_index("conversation")
    assert table.loc["1", "embedding_user_000"] == 5.0  # what answers nothing is left out
    assert table.loc["1", "embedding_bot_000"] == 2.5
    assert np.isnan(table.loc["2", "embedding_user_000"])
    assert table.loc["2", "embedding_bot_000"] == 1.0


def test_in_self_play_both_describe_the_next_utterances():
    talk = [Conversation.from_texts(["opener", "ab", "abcd"], id="1")]
    table = pooled_embeddings(talk, self_play=True, shared=ByLength())
    assert table["embedding_user_000"].tolist() == [3.0]
    assert table["embedding_bot_000"].tolist() == [3.0]


def test_no_conversation_gives_the_columns_all_the_same():
    table = pooled_embeddings([], shared=ByLength(), blocks=["embedding_user"])
    assert list(table.columns) == ["conversation", "embedding_user_000", "embedding_user_001"]
    assert not len(table)
