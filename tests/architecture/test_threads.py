"""Threads keep the project of the request or job that starts them, so none is started without the helper."""

import ast
import asyncio
import threading
from concurrent.futures import Future
from contextvars import ContextVar

from chatbots.threads import ContextPool, thread_start
from tests.architecture.source import ROOT, modules

BARE = {"Thread", "Timer", "ThreadPoolExecutor", "ProcessPoolExecutor", "start_new_thread", "InterpreterPoolExecutor"}
ALLOWED = {
    ("chatbots/threads.py", "Thread"),  # the helper itself
    ("webapp/core/child.py", "Thread"),  # a process without requests, which imports nothing of Confab
    ("webapp/core/processes.py", "Timer"),  # ends the process
    ("evaluation/metrics/reference_based.py", "Timer"),  # kills a child process
}
"""Where a bare thread is allowed, with the reason."""


def bare_threads() -> set[tuple[str, str]]:
    """Return the file and the class of every thread that a module starts itself."""
    result = set()
    for module in modules():
        for node in ast.walk(module.tree):
            called = node.func if isinstance(node, ast.Call) else None
            name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
            if name in BARE:
                result.add((module.path.relative_to(ROOT).as_posix(), name))
            if name == "run_in_executor" and isinstance(node, ast.Call) and ast.unparse(node.args[0]) != "_thread":
                result.add((module.path.relative_to(ROOT).as_posix(), f"run_in_executor({ast.unparse(node.args[0])})"))
    return result


def test_no_module_starts_a_bare_thread() -> None:
    assert bare_threads() - ALLOWED == set(), "use thread_start or ContextPool of chatbots/threads.py"
    assert ALLOWED - bare_threads() == set(), "these no longer start one; remove them from ALLOWED"


value: ContextVar[str] = ContextVar("value", default="none")


def test_threads_and_pools_see_the_context_of_their_caller_and_lasting_ones_none() -> None:
    seen: list[str] = []
    value.set("project")
    thread_start(lambda: seen.append(value.get()), name="short").join()
    thread_start(lambda: seen.append(value.get()), name="lasting", lasting=True).join()
    with ContextPool(1) as pool:
        futures: list[Future[str]] = [pool.submit(value.get)]
        value.set("another")
        futures.append(pool.submit(value.get))

        async def in_loop() -> str:
            return await asyncio.get_running_loop().run_in_executor(pool, value.get)

        seen += [future.result() for future in futures] + [asyncio.run(in_loop())]
    assert seen == ["project", "none", "project", "another", "another"]
    assert threading.current_thread() is threading.main_thread()
