"""Health of a container, by the web process's `/healthz`.

    python docker/healthcheck.py http://127.0.0.1:8000          the web process can serve
    python docker/healthcheck.py http://web:8000 --bots 60      a bot host gave a sign of life within 60 s

Exit code 0 or 1, one line saying why.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import urllib.error
import urllib.request


def main() -> int:
    """Ask, judge, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("url")
    parser.add_argument("--bots", type=float, metavar="SECONDS", default=None)
    options = parser.parse_args()
    # Django answers only to the host names it knows.
    first = os.environ.get("CONFAB_HOSTS", "").split(",")[0].strip()
    host = first.lstrip(".*") or "localhost"
    url = f"{options.url}/healthz"
    request = urllib.request.Request(url, headers={"Host": host})  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=4) as answer:  # noqa: S310
            body = json.load(answer)
    except (urllib.error.URLError, OSError, ValueError) as error:
        print(f"no healthy answer: {error}")
        return 1
    if options.bots is not None:
        ages = body.get("bots", {}).get("heartbeat_age_s") or {}
        youngest = min(ages.values(), default=None)
        if youngest is None or youngest > options.bots:
            print(f"no bot host has given a sign of life for {options.bots:g} s: {ages}")
            return 1
    print("healthy")
    return 0


if __name__ == "__main__":
    sys.exit(main())
