"""Studies of a Confab server: read whole, as their pages show them, as files; made, brought in and analysed."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evaluation.reading import read
from evaluation.remote.answers import RemoteJob
from evaluation.remote.jobs import Jobs
from evaluation.study import Study


class Studies(Jobs):
    """Studies on a server, and actions on them."""

    def studies(self) -> list[dict[str, Any]]:
        """Return all studies, the newest first."""
        return self._all("/studies")

    def study(
        self, key: str, *, without: Sequence[str] = (), device: str = "cpu", **included: bool
    ) -> Study:
        """Return a study with its conversations and ratings, the same as `read` returns of its data package.

        Tables that ask for a right that the token lacks are not in it; `left_out` of the study names them.

        Args:
            without: flags; what people with one of them did is left out.
            device: where the study's metrics compute.
            included: `include_synthetic`, `include_failed`, `include_private`.

        Raises:
            ServerError: there is no such study, or the token may not read it.
        """
        asked = {**included, "without": ",".join(without)}
        with tempfile.TemporaryDirectory(prefix="confab-") as folder:
            file = self._download(f"/studies/{key}/package", Path(folder) / f"{key}.zip", asked)
            return read(file, device=device)

    def study_counts(self, key: str) -> dict[str, Any]:
        """Return a summary of a study: its protocol, its state, its bots, and the amount of data."""
        return dict(self._get(f"/studies/{key}"))

    def package(self, key: str, path: str | Path, **asked: Any) -> Path:
        """Write a study's data package to a file; `read` reads it.

        Args:
            asked: `include_synthetic`, `include_failed`, `include_private`, `without`.
        """
        return self._download(f"/studies/{key}/package", Path(path), asked)

    def table(
        self, key: str, name: str, path: str | Path, *, format: str = "csv", **included: Any
    ) -> Path:
        """Write an exported table of a study to a file: the same bytes as the command `export` writes.

        Args:
            name: of the table, as `tables()` lists them.
            format: csv, jsonl or parquet.
            included: `q`, a search line that narrows tables of conversations; `include_synthetic`, `include_failed`,
                `include_private`, `without`.
        """
        return self._download(
            f"/studies/{key}/tables/{name}", Path(path), {"format": format, **included}
        )

    def tables(self) -> list[dict[str, Any]]:
        """Return the tables that every study has."""
        return list(self._get("/tables"))

    def result(self, key: str, part: str, **asked: Any) -> dict[str, Any]:
        """Return a part of a study's analysis, waiting until a worker has made it of the data as they are now.

        Its `document` is what `report --json` prints of this part.

        Args:
            part: comparisons, dimensions, answers, items, models, raters, trajectories, correlations or powered.
        """
        return self._made(f"/studies/{key}/results/{part}", asked)

    def leaderboard(self, key: str, **asked: Any) -> dict[str, Any]:
        """Return the leaderboard, ranks as ranges, after waiting until it is made of the current data.

        Args:
            asked: `by` a question, `include_failed`, `include_synthetic`, `without`.
        """
        return self._made(f"/studies/{key}/leaderboard", asked)

    def votes(self, key: str, **asked: Any) -> dict[str, Any]:
        """Return the votes on single replies bot by bot, the highest share of votes up first.

        Args:
            asked: `include_failed`, `include_synthetic`, `without`.
        """
        return dict(self._get(f"/studies/{key}/votes", **asked))

    def flags(self, key: str) -> dict[str, Any]:
        """Return the number of participants whose work has flags, by kind."""
        return dict(self._get(f"/studies/{key}/flags"))

    def pairs(self, key: str, **asked: Any) -> dict[str, Any]:
        """Return the pairwise preferences, and one-turn next to interactive evaluation."""
        return dict(self._get(f"/studies/{key}/results/pairs", **asked))

    def overview(self, key: str, **asked: Any) -> dict[str, Any]:
        """Return the state of a study: its stages, the best next step, its bots, and open tasks for a person."""
        return dict(self._get(f"/studies/{key}/overview", **asked))

    def live(self, key: str, **asked: Any) -> dict[str, Any]:
        """Return the live room of a study that collects."""
        return dict(self._get(f"/studies/{key}/live", **asked))

    def datasheet(self, key: str) -> dict[str, Any]:
        """Return a study's human evaluation datasheet."""
        return dict(self._get(f"/studies/{key}/datasheet"))

    def datasheet_file(self, key: str, path: str | Path) -> Path:
        """Write a study's human evaluation datasheet to a file, as Markdown."""
        return self._download(f"/studies/{key}/datasheet.md", Path(path), {})

    def report(self, key: str, **asked: Any) -> dict[str, Any]:
        """Return the newest report that was made of a study; `report_make` asks for one.

        Args:
            asked: `sections` by commas, `like`, `include_synthetic`, `without`.
        """
        return dict(self._get(f"/studies/{key}/report", **asked))

    def report_file(self, key: str, path: str | Path, **asked: Any) -> Path:
        """Write the newest report of a study to a file, as one page."""
        return self._download(f"/studies/{key}/report.html", Path(path), asked)

    def report_make(self, key: str, **asked: Any) -> RemoteJob:
        """Let a worker make the report of the data as they are now; returns the job."""
        return RemoteJob.of(self._post(f"/studies/{key}/report", asked))

    def study_make(self, file: Mapping[str, Any], *, opens: bool = False) -> dict[str, Any]:
        """Make a study of a study's file, or a new version of the one with its key.

        Raises:
            ServerError: with every mistake, each with its path.
        """
        return dict(self._post(f"/studies?opens={str(opens).lower()}", file))

    def study_file(self, key: str) -> dict[str, Any]:
        """Return a study as its file has it."""
        return dict(self._get(f"/studies/{key}/file"))

    def bring(
        self,
        key: str,
        file: str | Path,
        *,
        scale: tuple[float, float] | None = None,
        language: str = "",
    ) -> RemoteJob:
        """Import a file of conversations into a study, which is made if there is none; returns the job."""
        asked = {"language": language} | (
            {} if scale is None else {"low": str(scale[0]), "high": str(scale[1])}
        )
        return self._upload(f"/studies/{key}/conversations", Path(file), asked)

    def analyse(self, study: str, *, selfplay: bool = False) -> RemoteJob:
        """Compute a study's metrics and fit the hybrid metric, after self-play if requested; returns the first job."""
        return RemoteJob.of(self._post(f"/studies/{study}/analysis", {"selfplay": selfplay}))

    def rehearse(self, study: str, people: int = 12, *, seed: int = 0) -> RemoteJob:
        """Send scripted participants through a study; returns the job."""
        return RemoteJob.of(
            self._post(f"/studies/{study}/rehearsals", {"people": people, "seed": seed})
        )

    def items_draw(self, study: str, **asked: Any) -> RemoteJob:
        """Draw items for a study from `of_study` or `run`; returns the job.

        Args:
            asked: besides `n_contexts`, `n_utterances`, `more_than_tokens`, `bots`, `seed`.
        """
        return RemoteJob.of(self._post(f"/studies/{study}/items", asked))

    def metrics_progress(self, key: str) -> list[dict[str, Any]]:
        """Return the progress of each metric on a study's finished conversations."""
        return list(self._get(f"/studies/{key}/metrics"))

    def hybrid(self, study: str, **asked: Any) -> RemoteJob:
        """Fit the hybrid metric to a study's ratings; returns the job, whose id is the fit's.

        Args:
            asked: `targets`, `preset`, `intercept`, `run`, `features`, `exclude_bots`, `include_synthetic`, `without`,
                `seed`.
        """
        return RemoteJob.of(self._post(f"/studies/{study}/fits", asked))

    def fits(self, key: str) -> list[dict[str, Any]]:
        """Return a study's newest hybrid fits, at most 100, without their documents."""
        return list(self._get(f"/studies/{key}/fits"))

    def fit(self, fit: int) -> dict[str, Any]:
        """Return the document of a hybrid fit, the one that `fit_hybrid --json` prints.

        Raises:
            ValueError: it is not done.
        """
        found = self._get(f"/fits/{fit}")
        if found["result"] is None:
            raise ValueError(f"fit {fit} has no result: it is {found['state']}")
        return dict(found["result"])

    def fit_file(self, fit: int, path: str | Path) -> Path:
        """Write a fit alone to a file, as `fit_hybrid --output` does; `fit_hybrid --fit` applies it to other data."""
        return self._download(f"/fits/{fit}/file", Path(path), {})
