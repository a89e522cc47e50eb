"""Health of a container, by the web process's `/healthz`.

    python docker/healthcheck.py http://127.0.0.1:8000          the web process can serve
    python docker/healthcheck.py http://web:8000 --bots 60      any bot host gave a sign of life within 60 s
    python docker/healthcheck.py --beat /tmp/beat 60            this container's bot host did (CONFAB_BEAT_FILE)

Exit code 0 or 1, one line saying why.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import urllib.error
import urllib.request


def check_beat(file: str, limit_s: float) -> int:
    """Look when the bot host of this container last stored its heartbeat."""
    try:
        age_s = time.time() - os.stat(file).st_mtime
    except OSError:
        print(f"the bot host has given no sign of life yet: there is no {file}")
        return 1
    print("healthy" if age_s <= limit_s else f"the bot host gave its last sign of life {age_s:.0f} s ago")
    return int(age_s > limit_s)


def main() -> int:
    """Ask, judge, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("url", nargs="?")
    parser.add_argument("--beat", nargs=2, metavar=("FILE", "SECONDS"))
    parser.add_argument("--bots", type=float, metavar="SECONDS", default=None)
    options = parser.parse_args()
    if options.beat is not None:
        return check_beat(options.beat[0], float(options.beat[1]))
    if options.url is None:
        parser.error("give an address or --beat")
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
