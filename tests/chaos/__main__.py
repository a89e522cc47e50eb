"""`python -m tests.chaos [--people N] [--arrivals N] [--messages N] [--kills N] [--seed N]`.

One server of its own on this machine, embedded by default, on PostgreSQL and Redis where `DATABASE_URL` and
`REDIS_URL` name them; loopback only; some minutes, and it ends by itself. Two hundred people arrive at once,
others press the button five times, chat and rate while web, bot host and worker are killed and started
again, flood their sockets, and meet bots that say unspeakable things or nothing at all. In the end what
clients were told is stored is compared with the database. Exit code 1: something was lost or doubled.
"""

import argparse
import asyncio
import contextlib
import random
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.chaos.ledger import Comparison, Ledger
from tests.chaos.people import Person
from tests.conftest import ConfabServer, start_confab
from tests.hostile import HOSTILE_ERRORS, HOSTILE_REPLIES

CROWD, CHATS, FLOODS, DOUBLE = "crowd", "chats", "floods", "double"
BAD_BOTS = [
    *(f"test-hostile-{name}" for name in (*HOSTILE_REPLIES, *HOSTILE_ERRORS)),
    *("test-hostile-split", "test-hostile-endless", "test-hanging", "test-hanging-thread", "test-failing"),
]
SELFPLAY_CONVERSATIONS = 30


def main() -> int:
    """Run it, print the table."""
    parser = argparse.ArgumentParser(description="Chaos against a server of its own.")
    for name, default in (("people", 30), ("arrivals", 200), ("messages", 6), ("kills", 8)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    started = time.monotonic()
    ledger = Ledger()
    with server() as confab:
        print(f"on {'PostgreSQL and Redis' if confab.is_distributed else 'the embedded defaults'}")
        for study in (CROWD, CHATS, FLOODS, DOUBLE):
            confab.add_study(study, ["test-quick", "test-slow"] if study == CHATS else ["test-quick"])
        for bot in BAD_BOTS:
            confab.add_study(bot, [bot])
        confab.start_worker()
        asyncio.run(chaos(confab, ledger, options))
        result = ledger.compare(confab)
        n_selfplay = selfplay_count(confab)
        tracebacks = sum(
            log.read_text(errors="replace").count("Traceback (most recent call last)")
            for log in confab.data_dir.glob("*.log")
        )
    report(ledger, result, n_selfplay, tracebacks, time.monotonic() - started)
    return 1 if result.lost or result.doubled else 0


@contextlib.contextmanager
def server() -> Iterator[ConfabServer]:
    """Start a Confab with the bots of the tests and short time-outs."""
    env = {"CONFAB_PLUGINS": "tests.plugin_bots", "CONFAB_REPLY_TIMEOUT_S": "6"}
    with tempfile.TemporaryDirectory(prefix="confab-chaos-") as folder:
        cache = Path(folder, "kept")
        cache.mkdir()
        data = Path(folder, "data")
        data.mkdir()
        starting = start_confab(data, cache, env, with_demo=False)
        try:
            yield next(starting)
        finally:
            starting.close()


async def chaos(confab: ConfabServer, ledger: Ledger, options: argparse.Namespace) -> None:
    """Run all troubles side by side, or one after the other where one would hide what is wrong."""

    def people(study: str, n: int) -> list[Person]:
        return [Person(confab.url, study, ledger, options.seed + i) for i in range(n)]

    async def leave(group: list[Person]) -> None:
        await asyncio.gather(*(person.leave() for person in group))

    say(f"{options.arrivals} people arrive at once")
    crowd = people(CROWD, options.arrivals)
    await asyncio.gather(*(person.arrive() for person in crowd))
    await leave(crowd)

    say("ten people press the button five times each")
    hasty = people(DOUBLE, 10)
    await asyncio.gather(*(person.press_twice() for person in hasty))
    await leave(hasty)

    say(f"{options.people} people chat and rate, a self-play run goes on, {options.kills} kills")
    await asyncio.to_thread(
        confab.manage,
        *("selfplay", "--bots", "eliza,parrot", "--turns", "6", "--no-wait"),
        *("--conversations", str(SELFPLAY_CONVERSATIONS)),
    )
    chatting = people(CHATS, options.people)

    async def stay(person: Person) -> None:
        if await person.arrive():
            await person.chat(options.messages)

    chats = asyncio.gather(*(stay(person) for person in chatting))
    await kill(confab, options.kills, random.Random(options.seed))
    await chats
    await leave(chatting)

    say("five people flood their sockets")
    floods = people(FLOODS, 5)
    await asyncio.gather(*(person.arrive() for person in floods))
    await asyncio.gather(*(person.flood(60) for person in floods))
    await leave(floods)

    say(f"{len(BAD_BOTS)} bots that are no good, three people each")
    unlucky = [person for bot in BAD_BOTS for person in people(bot, 3)]
    await asyncio.gather(*(person.arrive() for person in unlucky))
    await asyncio.gather(*(person.meet() for person in unlucky))
    await leave(unlucky)
    await settle(confab)


async def kill(confab: ConfabServer, n_kills: int, rng: random.Random) -> None:
    """End processes in turn, by SIGKILL and SIGTERM, and start them again."""
    names = ["web", "worker", *(["bot_host"] if confab.is_distributed else [])]
    starters = {"web": confab.start_web, "worker": confab.start_worker, "bot_host": confab.start_bot_host}
    for number in range(n_kills):
        await asyncio.sleep(rng.uniform(1, 4))
        name = names[number % len(names)]
        how = signal.SIGTERM if (number // len(names)) % 2 else signal.SIGKILL
        say(f"  {how.name} for {name}")
        await asyncio.to_thread(confab.kill, name, how)
        await asyncio.to_thread(starters[name])


async def settle(confab: ConfabServer) -> None:
    """Wait until self-play is through and no reply is under way, but not for ever."""
    say("waiting for what is still under way")
    deadline = time.monotonic() + 90
    code = (
        "from webapp.conversations.models import Conversation as C; "
        "from webapp.jobs.models import SelfPlayRun as R; "
        "print(C.objects.filter(due_turn__isnull=False, due_error='', state='open').count()"
        " + R.objects.filter(state__in=['queued', 'running']).count())"
    )
    while int((await asyncio.to_thread(confab.shell, code)).split()[-1]):
        if time.monotonic() > deadline:
            return
        await asyncio.sleep(2)


def selfplay_count(confab: ConfabServer) -> int:
    """Count the conversations of the self-play run."""
    code = (
        "from webapp.jobs.models import SelfPlayConversation as S; "
        "print(S.objects.filter(conversation__isnull=False).count())"
    )
    return int(confab.shell(code).split()[-1])


def say(text: str) -> None:
    print(text, flush=True)


def report(ledger: Ledger, result: Comparison, n_selfplay: int, tracebacks: int, took_s: float) -> None:
    """Print the table, and each thing that went wrong."""
    waiting = [*ledger.gave_up, *(f"{c}: its reply is due still" for c in result.waiting)]
    n_wanted = 2 * SELFPLAY_CONVERSATIONS
    if n_selfplay < n_wanted:
        waiting.append(f"{n_wanted - n_selfplay} conversations of self-play")
    rows = {
        "people let in": sum(ledger.people.values()),
        "messages acknowledged": len(ledger.messages),
        "replies shown": len(ledger.replies),
        "votes confirmed": len(ledger.votes),
        "ratings taken": len(ledger.ratings),
        "acknowledged in all": ledger.n_acknowledged,
        "self-play conversations": f"{n_selfplay} of {n_wanted}",
        "lost": len(result.lost),
        "doubled": len(result.doubled),
        "left waiting": len(waiting),
        "answers with 500": sum(n for status, n in ledger.statuses.items() if status == 500),
        "answers with 503": ledger.statuses[503],
        "tracebacks in logs": tracebacks,
        "seconds": round(took_s),
    }
    print()
    for name, value in rows.items():
        print(f"{name:26}{value:>12}")
    for name, those in (("lost", result.lost), ("doubled", result.doubled), ("waiting", waiting)):
        for one in those[:20]:
            print(f"{name}: {one}")


if __name__ == "__main__":
    sys.exit(main())
