"""Bots that need the heavy libraries can be loaded side by side in a fresh process."""

import subprocess
import sys
from pathlib import Path

from tests.conftest import ROOT
from tests.tiny_models import save_model

CODE = """
import asyncio, sys
from chatbots.bots.retrieval import RetrievalBot
from chatbots.bots.transformers_bot import TransformersBot
from chatbots.encoders.cache import cache_folder_set
from chatbots.serving import BotHost

cache_folder_set(sys.argv[2])
bots = {"one": TransformersBot(name="one", model=sys.argv[1]), "two": RetrievalBot(name="two"),
        "three": TransformersBot(name="three", model=sys.argv[1])}

async def main():
    host = BotHost(get_bot=bots.__getitem__)
    await asyncio.gather(*(host.load(name) for name in bots))
    print({name: numbers["state"] for name, numbers in host.load_numbers().items()})
    await host.close()

asyncio.run(main())
"""


def test_loading_at_once_in_a_fresh_process(tmp_path: Path, vector_cache: Path) -> None:
    folder = save_model(tmp_path / "tiny", "gpt2")
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(folder or tmp_path / "tiny"), str(vector_cache)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.stdout.count("'ready'") == 3, done.stdout + done.stderr
