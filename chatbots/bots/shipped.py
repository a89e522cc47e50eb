"""The checkpoints that come with Confab, each a bot: every folder of `chatbots/shipped` is registered here.

The folder's name is the bot's id. Beside the checkpoint it may hold a `bot.yaml` with the bot's name for people
and its decoding settings, as an entry of `bots.yaml` would:

    name: HRED with EI (demo)
    params: {decoding: sample, temperature: 0.7}
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from chatbots.bots.checkpoint import CheckpointBot
from chatbots.checkpoints import CheckpointError, checkpoint_manifest
from chatbots.registry import bots

SHIPPED = Path(__file__).parent.parent / "shipped"


def shipped_bots(folder: Path = SHIPPED) -> list[type[CheckpointBot]]:
    """Return a bot class, made without arguments, for every checkpoint folder in `folder`."""
    return [_class(path) for path in sorted(folder.glob("[!._]*")) if path.is_dir()]


def _class(folder: Path) -> type[CheckpointBot]:
    settings = _settings(folder / "bot.yaml")
    title = settings.get("name") or _title(folder)

    class ShippedBot(CheckpointBot):
        """A small neural model that comes with Confab; its folder has a model card."""

        def __init__(self) -> None:
            super().__init__(
                name=folder.name, title=title, folder=str(folder), **settings.get("params", {})
            )

    return ShippedBot


def _settings(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    import yaml

    return yaml.safe_load(path.read_text(encoding="utf-8")) or {}


def _title(folder: Path) -> str:
    """Return the title that the checkpoint states, or one made from its folder's name: "VHRED EI demo"."""
    try:
        title = checkpoint_manifest(folder).title
    except CheckpointError:
        title = ""
    parts = folder.name.split("-")
    return title or " ".join(part if part == "demo" else part.upper() for part in parts)


for _bot in shipped_bots():
    bots.register(_bot)
