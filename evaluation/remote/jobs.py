"""Jobs of a Confab server: followed, stopped, gone on with, waited for."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from evaluation.remote.answers import RemoteJob
from evaluation.remote.calls import Calls


class Jobs(Calls):
    """Jobs of a server's workers."""

    def jobs(self, *, unfinished: bool = False) -> list[RemoteJob]:
        """Return the newest jobs of every kind, at most 100."""
        return [RemoteJob.of(one) for one in self._get("/jobs", unfinished=unfinished)]

    def job(self, job: RemoteJob) -> RemoteJob:
        """Return a job as it is now."""
        return RemoteJob.of(self._get(f"/jobs/{job.kind}/{job.id}"))

    def stop(self, job: RemoteJob) -> RemoteJob:
        """Request a job to stop; its output so far stays."""
        return RemoteJob.of(self._post(f"/jobs/{job.kind}/{job.id}/stop", {}))

    def go_on(self, job: RemoteJob) -> RemoteJob:
        """Go on with a job that failed, was stopped or lost its process."""
        return RemoteJob.of(self._post(f"/jobs/{job.kind}/{job.id}/go-on", {}))

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

    def _made(self, path: str, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Return an analysis once it is of the data as they are now."""
        while True:
            found = self._get(path, **asked)
            if found["job"] is None:
                return dict(found)
            self.wait(RemoteJob.of(found["job"]))
