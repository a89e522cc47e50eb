"""Numbers in print."""

from __future__ import annotations

from evaluation.number_format import figure, probability, share, span


def test_numbers_in_words() -> None:
    assert figure(-0.004) == "0.00"
    assert figure(-1.5, 1) == "−1.5"
    assert figure(None) == figure(float("nan")) == "–"
    assert (share(0.84), share(-0.08), share(1.0)) == (".84", "−.08", "1.00")
    assert span(0.1, None) == "–"
    assert (probability(0.0312), probability(1e-9)) == ("p = .031", "p < .001")
