"""A Confab server from a program: `connect(url, token)`.

    lab = connect("https://confab.example.org", token)
    study = lab.study("everyday-talk")                    # as `read` returns it
    run = lab.wait(lab.selfplay(["my-bot"], conversations=50, metrics=["words"]))
    fit = lab.fit(lab.wait(lab.hybrid("everyday-talk", run=run.id)).id)

Every call is one of the server's API, which `/api/v1/openapi.json` describes.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx

from evaluation.loading import read
from evaluation.remote.client import ConversationCalls, Jobs, RemoteJob, ServerError
from evaluation.study import Study

__all__ = ["RemoteJob", "Server", "ServerError", "connect"]


class Studies(Jobs):
    """Studies on a server, and actions on them."""

    def studies(self) -> list[dict[str, Any]]:
        """Return all studies, the newest first."""
        return self._all("/studies")

    def study(self, key: str, *, without: Sequence[str] = (), device: str = "cpu", **included: bool) -> Study:
        """Return a study with its conversations and ratings, the same as `read` returns of its data package.

        Tables that ask for a right that the token lacks are not in it; `left_out` of the study names them.

        Args:
            without: flags; what people with one of them did is left out.
            device: where the study's metrics compute.
            included: `include_synthetic`, `include_failed`, `include_private`.

        Raises:
            ServerError: there is no such study, or the token may not read it.
        """
        params = {**included, "without": ",".join(without)}
        with tempfile.TemporaryDirectory(prefix="confab-") as folder:
            file = self._download(f"/studies/{key}/package", Path(folder) / f"{key}.zip", params)
            return read(file, device=device)

    def study_counts(self, key: str) -> dict[str, Any]:
        """Return a summary of a study: its protocol, its state, its bots, and the amount of data."""
        return dict(self._get(f"/studies/{key}"))

    def package(self, key: str, path: str | Path, **params: Any) -> Path:
        """Write a study's data package to a file; `read` reads it.

        Args:
            params: `include_synthetic`, `include_failed`, `include_private`, `without`.
        """
        return self._download(f"/studies/{key}/package", Path(path), params)

    def table(self, key: str, name: str, path: str | Path, *, format: str = "csv", **included: Any) -> Path:
        """Write an exported table of a study to a file: the same bytes as the command `export` writes.

        Args:
            name: of the table, as `tables()` lists them.
            format: csv, jsonl or parquet.
            included: `q`, a search line that narrows tables of conversations; `include_synthetic`, `include_failed`,
                `include_private`, `without`.
        """
        return self._download(f"/studies/{key}/tables/{name}", Path(path), {"format": format, **included})

    def tables(self) -> list[dict[str, Any]]:
        """Return the tables that every study has."""
        return list(self._get("/tables"))

    def result(self, key: str, part: str, **params: Any) -> dict[str, Any]:
        """Return a part of a study's analysis, waiting until a worker has made it of the data as they are now.

        Its `document` is what `report --json` prints of this part.

        Args:
            part: comparisons, dimensions, conditions, answers, items, models, raters, trajectories, correlations or
                powered.
        """
        return self._wait_for_result(f"/studies/{key}/results/{part}", params)

    def leaderboard(self, key: str, **params: Any) -> dict[str, Any]:
        """Return the leaderboard, ranks as ranges, after waiting until it is made of the current data.

        Args:
            params: `by` a question, `include_failed`, `include_synthetic`, `without`.
        """
        return self._wait_for_result(f"/studies/{key}/leaderboard", params)

    def votes(self, key: str, **params: Any) -> dict[str, Any]:
        """Return the votes on single replies bot by bot, the highest share of votes up first.

        Args:
            params: `include_failed`, `include_synthetic`, `without`.
        """
        return dict(self._get(f"/studies/{key}/votes", **params))

    def flags(self, key: str) -> dict[str, Any]:
        """Return the number of participants whose work has flags, by kind."""
        return dict(self._get(f"/studies/{key}/flags"))

    def pairs(self, key: str, **params: Any) -> dict[str, Any]:
        """Return the pairwise preferences, and one-turn next to interactive evaluation."""
        return dict(self._get(f"/studies/{key}/results/pairs", **params))

    def overview(self, key: str, **params: Any) -> dict[str, Any]:
        """Return the state of a study: its stages, the best next step, its bots, and open tasks for a person."""
        return dict(self._get(f"/studies/{key}/overview", **params))

    def live(self, key: str, **params: Any) -> dict[str, Any]:
        """Return the live room of a study that collects."""
        return dict(self._get(f"/studies/{key}/live", **params))

    def datasheet(self, key: str) -> dict[str, Any]:
        """Return a study's human evaluation datasheet."""
        return dict(self._get(f"/studies/{key}/datasheet"))

    def datasheet_file(self, key: str, path: str | Path) -> Path:
        """Write a study's human evaluation datasheet to a file, as Markdown."""
        return self._download(f"/studies/{key}/datasheet.md", Path(path), {})

    def report(self, key: str, **params: Any) -> dict[str, Any]:
        """Return the newest report that was made of a study; `report_make` asks for one.

        Args:
            params: `sections` by commas, `like`, `include_synthetic`, `without`.
        """
        return dict(self._get(f"/studies/{key}/report", **params))

    def report_file(self, key: str, path: str | Path, **params: Any) -> Path:
        """Write the newest report of a study to a file, as one page."""
        return self._download(f"/studies/{key}/report.html", Path(path), params)

    def report_make(self, key: str, **params: Any) -> RemoteJob:
        """Let a worker make the report of the data as they are now; returns the job."""
        return RemoteJob.from_document(self._post(f"/studies/{key}/report", params))

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
        self, key: str, file: str | Path, *, scale: tuple[float, float] | None = None, language: str = ""
    ) -> RemoteJob:
        """Import a file of conversations into a study, which is made if there is none; returns the job."""
        form = {"language": language} | ({} if scale is None else {"low": str(scale[0]), "high": str(scale[1])})
        return self._upload(f"/studies/{key}/conversations", Path(file), form)

    def analyse(self, study: str, *, selfplay: bool = False) -> RemoteJob:
        """Compute a study's metrics and fit the hybrid metric, after self-play if requested; returns the first job."""
        return RemoteJob.from_document(self._post(f"/studies/{study}/analysis", {"selfplay": selfplay}))

    def rehearse(self, study: str, people: int = 12, *, seed: int = 0) -> RemoteJob:
        """Send scripted participants through a study; returns the job."""
        return RemoteJob.from_document(self._post(f"/studies/{study}/rehearsals", {"people": people, "seed": seed}))

    def items_draw(self, study: str, **params: Any) -> RemoteJob:
        """Draw items for a study from `of_study` or `run`; returns the job.

        Args:
            params: besides `n_contexts`, `n_utterances`, `more_than_tokens`, `bots`, `seed`.
        """
        return RemoteJob.from_document(self._post(f"/studies/{study}/items", params))

    def metrics_progress(self, key: str) -> list[dict[str, Any]]:
        """Return the progress of each metric on a study's finished conversations."""
        return list(self._get(f"/studies/{key}/metrics"))

    def hybrid(self, study: str, **params: Any) -> RemoteJob:
        """Fit the hybrid metric to a study's ratings; returns the job, whose id is the fit's.

        Args:
            params: `targets`, `preset`, `intercept`, `run`, `features`, `exclude_bots`, `include_synthetic`, `without`,
                `condition`, `seed`.
        """
        return RemoteJob.from_document(self._post(f"/studies/{study}/fits", params))

    def fits(self, key: str) -> list[dict[str, Any]]:
        """Return a study's newest hybrid fits, at most 100, without their documents."""
        return list(self._get(f"/studies/{key}/fits"))

    def fit(self, fit: int) -> dict[str, Any]:
        """Return the document of a hybrid fit, the one that `fit_hybrid --json` prints.

        Raises:
            ValueError: it is not done.
        """
        document = self._get(f"/fits/{fit}")
        if document["result"] is None:
            raise ValueError(f"fit {fit} has no result: it is {document['state']}")
        return dict(document["result"])

    def fit_file(self, fit: int, path: str | Path) -> Path:
        """Write a fit alone to a file, as `fit_hybrid --output` does; `fit_hybrid --fit` applies it to other data."""
        return self._download(f"/fits/{fit}/file", Path(path), {})


class Server(Studies, ConversationCalls):
    """The calls of a server, with one token.

    Args:
        url: of the server, as a browser has it up to `/dashboard/`.
        token: made by `api_token make`.
        transport: of tests, in place of the network.
    """

    def me(self) -> dict[str, Any]:
        """Return whose token this is, its rights and the server's version."""
        return dict(self._get("/me"))

    def bots(self) -> list[dict[str, Any]]:
        """Return the server's bots."""
        return list(self._get("/bots"))

    def bot(self, id: str) -> dict[str, Any]:
        """Return a bot with its health, its settings and its card."""
        return dict(self._get(f"/bots/{id}"))

    def metrics(self) -> list[dict[str, Any]]:
        """Return the server's metrics, each with its columns, and why it cannot be computed there where that is so."""
        return list(self._get("/metrics"))

    def benchmark(self, **params: Any) -> dict[str, Any]:
        """Return the benchmark: metrics against people's ratings of single replies.

        Args:
            params: `by` spearman, pearson or kendall; `target`, `language`, `sort`.
        """
        return dict(self._get("/benchmark", **params))

    def benchmark_ask(self, study: str, metrics: Sequence[str] = ()) -> RemoteJob:
        """Compare metrics with a study's ratings of single replies (by default the usual ones); returns the job."""
        return RemoteJob.from_document(self._post("/benchmark", {"study": study, "metrics": list(metrics)}))

    def benchmark_file(self, file: str | Path, metrics: Sequence[str] = ()) -> RemoteJob:
        """Compare metrics with a file of judged replies, as `export --what judged` writes it; returns the job."""
        return self._upload("/benchmark/files", Path(file), {"metrics": ",".join(metrics)})

    def benchmark_again(self, job: int) -> RemoteJob:
        """Compute a comparison again, of the data and by the metrics as they are now; returns the job.

        Where nothing has changed since it is the finished one.

        Args:
            job: of the comparison, as `sets` and `stale` of `benchmark()` name it.
        """
        return RemoteJob.from_document(self._post(f"/benchmark/{job}/again", {}))

    def judges(self) -> list[dict[str, Any]]:
        """Return the newest comparisons of judges with people."""
        return list(self._get("/judges"))

    def judges_ask(self, study: str, judges: Sequence[str], **params: Any) -> RemoteJob:
        """Compare judges with a study's people; `params` may name `question`, `expertise`, `most` and `run`."""
        return RemoteJob.from_document(self._post("/judges", {"study": study, "judges": list(judges), **params}))

    def system(self) -> dict[str, Any]:
        """Return the state of the installation."""
        return dict(self._get("/system"))

    def runs(self) -> list[dict[str, Any]]:
        """Return all self-play runs, the newest first."""
        return self._all("/runs")

    def run(self, run: int) -> dict[str, Any]:
        """Return a self-play run, pair by pair."""
        return dict(self._get(f"/runs/{run}"))

    def runs_compare(
        self, runs: Sequence[int] = (), *, bots: Sequence[str] = (), columns: Sequence[str] = ()
    ) -> dict[str, Any]:
        """Return self-play runs next to one another: means of metrics, bot by bot, with intervals over conversations.

        Args:
            runs: none named: the newest ones; bots: all of these runs; columns: of metrics, some usual ones.
        """
        params = {"runs": ",".join(map(str, runs)), "bots": ",".join(bots)}
        return dict(self._get("/runs/compare", **params, columns=",".join(columns)))

    def run_tables(self) -> list[dict[str, Any]]:
        """Return the tables that every self-play run has."""
        return list(self._get("/run-tables"))

    def run_table(self, run: int, name: str, path: str | Path, *, format: str = "csv", **included: Any) -> Path:
        """Write a table of a self-play run to a file: the same bytes as `export --run` writes.

        Args:
            included: `q`, a search line that narrows tables of conversations; `include_failed`.
        """
        return self._download(f"/runs/{run}/tables/{name}", Path(path), {"format": format, **included})

    def selfplay(self, bots: Sequence[str], **params: Any) -> RemoteJob:
        """Let bots converse with themselves; returns the job.

        Args:
            params: `pairs`, `conversations`, `turns`, `seed`, `openers`, `metrics`, `study`, `name`.
        """
        return RemoteJob.from_document(self._post("/runs", {"bots": list(bots), **params}))

    def simulate(self, study: str, participants: Sequence[str] = ("retrieval",), **params: Any) -> RemoteJob:
        """Let simulated participants chat with a study's bots; returns the job.

        Args:
            params: `bots`, `conversations`, `exchanges`, `may_leave`, `seed`, `profiles`, `max_cost`, `metrics`,
                `name`.
        """
        return RemoteJob.from_document(
            self._post(f"/studies/{study}/simulations", {"participants": list(participants), **params})
        )

    def realism(self, study: str, run: int, participant: str = "") -> dict[str, Any]:
        """Fetch the comparison of a run with people; `document` is None until a worker has it."""
        comparison: dict[str, Any] = self._get(f"/studies/{study}/results/realism", run=run, participant=participant)
        return comparison

    def measure(self, *, study: str = "", run: int | None = None, metrics: Sequence[str] = ()) -> RemoteJob:
        """Compute metrics of a study's or a run's conversations; none named: the usual ones. Returns the job."""
        if bool(study) == (run is not None):
            raise ValueError("measure needs a study or a run, and not both")
        base_path = f"/studies/{study}" if study else f"/runs/{run}"
        return RemoteJob.from_document(self._post(f"{base_path}/metrics", {"metrics": list(metrics)}))


def connect(url: str, token: str) -> Server:
    """Return the calls of a Confab server.

    Args:
        url: of the server, as a browser has it.
        token: made by `api_token make --user NAME --name WHAT --rights read,run`.

    Raises:
        ServerError: the token opens nothing.
        httpx.TransportError: no server answers there.
    """
    server = Server(url, token)
    try:
        server.me()
    except httpx.TransportError as error:
        raise type(error)(f"no server answers at {url}: {error}") from error
    return server
