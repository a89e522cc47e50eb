"""Python client of a Confab server: `connect(url, token)`.

    lab = connect("https://confab.example.org", token)
    study = lab.study("everyday-talk")                    # as `read` returns it
    run = lab.wait(lab.selfplay(["my-bot"], conversations=50, metrics=["words"]))
    fit = lab.fit(lab.wait(lab.hybrid("everyday-talk", run=run.id)).id)

Each method corresponds to an endpoint of the server's API, documented in `/api/v1/openapi.json`.
"""

from __future__ import annotations

from evaluation.remote.client import RemoteJob, ServerError
from evaluation.remote.server import Server, connect

__all__ = ["RemoteJob", "Server", "ServerError", "connect"]
