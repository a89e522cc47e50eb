"""`make bench`: every benchmark of this folder, one after the other, each in a process of its own.

python -m tests.benchmarks [NAME …]      e.g. transformers export
"""

import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent


def main() -> int:
    """Run them; 1 if one could not be done, 2 for an unknown name."""
    names = {path.stem.removeprefix("bench_"): path.stem for path in sorted(HERE.glob("bench_*.py"))}
    chosen = sys.argv[1:] or list(names)
    unknown = [name for name in chosen if name not in names]
    if unknown:
        print(f"no benchmark {', '.join(unknown)}; there are: {', '.join(names)}", file=sys.stderr)
        return 2
    failed = []
    for name in chosen:
        print(f"== {name}", flush=True)
        started = time.monotonic()
        command = [sys.executable, "-m", f"tests.benchmarks.{names[name]}"]
        if subprocess.run(command, check=False).returncode:
            failed.append(name)
        print(f"   {time.monotonic() - started:.0f} s", flush=True)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
