"""Validation of a hybrid fit's request: everything it names must exist before anything is stored."""

from __future__ import annotations

from collections.abc import Sequence

from chatbots.names import nearest_names
from chatbots.storable import quote
from webapp.core.errors import Refused
from webapp.ratings.models import Rating
from webapp.runs.selectors.frames import column_names
from webapp.runs.selectors.metrics import measurable, metrics_all
from webapp.studies.models import Study


def fit_arguments_check(
    *,
    study: Study,
    preset: str,
    targets: Sequence[str],
    features: Sequence[str],
    exclude_bots: Sequence[str],
) -> None:
    """Look for a name that is none.

    Args:
        study: whose ratings are fitted.

    Raises:
        Refused: `unknown_name`, with the nearest right ones.
    """
    from evaluation.hybrid.embeddings import block_of
    from evaluation.hybrid.features import HybridError
    from evaluation.hybrid.presets import preset_get

    try:
        preset_get(preset)
    except HybridError as error:
        raise Refused("unknown_name", str(error)) from None
    conversations = measurable(study=study, run=None)
    bots = conversations.order_by("bot__bot_id").values_list("bot__bot_id", flat=True).distinct()
    _known(f"bot of study {study.key}", exclude_bots, list(bots))
    dimensions: dict[str, None] = {}
    for answers in (
        Rating.objects.filter(conversation__in=conversations)
        .values_list("answers", flat=True)
        .iterator(chunk_size=2000)
    ):
        dimensions.update(dict.fromkeys(answers))
    columns = [*column_names(metrics_all()), *dimensions]
    _known("metric column", [name for name in features if block_of(name) is None], columns)
    # A study without ratings gets the sentence of the fit itself, which says just that.
    if dimensions:
        _known(f"rating dimension of study {study.key}", targets, list(dimensions))


def _known(what: str, asked: Sequence[str], known: list[str]) -> None:
    for name in asked:
        if name not in known:
            near = nearest_names(name, known)
            hint = f"did you mean {' or '.join(near)}?" if near else f"there is: {', '.join(known)}"
            raise Refused("unknown_name", f"there is no {what} {quote(name)}; {hint}")
