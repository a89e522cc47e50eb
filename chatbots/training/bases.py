"""Values that several configs share: a file that a config is laid over.

    base: compat-2019            # in a config; or `train_bot CONFIG --base compat-2019`

A base is written like a config. Under the name of a model it may hold what is meant for that model alone, and
its `ei` holds only where the config has an `ei`: a base does not switch EI on. The config's own values win.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from chatbots.models.catalogue import MODELS
from chatbots.outside import ValuesError, yaml_read

CONFIGS = Path(__file__).parent / "configs"
"""Where a base without a folder in its name is looked for, beside the config's own folder."""


def base_find(name: str, beside: Path) -> Path:
    """Find the file of a base: by its path, relative to `beside`, or by its name among the project's configs.

    Raises:
        ValuesError: there is none; the message names those there are.
    """
    file = Path(name).expanduser()
    file = file if file.suffix else file.with_suffix(".yaml")
    for folder in (beside, CONFIGS):
        if (folder / file).is_file():
            return folder / file
    there = ", ".join(sorted(path.stem for path in CONFIGS.glob("*.yaml")))
    raise ValuesError(f"base is {name!r}, and there is no such file in {beside}; there is {there}")


def base_applied(values: Mapping[str, Any], base: Path) -> dict[str, Any]:
    """Lay the config's values over those of a base.

    Raises:
        ValuesError: the base cannot be read or holds no keys.
    """
    found = yaml_read(base)
    if not isinstance(found, Mapping):
        raise ValuesError(f"{base} is {found!r}; it must be a mapping")
    shared = {key: value for key, value in found.items() if key not in MODELS}
    own = found.get(str(values.get("model"))) or {}
    merged = laid_over(shared, own)
    if values.get("ei") is None:
        merged.pop("ei", None)
    return laid_over(merged, values)


def laid_over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Merge both, mappings key by key; where both have a value, the one above counts."""
    merged = dict(below)
    for key, value in above.items():
        under = merged.get(key)
        both = isinstance(under, Mapping) and isinstance(value, Mapping)
        merged[key] = laid_over(under, value) if both else value  # type: ignore[arg-type]
    return merged
