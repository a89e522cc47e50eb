"""A filter by a classifier of texts that the study names: any of transformers, in a folder here or downloaded before.

None is shipped: good ones are hundreds of megabytes, and a word list would only look like one. The loader is the one
of the metric `toxicity` (`evaluation/metrics/local_models.py`): safetensors, no code of the model's own, no download.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from django.conf import settings

from chatbots import Identity
from webapp.studies.reply_filters.base import FilterInput, FilterMatch, register_filter
from webapp.studies.settings import StudyValues

if TYPE_CHECKING:
    from evaluation.metrics.local_models import LocalClassifier


@register_filter
class ClassifierFilter:
    """Finds replies to which a classifier gives a label with enough probability."""

    name = "classifier"
    title = "Classifier"
    description = "Finds what a text classifier of your choice calls toxic, or gives another label."

    def identity(self, values: StudyValues) -> Identity:
        """Return its name with the classifier's files, its label, and the probability that is enough."""
        known = _classifier_of(values).identity.as_dict() if values.filtering.filter_model else None
        return Identity(self.name, "1", {"classifier": known, "from": values.filtering.filter_from})

    def unavailable_reason(self, values: StudyValues) -> str | None:
        """Say that no classifier is named, or why that one cannot be used."""
        if not values.filtering.filter_model.strip():
            return "no classifier is named; name one, or switch the filter off"
        return _classifier_of(values).unavailable_reason()

    def find(self, text: str, asked: FilterInput) -> FilterMatch | None:
        """Return the label with its probability, where that is enough."""
        wanted = asked.values.filtering
        probability = float(_classifier_of(asked.values).probabilities([text])[0])
        if not probability >= wanted.filter_from:
            return None
        return FilterMatch(f"The classifier gives “{wanted.filter_label}” a probability of {probability:.2f}.")


def _classifier_of(values: StudyValues) -> LocalClassifier:
    wanted = values.filtering
    return _classifier(wanted.filter_model.strip(), wanted.filter_label.strip())


@lru_cache(maxsize=4)
def _classifier(model: str, label: str) -> LocalClassifier:
    """Return the classifier, which is loaded by its first text and then kept by this process."""
    from evaluation.metrics.local_models import LocalClassifier

    return LocalClassifier(model, label, settings.CONFAB_DEVICE)
