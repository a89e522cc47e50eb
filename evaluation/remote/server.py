"""Server: the token's user, its bots, metrics, benchmark and self-play; and `connect`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx

from evaluation.remote.answers import RemoteJob
from evaluation.remote.conversations import Conversations
from evaluation.remote.studies import Studies


class Server(Studies, Conversations):
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

    def benchmark(self, **asked: Any) -> dict[str, Any]:
        """Return the benchmark: metrics against people's ratings of single replies.

        Args:
            asked: `by` spearman, pearson or kendall; `target`, `language`, `sort`.
        """
        return dict(self._get("/benchmark", **asked))

    def benchmark_ask(self, study: str, metrics: Sequence[str] = ()) -> RemoteJob:
        """Compare metrics with a study's ratings of single replies (by default the usual ones); returns the job."""
        return RemoteJob.of(self._post("/benchmark", {"study": study, "metrics": list(metrics)}))

    def benchmark_file(self, file: str | Path, metrics: Sequence[str] = ()) -> RemoteJob:
        """Compare metrics with a file of judged replies, as `export --what judged` writes it; returns the job."""
        return self._upload("/benchmark/files", Path(file), {"metrics": ",".join(metrics)})

    def benchmark_again(self, job: int) -> RemoteJob:
        """Compute a comparison again, of the data and by the metrics as they are now; returns the job.

        Where nothing has changed since it is the finished one.

        Args:
            job: of the comparison, as `sets` and `stale` of `benchmark()` name it.
        """
        return RemoteJob.of(self._post(f"/benchmark/{job}/again", {}))

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
        asked = {"runs": ",".join(map(str, runs)), "bots": ",".join(bots)}
        return dict(self._get("/runs/compare", **asked, columns=",".join(columns)))

    def run_tables(self) -> list[dict[str, Any]]:
        """Return the tables that every self-play run has."""
        return list(self._get("/run-tables"))

    def run_table(
        self, run: int, name: str, path: str | Path, *, format: str = "csv", **included: Any
    ) -> Path:
        """Write a table of a self-play run to a file: the same bytes as `export --run` writes.

        Args:
            included: `q`, a search line that narrows tables of conversations; `include_failed`.
        """
        return self._download(
            f"/runs/{run}/tables/{name}", Path(path), {"format": format, **included}
        )

    def selfplay(self, bots: Sequence[str], **asked: Any) -> RemoteJob:
        """Let bots converse with themselves; returns the job.

        Args:
            asked: `pairs`, `conversations`, `turns`, `seed`, `openers`, `metrics`, `study`, `name`.
        """
        return RemoteJob.of(self._post("/runs", {"bots": list(bots), **asked}))

    def measure(
        self, *, study: str = "", run: int | None = None, metrics: Sequence[str] = ()
    ) -> RemoteJob:
        """Compute metrics of a study's or a run's conversations; none named: the usual ones. Returns the job."""
        if bool(study) == (run is not None):
            raise ValueError("measure needs a study or a run, and not both")
        where = f"/studies/{study}" if study else f"/runs/{run}"
        return RemoteJob.of(self._post(f"{where}/metrics", {"metrics": list(metrics)}))


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
