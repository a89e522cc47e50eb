"""The six shipped models: small, with a card, trained by the committed configs on text that may be used."""

from __future__ import annotations

import pytest

from chatbots.bots.checkpoint import SHIPPED
from chatbots.checkpoints import checkpoint_manifest, missing_reason
from chatbots.training import config as subject
from chatbots.training.config import config_load
from chatbots.training.shipping import CARD, MAX_BYTES

MODELS = ("hred", "hred-ei", "vhred", "vhred-ei", "vhcr", "vhcr-ei")
ALLOWED = {"topical_chat.jsonl.gz", "chatterbot_en.jsonl.gz", "everyday"}


@pytest.mark.parametrize("name", MODELS)
def test_a_shipped_model_is_what_its_card_says(tmp_path, name):
    folder = SHIPPED / f"{name}-demo"
    assert missing_reason(folder) is None
    manifest = checkpoint_manifest(folder)
    assert (manifest.model, manifest.dtype) == (name.removesuffix("-ei"), "float16")
    assert manifest.dropped_heads == {
        "hred-ei": ("ei",),
        "vhred": ("bow",),
        "vhred-ei": ("ei", "bow"),
        "vhcr-ei": ("ei",),
    }.get(name, ())
    assert sum(path.stat().st_size for path in folder.iterdir()) <= MAX_BYTES

    for file in ALLOWED - {"everyday"}:
        (tmp_path / file).touch()
    path = subject.__file__.replace("config.py", f"configs/demo/{name}.yaml")
    config = config_load(path, tmp_path)
    assert manifest.training["config_digest"] == config.digest
    assert {corpus["path"] for corpus in manifest.training["corpora"]} <= ALLOWED

    card = (folder / CARD).read_text(encoding="utf-8")
    assert f"{manifest.metrics['perplexity']:.3f}" in card
    for told in ("CDLA-Sharing-1.0", "BSD-3-Clause", "## Limits", f"configs/demo/{name}.yaml"):
        assert told in card
    assert ("GoEmotions" in card) == name.endswith("-ei")
