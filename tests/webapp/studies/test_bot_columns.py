"""The researcher's own table of bots: what it says, and clear refusals of what it cannot."""

from __future__ import annotations

import pytest

from webapp.core.errors import Refused
from webapp.studies.bot_columns import BotColumns, bot_columns_read

BOTS = ["eliza", "parrot", "hred-ei"]


def test_numbers_words_and_controls() -> None:
    content = (
        b"\xef\xbb\xbfbot, ppl ,corpus,control\r\neliza,,cornell,no\r\n"
        b'"parrot",36.5,reddit,YES\r\n\r\nhred-ei,-1e1,,\r\n'
    )
    found = bot_columns_read(content, BOTS, "bots.csv")
    assert found.metrics == {"ppl": {"parrot": 36.5, "hred-ei": -10.0}}
    assert found.factors == {"corpus": {"eliza": "cornell", "parrot": "reddit"}}
    assert found.control == {"parrot"}
    assert BotColumns.from_json(found.to_json()) == found


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty"),
        (b"name,ppl\nx,1\n", "one column must be called 'bot'"),
        (b"bot;ppl\neliza;1\n", "separate the columns by commas"),
        (b"bot\neliza\n", "the only column is 'bot'"),
        (b"bot,ppl\n", "no row below the header"),
        (b"bot,ppl\nelisa,1\n", "line 2: the study has no bot 'elisa'; did you mean eliza"),
        (b"bot,ppl\nzzz,1\n", "it has eliza, hred-ei, parrot"),
        (b"bot,ppl\neliza,1\neliza,2\n", "line 3: bot 'eliza' stands twice"),
        (b"bot,ppl\neliza,1,2\n", "line 2 has 3 cells; the header has 2"),
        (b"bot,ppl\neliza,1\nparrot,high\n", "line 3: ppl of parrot is 'high'"),
        (b"bot,ppl\neliza,1\nparrot,nan\n", "write a finite number or leave the cell empty"),
        (b"bot,ppl,ppl\neliza,1,2\n", "column 'ppl' stands twice"),
        (b"bot,,ppl\neliza,1,2\n", "column 2 has no name"),
        (b"bot,ppl\neliza,\n", "column 'ppl' is empty"),
        (b"bot,control\neliza,perhaps\n", "control of eliza is 'perhaps'; it must be yes or no"),
        (b"bot,ppl\neliza,\xff\n", "not UTF-8"),
        (b"PK\x03\x04\x00\x00", "the file is no text"),
        (b'bot,ppl\n"eliza,1\n', "line 2: unexpected end of data"),
        (b"bot,ppl\n" + b" " * 1_000_000, "at most 1,000,000"),
    ],
)
def test_refusals_name_the_value_and_what_is_right(content: bytes, message: str) -> None:
    with pytest.raises(Refused) as caught:
        bot_columns_read(content, BOTS)
    assert message in str(caught.value)
    assert caught.value.code == "bad_csv"
