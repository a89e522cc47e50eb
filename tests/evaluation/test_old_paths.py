"""Modules that moved can be imported by the paths that plug-ins and notebooks know."""

import importlib
import pickle
import sys

import pytest

from evaluation.data.formats.base import register_format
from evaluation.old_paths import MOVED


@pytest.mark.parametrize(("old", "new"), MOVED.items())
def test_an_old_path_is_the_same_module(old: str, new: str) -> None:
    sys.modules.pop(old, None)
    with pytest.warns(DeprecationWarning, match=f"{old} is now {new}"):
        module = importlib.import_module(old)
    assert module is importlib.import_module(new)
    assert module.__spec__ is not None
    assert module.__spec__.name == module.__name__ == new


def test_the_files_of_a_moved_package_load_once() -> None:
    sys.modules.pop("evaluation.formats.base", None)
    with pytest.warns(DeprecationWarning, match="is now"):
        from evaluation.formats.base import register_format as by_old_path  # type: ignore[import-not-found]
    assert by_old_path is register_format


def test_a_stored_object_of_an_old_path_can_be_read() -> None:
    sys.modules.pop("evaluation.tables", None)
    with pytest.warns(DeprecationWarning, match="is now"):
        column = pickle.loads(b"cevaluation.tables\nColumn\n.")
    assert column.__module__ == "evaluation.data.tables"


def test_other_missing_modules_stay_missing() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'evaluation\.tablesx'"):
        importlib.import_module("evaluation.tablesx")
