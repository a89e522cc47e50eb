"""Old module paths, which plug-ins and notebooks can import until version 1.0.

Importing `evaluation.tables` imports `evaluation.data.tables`, with a DeprecationWarning, and both names are the same
module.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

MOVED = {
    "evaluation.combination": "evaluation.agreement.combination",
    "evaluation.formats": "evaluation.data.formats",
    "evaluation.items": "evaluation.data.items",
    "evaluation.judges": "evaluation.agreement.judges",
    "evaluation.llm_judge": "evaluation.agreement.llm_judge",
    "evaluation.loading": "evaluation.data.loading",
    "evaluation.metric_agreement": "evaluation.agreement.metric_agreement",
    "evaluation.ratings": "evaluation.data.ratings",
    "evaluation.realism": "evaluation.simulation.realism",
    "evaluation.selfplay": "evaluation.simulation.selfplay",
    "evaluation.study": "evaluation.data.study",
    "evaluation.system_agreement": "evaluation.agreement.system_agreement",
    "evaluation.tables": "evaluation.data.tables",
}
"""New path by old path. The paths of a package's modules follow it."""


class OldPaths(MetaPathFinder, Loader):
    """Importer of modules by their old paths."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of an old path, and None for any other module."""
        old = next((old for old in MOVED if f"{fullname}.".startswith(f"{old}.")), None)
        if old is None:
            return None
        new = MOVED[old] + fullname.removeprefix(old)
        warnings.warn(f"{fullname} is now {new}; version 1.0 removes the old path", DeprecationWarning, stacklevel=2)
        module = importlib.import_module(new)
        return ModuleSpec(fullname, self, loader_state=(module, module.__spec__))

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the module that is already imported by its new path."""
        module: ModuleType = spec.loader_state[0]
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Restore the module's own spec, which the import has replaced by that of the old path."""
        assert module.__spec__ is not None
        module.__spec__ = module.__spec__.loader_state[1]


def accept_old_paths() -> None:
    """Accept the old paths in imports. First in the list: the files of a moved package would load twice otherwise."""
    if not any(isinstance(finder, OldPaths) for finder in sys.meta_path):
        sys.meta_path.insert(0, OldPaths())
