"""BM25 leaves JAX alone, which would take the memory of a GPU."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
INDEXED = (
    "from evaluation.training.negatives import Bm25; print(Bm25(['a red house', 'the sea']).best(['red'], 1).tolist())"
)


@pytest.mark.parametrize("before", ["", "import jax; "], ids=["not imported", "imported before"])
def test_it_computes_nothing_by_jax(tmp_path: Path, before: str) -> None:
    package = tmp_path / "jax"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "lax.py").write_text("raise SystemExit('JAX is at work')")
    done = subprocess.run(
        [sys.executable, "-c", f"{before}{INDEXED}; import jax; print(jax.__name__)"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split("\n")[:2] == ["[[0]]", "jax"], done.stderr
