"""A Confab server from a program: `connect(url, token)`.

    lab = connect("https://confab.example.org", token)
    study = lab.study("everyday-talk")                    # as `read` returns it
    run = lab.wait(lab.selfplay(["my-bot"], conversations=50, metrics=["words"]))
    fit = lab.fit(lab.wait(lab.hybrid("everyday-talk", run=run.id)).id)

Every call is one of the server's API, which `/api/v1/openapi.json` describes.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx

from evaluation.reading import read
from evaluation.remote_answers import RemoteJob, ServerError, checked
from evaluation.study import Study

__all__ = ["RemoteJob", "Server", "ServerError", "connect"]
API = "/api/v1"
_PIECE_BYTES = 1 << 20
_AGAIN_S = (1.0, 3.0, 9.0)


class Server:
    """The calls of a server, with one token.

    Args:
        url: of the server, as a browser has it up to `/dashboard/`.
        token: made by `api_token make`.
        transport: of tests, in place of the network.
    """

    def __init__(
        self, url: str, token: str, *, transport: httpx.BaseTransport | None = None
    ) -> None:
        if not url.startswith(("http://", "https://")):
            raise ValueError(f"the address is {url!r}; it must begin with http:// or https://")
        self.url = url.rstrip("/").removesuffix("/dashboard")
        self._http = httpx.Client(
            base_url=self.url + API,
            headers={"Authorization": f"Bearer {token}"},
            timeout=httpx.Timeout(60, read=600),
            transport=transport,
        )

    def __repr__(self) -> str:
        return f"Server({self.url})"

    def me(self) -> dict[str, Any]:
        """Return whose token this is, its rights and the server's version."""
        return dict(self._get("/me"))

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

    def table(
        self, key: str, name: str, path: str | Path, *, format: str = "csv", **included: Any
    ) -> Path:
        """Write an exported table of a study to a file: the same bytes as the command `export` writes.

        Args:
            name: of the table, as `tables()` lists them.
            format: csv, jsonl or parquet.
        """
        return self._download(
            f"/studies/{key}/tables/{name}", Path(path), {"format": format, **included}
        )

    def tables(self) -> list[dict[str, Any]]:
        """Return what tables every study has."""
        return list(self._get("/tables"))

    def result(self, key: str, part: str, **asked: Any) -> dict[str, Any]:
        """Return a part of a study's analysis, waiting until a worker has made it of the data as they are now.

        Its `document` is what `report --json` prints of this part.

        Args:
            part: comparisons, dimensions, answers, items, models, raters, trajectories, correlations or powered.
        """
        return self._made(f"/studies/{key}/results/{part}", asked)

    def leaderboard(self, key: str, **asked: Any) -> dict[str, Any]:
        """Return who stands where, ranks as ranges, waiting until it is made of the data as they are now.

        Args:
            asked: `by` a question, `include_failed`, `include_synthetic`, `without`.
        """
        return self._made(f"/studies/{key}/leaderboard", asked)

    def pairs(self, key: str, **asked: Any) -> dict[str, Any]:
        """Return what people preferred of two, and one-turn beside interactive evaluation."""
        return dict(self._get(f"/studies/{key}/results/pairs", **asked))

    def overview(self, key: str, **asked: Any) -> dict[str, Any]:
        """Return how far a study is: its stages, what is best done next, its bots, and what needs a person."""
        return dict(self._get(f"/studies/{key}/overview", **asked))

    def live(self, key: str, **asked: Any) -> dict[str, Any]:
        """Return the live room of a study that collects."""
        return dict(self._get(f"/studies/{key}/live", **asked))

    def datasheet(self, key: str) -> dict[str, Any]:
        """Return a study's human evaluation datasheet."""
        return dict(self._get(f"/studies/{key}/datasheet"))

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

    def conversations(
        self, key: str = "", q: str = "", *, run: int | None = None, **asked: Any
    ) -> Iterator[dict[str, Any]]:
        """Yield the conversations of a study or of a self-play run that a search line asks for, page by page.

        Args:
            q: as in the workbench, such as `bot:eliza quality<4 sort:quality limit:20`.
            asked: `columns`, `include_synthetic`, `without`.
        """
        if bool(key) == (run is not None):
            raise ValueError("conversations needs a study or a run, and not both")
        where = f"/studies/{key}" if key else f"/runs/{run}"
        after = ""
        while True:
            page = self._get(f"{where}/conversations", q=q, after=after, limit=500, **asked)
            yield from page["items"]
            after = page["after"]
            if not after:
                return

    def conversation(self, id: str) -> dict[str, Any]:
        """Return a conversation with its turns, ratings, metrics, tags and notes."""
        return dict(self._get(f"/conversations/{id}"))

    def searches(self, key: str) -> list[dict[str, Any]]:
        """Return the searches of a study that the token's person keeps."""
        return list(self._get(f"/studies/{key}/searches"))

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
        with Path(file).open("rb") as content:
            answer = self._http.post(
                f"/studies/{key}/conversations",
                data=asked,
                files={"file": (Path(file).name, content)},
            )
        return RemoteJob.of(checked(answer))

    def bots(self) -> list[dict[str, Any]]:
        """Return the server's bots."""
        return list(self._get("/bots"))

    def bot(self, id: str) -> dict[str, Any]:
        """Return a bot with its health, its settings and its card."""
        return dict(self._get(f"/bots/{id}"))

    def benchmark(self, **asked: Any) -> dict[str, Any]:
        """Return the benchmark: metrics against what people said of single replies.

        Args:
            asked: `by` spearman, pearson or kendall; `target`, `language`, `sort`.
        """
        return dict(self._get("/benchmark", **asked))

    def benchmark_ask(self, study: str, metrics: Sequence[str] = ()) -> RemoteJob:
        """Set metrics against what a study's people said of single replies; none named: the usual ones. Returns the job."""
        return RemoteJob.of(self._post("/benchmark", {"study": study, "metrics": list(metrics)}))

    def system(self) -> dict[str, Any]:
        """Return the state of the installation."""
        return dict(self._get("/system"))

    def runs(self) -> list[dict[str, Any]]:
        """Return all self-play runs, the newest first."""
        return self._all("/runs")

    def run(self, run: int) -> dict[str, Any]:
        """Return a self-play run, pair by pair."""
        return dict(self._get(f"/runs/{run}"))

    def run_table(
        self, run: int, name: str, path: str | Path, *, format: str = "csv", **included: Any
    ) -> Path:
        """Write a table of a self-play run to a file: the same bytes as `export --run` writes."""
        return self._download(
            f"/runs/{run}/tables/{name}", Path(path), {"format": format, **included}
        )

    def analyse(self, study: str, *, selfplay: bool = False) -> RemoteJob:
        """Compute a study's metrics and fit the hybrid metric, after self-play if asked for; returns the first job."""
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

    def hybrid(self, study: str, **asked: Any) -> RemoteJob:
        """Fit the hybrid metric to a study's ratings; returns the job, whose id is the fit's.

        Args:
            asked: `targets`, `preset`, `intercept`, `run`, `features`, `exclude_bots`, `include_synthetic`, `without`,
                `seed`.
        """
        return RemoteJob.of(self._post(f"/studies/{study}/fits", asked))

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

    def jobs(self, *, unfinished: bool = False) -> list[RemoteJob]:
        """Return the newest jobs of every kind, at most 100."""
        return [RemoteJob.of(one) for one in self._get("/jobs", unfinished=unfinished)]

    def job(self, job: RemoteJob) -> RemoteJob:
        """Return a job as it is now."""
        return RemoteJob.of(self._get(f"/jobs/{job.kind}/{job.id}"))

    def stop(self, job: RemoteJob) -> RemoteJob:
        """Ask a job to stop; what it made stays."""
        return RemoteJob.of(self._post(f"/jobs/{job.kind}/{job.id}/stop", {}))

    def wait(
        self,
        job: RemoteJob,
        *,
        every_s: float = 2.0,
        timeout_s: float | None = None,
        told: Callable[[RemoteJob], None] = lambda job: None,
    ) -> RemoteJob:
        """Wait until a job is done and return it.

        Args:
            told: called with the job each time it was looked at.

        Raises:
            RuntimeError: it failed or was stopped; with its reason.
            TimeoutError: it is not over after `timeout_s` seconds; it goes on.
        """
        begun = time.monotonic()
        while True:
            now = self.job(job)
            told(now)
            if now.is_over:
                break
            if timeout_s is not None and time.monotonic() - begun >= timeout_s:
                raise TimeoutError(f"{now.title} is not over after {timeout_s:g} seconds")
            time.sleep(every_s)
        if now.state != "done":
            raise RuntimeError(f"{now.title}: {now.error or now.state}")
        return now

    def _all(self, path: str) -> list[dict[str, Any]]:
        """Return a list that comes in parts."""
        found: list[dict[str, Any]] = []
        while True:
            page = self._get(path, limit=1000, offset=len(found))
            found += page["items"]
            if not page["items"] or len(found) >= page["count"]:
                return found

    def _made(self, path: str, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Return an analysis once it is of the data as they are now."""
        while True:
            found = self._get(path, **asked)
            if found["job"] is None:
                return dict(found)
            self.wait(RemoteJob.of(found["job"]))

    def _get(self, path: str, **asked: Any) -> Any:
        return checked(self._patiently(lambda: self._http.get(path, params=asked)))

    def _post(self, path: str, body: Mapping[str, Any]) -> Any:
        return checked(self._http.post(path, json=dict(body)))

    def _patiently(self, call: Callable[[], httpx.Response]) -> httpx.Response:
        """Read again where the server was away or is asked too often; what changes something is never sent twice."""
        for pause_s in _AGAIN_S:
            try:
                answer = call()
            except httpx.TransportError:
                time.sleep(pause_s)
                continue
            if answer.status_code not in (429, 502, 503, 504):
                return answer
            time.sleep(float(answer.headers.get("Retry-After", pause_s)))
        return call()

    def _download(self, path: str, file: Path, asked: Mapping[str, Any]) -> Path:
        part = file.with_name(f".{file.name}.part")
        try:
            with (
                self._http.stream("GET", path, params=dict(asked)) as answer,
                part.open("wb") as out,
            ):
                if answer.is_error:
                    answer.read()
                    checked(answer)
                for piece in _pieces(answer):
                    out.write(piece)
            part.replace(file)
        finally:
            part.unlink(missing_ok=True)
        return file


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


def _pieces(answer: httpx.Response) -> Iterator[bytes]:
    return answer.iter_bytes(_PIECE_BYTES)
