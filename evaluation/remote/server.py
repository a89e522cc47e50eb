"""Methods of a Confab server, one for each call of its API."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx

from evaluation.data.loading import read
from evaluation.data.study import Study
from evaluation.remote.client import ConversationCalls, Jobs, RemoteJob


class Studies(Jobs):
    """Studies on a server, and actions on them."""

    def studies(self) -> list[dict[str, Any]]:
        """Return all studies, the newest first."""
        return self._all("/studies")

    def study(self, key: str, *, without: Sequence[str] = (), device: str = "cpu", **included: bool) -> Study:
        """Return a study with its conversations and ratings.

        The result equals that of `read` for the study's data package.

        Tables that require a right that the token lacks are omitted; the study's `left_out` lists them.

        Args:
            without: flags; the data of participants with one of them are excluded.
            device: device for computing the study's metrics.
            included: `include_synthetic`, `include_failed`, `include_private`.

        Raises:
            ServerError: if there is no such study, or the token cannot read it.
        """
        params = {**included, "without": ",".join(without)}
        with tempfile.TemporaryDirectory(prefix="confab-") as folder:
            file = self._download(f"/studies/{key}/package", Path(folder) / f"{key}.zip", params)
            return read(file, device=device)

    def study_counts(self, key: str) -> dict[str, Any]:
        """Return a study's protocol, state, bots and amount of data."""
        return dict(self._get(f"/studies/{key}"))

    def package(self, key: str, path: str | Path, **params: Any) -> Path:
        """Write a study's data package to a file; `read` reads it.

        Args:
            params: `include_synthetic`, `include_failed`, `include_private`, `without`.
        """
        return self._download(f"/studies/{key}/package", Path(path), params)

    def table(self, key: str, name: str, path: str | Path, *, format: str = "csv", **included: Any) -> Path:
        """Write an exported table of a study to a file.

        The bytes are those that the command `export` writes.

        Args:
            name: name of the table, see `tables()`.
            format: csv, jsonl or parquet.
            included: `q`, a query that filters tables of conversations; `include_synthetic`, `include_failed`,
                `include_private`, `without`.
        """
        return self._download(f"/studies/{key}/tables/{name}", Path(path), {"format": format, **included})

    def tables(self) -> list[dict[str, Any]]:
        """Return the tables that every study has."""
        return list(self._get("/tables"))

    def result(self, key: str, part: str, **params: Any) -> dict[str, Any]:
        """Return a part of a study's analysis, computed from the current data.

        The call waits until a worker has finished.

        Its `document` equals this part in the output of `report --json`.

        Args:
            part: comparisons, dimensions, conditions, answers, items, models, raters, trajectories, correlations or
                powered.
        """
        return self._wait_for_result(f"/studies/{key}/results/{part}", params)

    def leaderboard(self, key: str, **params: Any) -> dict[str, Any]:
        """Return the leaderboard with rank ranges, computed from the current data.

        The call waits until a worker has finished.

        Args:
            params: `by` a question, `include_failed`, `include_synthetic`, `without`.
        """
        return self._wait_for_result(f"/studies/{key}/leaderboard", params)

    def votes(self, key: str, **params: Any) -> dict[str, Any]:
        """Return each bot's votes on single replies, highest share of upvotes first.

        Args:
            params: `include_failed`, `include_synthetic`, `without`.
        """
        return dict(self._get(f"/studies/{key}/votes", **params))

    def flags(self, key: str) -> dict[str, Any]:
        """Return the number of flagged participants by kind of flag."""
        return dict(self._get(f"/studies/{key}/flags"))

    def pairs(self, key: str, **params: Any) -> dict[str, Any]:
        """Return pairwise preferences, and their comparison with interactive evaluation."""
        return dict(self._get(f"/studies/{key}/results/pairs", **params))

    def overview(self, key: str, **params: Any) -> dict[str, Any]:
        """Return a study's stages, recommended next step, bots and open tasks."""
        return dict(self._get(f"/studies/{key}/overview", **params))

    def live(self, key: str, **params: Any) -> dict[str, Any]:
        """Return live data of a study that is collecting."""
        return dict(self._get(f"/studies/{key}/live", **params))

    def datasheet(self, key: str) -> dict[str, Any]:
        """Return a study's human evaluation datasheet."""
        return dict(self._get(f"/studies/{key}/datasheet"))

    def plan(self, key: str) -> dict[str, Any]:
        """Return the plan that was stored when a study opened, with later changes."""
        return dict(self._get(f"/studies/{key}/plan"))

    def datasheet_file(self, key: str, path: str | Path) -> Path:
        """Write a study's human evaluation datasheet to a file, as Markdown."""
        return self._download(f"/studies/{key}/datasheet.md", Path(path), {})

    def report(self, key: str, **params: Any) -> dict[str, Any]:
        """Return a study's newest report; `report_make` requests a new one.

        Args:
            params: `sections` by commas, `like`, `include_synthetic`, `without`.
        """
        return dict(self._get(f"/studies/{key}/report", **params))

    def report_file(self, key: str, path: str | Path, **params: Any) -> Path:
        """Write a study's newest report to a file as a single page."""
        return self._download(f"/studies/{key}/report.html", Path(path), params)

    def report_make(self, key: str, **params: Any) -> RemoteJob:
        """Request a report on the current data; returns the job."""
        return RemoteJob.from_document(self._post(f"/studies/{key}/report", params))

    def study_make(self, file: Mapping[str, Any], *, opens: bool = False) -> dict[str, Any]:
        """Create a study from a study file, or a new version of it.

        The key in the file identifies the study.

        Raises:
            ServerError: if the file is invalid; lists all mistakes with their paths.
        """
        return dict(self._post(f"/studies?opens={str(opens).lower()}", file))

    def study_file(self, key: str) -> dict[str, Any]:
        """Return a study in the form of its file."""
        return dict(self._get(f"/studies/{key}/file"))

    def bring(
        self, key: str, file: str | Path, *, scale: tuple[float, float] | None = None, language: str = ""
    ) -> RemoteJob:
        """Import conversations into a study, creating it if necessary; returns the job."""
        form = {"language": language} | ({} if scale is None else {"low": str(scale[0]), "high": str(scale[1])})
        return self._upload(f"/studies/{key}/conversations", Path(file), form)

    def analyse(self, study: str, *, selfplay: bool = False) -> RemoteJob:
        """Compute a study's metrics and fit the hybrid metric.

        If requested, self-play runs first. Returns the first job.
        """
        return RemoteJob.from_document(self._post(f"/studies/{study}/analysis", {"selfplay": selfplay}))

    def rehearse(self, study: str, people: int = 12, *, seed: int = 0) -> RemoteJob:
        """Run scripted participants through a study; returns the job."""
        return RemoteJob.from_document(self._post(f"/studies/{study}/rehearsals", {"people": people, "seed": seed}))

    def items_draw(self, study: str, **params: Any) -> RemoteJob:
        """Draw items for a study from `of_study` or `run`; returns the job.

        Args:
            params: also `n_contexts`, `n_utterances`, `more_than_tokens`, `bots`, `seed`.
        """
        return RemoteJob.from_document(self._post(f"/studies/{study}/items", params))

    def metrics_progress(self, key: str) -> list[dict[str, Any]]:
        """Return each metric's progress on a study's finished conversations."""
        return list(self._get(f"/studies/{key}/metrics"))

    def hybrid(self, study: str, **params: Any) -> RemoteJob:
        """Fit the hybrid metric to a study's ratings; returns the job.

        The job's id is also the id of the fit.

        Args:
            params: `targets`, `preset`, `intercept`, `run`, `features`, `exclude_bots`, `include_synthetic`, `without`,
                `condition`, `seed`.
        """
        return RemoteJob.from_document(self._post(f"/studies/{study}/fits", params))

    def fits(self, key: str) -> list[dict[str, Any]]:
        """Return a study's newest hybrid fits, up to 100, without documents."""
        return list(self._get(f"/studies/{key}/fits"))

    def fit(self, fit: int) -> dict[str, Any]:
        """Return a hybrid fit's document, as printed by `fit_hybrid --json`.

        Raises:
            ValueError: if the fit is not finished.
        """
        document = self._get(f"/fits/{fit}")
        if document["result"] is None:
            raise ValueError(f"fit {fit} has no result: it is {document['state']}")
        return dict(document["result"])

    def fit_file(self, fit: int, path: str | Path) -> Path:
        """Write a fit to a file, like `fit_hybrid --output`.

        `fit_hybrid --fit` applies it to other data.
        """
        return self._download(f"/fits/{fit}/file", Path(path), {})


class Server(Studies, ConversationCalls):
    """Client of a server with an API token.

    Args:
        url: base URL of the server, without `/dashboard/`.
        token: token made by `api_token make`.
        transport: replaces the network in tests.
    """

    def me(self) -> dict[str, Any]:
        """Return the token's owner and rights, and the server's version."""
        return dict(self._get("/me"))

    def bots(self) -> list[dict[str, Any]]:
        """Return the server's bots."""
        return list(self._get("/bots"))

    def bot(self, id: str) -> dict[str, Any]:
        """Return a bot with its health, settings and card."""
        return dict(self._get(f"/bots/{id}"))

    def metrics(self) -> list[dict[str, Any]]:
        """Return the server's metrics with columns and availability."""
        return list(self._get("/metrics"))

    def benchmark(self, **params: Any) -> dict[str, Any]:
        """Return the benchmark of metrics against human ratings of single replies.

        Args:
            params: `by` spearman, pearson or kendall; `target`, `language`, `sort`.
        """
        return dict(self._get("/benchmark", **params))

    def benchmark_ask(self, study: str, metrics: Sequence[str] = ()) -> RemoteJob:
        """Compare metrics with a study's ratings of single replies; returns the job.

        Without metrics, a default selection is used.
        """
        return RemoteJob.from_document(self._post("/benchmark", {"study": study, "metrics": list(metrics)}))

    def benchmark_file(self, file: str | Path, metrics: Sequence[str] = ()) -> RemoteJob:
        """Compare metrics with a file of rated replies; returns the job.

        The format is that of `export --what judged`.
        """
        return self._upload("/benchmark/files", Path(file), {"metrics": ",".join(metrics)})

    def benchmark_again(self, job: int) -> RemoteJob:
        """Repeat a comparison with the current data and metrics; returns the job.

        If nothing has changed, this is the finished job.

        Args:
            job: job of the comparison, from `sets` and `stale` of `benchmark()`.
        """
        return RemoteJob.from_document(self._post(f"/benchmark/{job}/again", {}))

    def judges(self) -> list[dict[str, Any]]:
        """Return the newest comparisons of judges with human raters."""
        return list(self._get("/judges"))

    def judges_ask(self, study: str, judges: Sequence[str], **params: Any) -> RemoteJob:
        """Compare judges with a study's raters.

        `params` can contain `question`, `expertise`, `most` and `run`.
        """
        return RemoteJob.from_document(self._post("/judges", {"study": study, "judges": list(judges), **params}))

    def system(self) -> dict[str, Any]:
        """Return the state of the installation."""
        return dict(self._get("/system"))

    def audit(self, **params: Any) -> Iterator[dict[str, Any]]:
        """Yield the entries of the audit log that match, newest first; pages are fetched on demand.

        Args:
            params: `actor`, `action`, `object_kind`, `object_id`, `since`, `until`.
        """
        after: dict[str, str] = {}
        while True:
            page = self._get("/audit", limit=1000, **params, **after)
            yield from page["items"]
            after = {"after": page["after"]}
            if not page["after"]:
                return

    def runs(self) -> list[dict[str, Any]]:
        """Return all self-play runs, the newest first."""
        return self._all("/runs")

    def run(self, run: int) -> dict[str, Any]:
        """Return a self-play run with its pairs."""
        return dict(self._get(f"/runs/{run}"))

    def runs_compare(
        self, runs: Sequence[int] = (), *, bots: Sequence[str] = (), columns: Sequence[str] = ()
    ) -> dict[str, Any]:
        """Return mean metrics of self-play runs by bot.

        Intervals are over conversations.

        Args:
            runs: by default the newest ones.
            bots: by default all bots of these runs.
            columns: metric columns, by default a selection.
        """
        params = {"runs": ",".join(map(str, runs)), "bots": ",".join(bots)}
        return dict(self._get("/runs/compare", **params, columns=",".join(columns)))

    def run_tables(self) -> list[dict[str, Any]]:
        """Return the tables that every self-play run has."""
        return list(self._get("/run-tables"))

    def run_table(self, run: int, name: str, path: str | Path, *, format: str = "csv", **included: Any) -> Path:
        """Write a table of a self-play run to a file.

        The bytes are those that `export --run` writes.

        Args:
            included: `q`, a query that filters tables of conversations; `include_failed`.
        """
        return self._download(f"/runs/{run}/tables/{name}", Path(path), {"format": format, **included})

    def selfplay(self, bots: Sequence[str], **params: Any) -> RemoteJob:
        """Start self-play of bots; returns the job.

        Args:
            params: `pairs`, `conversations`, `turns`, `seed`, `openers`, `metrics`, `study`, `name`.
        """
        return RemoteJob.from_document(self._post("/runs", {"bots": list(bots), **params}))

    def simulate(self, study: str, participants: Sequence[str] = ("retrieval",), **params: Any) -> RemoteJob:
        """Start chats of simulated participants with a study's bots; returns the job.

        Args:
            params: `bots`, `conversations`, `exchanges`, `may_leave`, `seed`, `profiles`, `max_cost`, `metrics`,
                `name`.
        """
        return RemoteJob.from_document(
            self._post(f"/studies/{study}/simulations", {"participants": list(participants), **params})
        )

    def realism(self, study: str, run: int, participant: str = "") -> dict[str, Any]:
        """Fetch a run's comparison with people.

        `document` is None until it is ready.
        """
        comparison: dict[str, Any] = self._get(f"/studies/{study}/results/realism", run=run, participant=participant)
        return comparison

    def measure(self, *, study: str = "", run: int | None = None, metrics: Sequence[str] = ()) -> RemoteJob:
        """Compute metrics of a study or run; returns the job.

        Without metrics, the default ones are computed.
        """
        if bool(study) == (run is not None):
            raise ValueError("measure needs either a study or a run")
        base_path = f"/studies/{study}" if study else f"/runs/{run}"
        return RemoteJob.from_document(self._post(f"{base_path}/metrics", {"metrics": list(metrics)}))

    def scores_bring(
        self,
        file: str | Path,
        *,
        study: str = "",
        run: int | None = None,
        lower: Sequence[str] = (),
        licence: str = "",
        source: str = "",
    ) -> RemoteJob:
        """Import scores of other programs for a study or run; returns the job.

        Args:
            lower: metrics of which lower values are better.
        """
        if bool(study) == (run is not None):
            raise ValueError("scores_bring needs either a study or a run")
        base_path = f"/studies/{study}" if study else f"/runs/{run}"
        form: dict[str, str | list[str]] = {"lower": list(lower), "licence": licence, "source": source}
        return self._upload(f"{base_path}/scores", Path(file), form)

    def metric_delete(self, name: str) -> dict[str, int]:
        """Delete an imported metric; returns the number of its values."""
        return dict(self._again("DELETE", f"/metrics/{name}"))


def connect(url: str, token: str) -> Server:
    """Connect to a Confab server.

    Args:
        url: base URL of the server.
        token: token made by `api_token make --user NAME --name WHAT --rights read,run`.

    Raises:
        ServerError: if the token is invalid.
        httpx.TransportError: if the server cannot be reached.
    """
    server = Server(url, token)
    try:
        server.me()
    except httpx.TransportError as error:
        raise type(error)(f"no server responds at {url}: {error}") from error
    return server
