"""How does self-play predict people? Only where bots that people rated can be run.

Used by `validate`. The data folder may have a `bots.yaml` beside the sets, which configures bots under the names that
the sets rate; they converse with themselves, and every one is predicted by the fit without it. The six bots that are
shipped do not count: what a rehearsal's scripted participants give them are not people's ratings.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from evaluation.hybrid.verdict import FEW_BOTS
from evaluation.number_format import figure, pluralise, share

if TYPE_CHECKING:
    from tests.validation.validate import Confab, RatedSet

BOTS_FILE = "bots.yaml"
N_CONVERSATIONS, N_TURNS = 20, 14
NOT_COUNTED = "the six shipped bots do not count, for nobody but scripted participants has rated them"


def configured(folder: Path) -> list[str]:
    """Return the ids of the bots that the data folder's `bots.yaml` configures; none without the file."""
    file = folder / BOTS_FILE
    if not file.exists():
        return []
    entries = yaml.safe_load(file.read_text(encoding="utf-8")) or []
    return [str(entry["id"]) for entry in entries if entry.get("id")]


def selfplay_told(confab: Confab, rated: RatedSet, bots: Sequence[str], here: Sequence[str], metrics: str) -> str:
    """Let the rated bots that can be run converse with themselves, and say how that predicts people.

    Args:
        bots: those that the set rates.
        here: those that can be run, shipped ones apart.
        metrics: what a fit reads.
    """
    can = [bot for bot in bots if bot in here]
    if len(can) < FEW_BOTS:
        return (
            f"{rated.name}: how self-play predicts people cannot be said: {len(can)} of "
            f"{pluralise(len(bots), 'rated bot')} can be run here, and {FEW_BOTS} are needed ({NOT_COUNTED})"
        )
    played = confab.command(
        *("selfplay", "--bots", ",".join(can), "--conversations", str(N_CONVERSATIONS)),
        *("--turns", str(N_TURNS), "--inline", "--json"),
    )
    run = str(played["run"])
    confab.command("compute_metrics", "--run", run, "--metrics", metrics, "--inline", "--json")
    fit = confab.command(
        *("fit_hybrid", "--study", rated.name, "--target", ",".join(rated.targets)),
        *("--preset", "strong", "--run", run, "--json"),
    )
    return f"{rated.name}: {figures_told(fit)} ({NOT_COUNTED})"


def figures_told(fit: dict[str, Any]) -> str:
    """Say how self-play predicts, from the document of a fit."""
    pearson, values = fit["bot_level_selfplay"]["pearson"], fit["values_selfplay"]
    inside = values["coverage95"]
    held = "no intervals" if inside is None else f"{inside['inside']} of {inside['of']} inside"
    shifts = ", ".join(
        f"{name} {share(selfplay_shift['shift'])} (furthest rated bot {share(selfplay_shift['widest'])})"
        for name, selfplay_shift in fit["selfplay_shifts"].items()
    )
    return (
        f"from self-play r {share(pearson['r'])} (chance {share(pearson['null95'])}), Q² "
        f"{share(values['q2']['value'])}, MAE {figure(values['mae'])} (of mean {figure(values['mae_of_mean'])}), "
        f"{held}; self-play minus people, in within-bot standard deviations: {shifts}"
    )
