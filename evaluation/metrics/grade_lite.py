"""GRADE-lite: GRADE's network on MiniLM, trained on Topical-Chat, as it comes with Confab
(`evaluation/shipped/grade-lite`).

Never shown as GRADE: another encoder, another text, a slice of the graph. `docs/research/grade.md` has its figures.
"""

from __future__ import annotations

from evaluation.metrics.grade import Grade
from evaluation.metrics.registry import metrics

metrics.add(Grade(name="grade_lite", title="GRADE-lite", checkpoint="grade-lite"))
