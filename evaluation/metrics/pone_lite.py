"""PONE-lite: PONE's scorer with all of its parts on MiniLM, trained on text that may be passed on, as it comes with
Confab (`evaluation/shipped/pone-lite-open-full`).

Never shown as PONE: another encoder, another text. `docs/research/pone_rade.md` has its figures.
"""

from __future__ import annotations

from evaluation.metrics.pone import Pone
from evaluation.metrics.registry import metrics

metrics.add(Pone(name="pone_lite", title="PONE-lite", checkpoint="pone-lite-open-full"))
