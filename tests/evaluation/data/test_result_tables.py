"""Tables of results."""

from evaluation.data.result_tables import Cell, PageTable, headers_of


def test_more_than_nine_reasons_are_numbered_too() -> None:
    rows = [[Cell("–", reason=f"reason {number}")] for number in range(1, 12)]
    table = PageTable(headers_of("Value"), rows, has_footnotes=True)
    assert table.footnotes[8:] == ["⁹ reason 9", "¹⁰ reason 10", "¹¹ reason 11"]
    assert [row[0].text for row in table.printed_rows[9:]] == ["–¹⁰", "–¹¹"]
