"""All validations that `make validate` does, one after another.

    python -m tests.validation --size quick|full

`quick` is what real ratings say: fits, comparisons and published figures. Simulations of intervals say something with
hundreds of studies alone and are only in `full`; the suite has some of each.

Each is a fork of this process, which has imported what takes seconds to import. All are done; the exit code is 1 where
one of them failed.
"""

import argparse
import importlib
import os
import sys

QUICK = ("validate", "comparisons", "replies")
FULL = (
    *QUICK,
    "realism",
    "sets",
    "lengths",
    "folds",
    "entailment",
    "coverage",
    "small_groups",
    "condition_cells",
    "models",
    "formula_models",
    "held",
    "systems",
)
SIZED = {"validate", "replies", "realism"}


def main() -> int:
    """Do all of them; return 1 where one failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=["quick", "full"], default="quick")
    options = parser.parse_args()
    import pandas  # noqa: F401
    import sentence_transformers  # noqa: F401
    from scipy import stats  # noqa: F401

    failed = 0
    for name in QUICK if options.size == "quick" else FULL:
        sized = ["--size", options.size] if name in SIZED else []
        print(f"== tests.validation.{name} {' '.join(sized)}", flush=True)
        if not (child := os.fork()):
            module = f"tests.validation.{name}"
            sys.argv = [module, *sized]
            sys.exit(importlib.import_module(module).main())
        failed |= os.waitpid(child, 0)[1] != 0
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
