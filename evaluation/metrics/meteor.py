"""METEOR 1.5 of a reply against a person's reply, by its own program in Java.

Denkowski and Lavie (2014), "Meteor Universal", options `-l en -norm`, per sentence: the variant behind the tables of
GRADE, RADE and the survey of Yeh et al. 2021. NLTK's METEOR is the definition of 2007 and gives other numbers. The
package pycocoevalcap carries the program and its table of paraphrases; none of the package's own code is run.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from evaluation.columns import per_turn
from evaluation.items import ReplyInContext
from evaluation.metrics.registry import register_metric
from evaluation.metrics.replies import ReplyMetric
from evaluation.metrics.shared import Shared

JAR = "meteor-1.5.jar"
_PATIENCE_S = 120.0
"""A batch takes a second; a program that is silent for so long is ended."""
_TRIES = 2


class MeteorError(Exception):
    """The program ended, or said something that is no number."""


def meteor_jar() -> Path | None:
    """Return the program's file; None where its package is not installed."""
    # find_spec of a top-level package looks for its folder and runs none of its code.
    spec = importlib.util.find_spec("pycocoevalcap")
    places = (spec.submodule_search_locations or []) if spec else []
    files = [Path(place) / "meteor" / JAR for place in places]
    return next((file for file in files if file.is_file()), None)


class _Program:
    """One running METEOR, for any thread; it ends with this process, for its input ends then."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None

    def scores(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Score (reply, reference) pairs; a program that breaks off is started once more.

        Raises:
            MeteorError: it broke off again.
        """
        with self._lock:
            for attempt in range(_TRIES):
                try:
                    return self._scores(pairs)
                except (OSError, ValueError, MeteorError) as error:
                    self._end()
                    if attempt + 1 == _TRIES:
                        raise MeteorError(f"METEOR broke off: {error}") from error
        raise AssertionError("the loop returns or raises")

    def _scores(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        process = self._started()
        watch = threading.Timer(_PATIENCE_S, process.kill)
        watch.start()
        try:
            said = [
                self._asked(f"SCORE ||| {_line(wanted)} ||| {_line(reply)}")
                for reply, wanted in pairs
            ]
            found = [float(self._asked(" ||| ".join(["EVAL", *said])))]
            found += [float(self._answer()) for _ in pairs]
            return found[:-1]  # the last is of all together
        finally:
            watch.cancel()

    def _started(self) -> subprocess.Popen[str]:
        jar = meteor_jar()
        if jar is None:
            raise MeteorError("its file has gone")
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(
                ["java", "-Xmx2G", "-jar", str(jar), "-", "-", "-stdio", "-l", "en", "-norm"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                encoding="utf-8",
            )
        return self._process

    def _asked(self, line: str) -> str:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> str:
        assert self._process is not None
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        if not line:
            raise MeteorError("it gave no answer")
        return line

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def _line(text: str) -> str:
    """Return the text as the program's protocol can hold it: one line without its separator."""
    return " ".join(text.replace("|||", " ").split())


@register_metric
class Meteor(ReplyMetric):
    """METEOR 1.5 of a reply against one reference; on request."""

    name = "meteor"
    title = "METEOR"
    columns = per_turn(
        "meteor",
        "METEOR",
        unit="1",
        range=(0, 1),
        direction="higher",
        description="METEOR 1.5 (-l en -norm) of the reply against the reference. Needs a reference and Java.",
    )
    needs_reference = True
    reads_tokens = True
    window = 0
    languages = ("en",)
    needs = ("a reference", "Java", "the package pycocoevalcap")
    licence = "LGPL-2.1 (METEOR 1.5)"

    def __init__(self) -> None:
        self._program = _Program()

    def unavailable_reason(self) -> str | None:
        if meteor_jar() is None:
            return (
                f"the package pycocoevalcap, which carries {JAR}, is not installed; run "
                "`pip install --no-deps pycocoevalcap` (104 MB)"
            )
        if shutil.which("java") is None:
            return "it is a program in Java, and there is no `java` on the PATH; install a Java runtime"
        return None

    def score(self, replies: Sequence[ReplyInContext], shared: Shared) -> dict[str, np.ndarray]:
        pairs = [(reply.response, reply.reference or "") for reply in replies]
        return {"meteor": np.array(self._program.scores(pairs))}
