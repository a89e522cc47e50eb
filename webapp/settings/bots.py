"""Settings of bots: their list, where they run, and the longest time of a reply."""

from __future__ import annotations

from pathlib import Path

from webapp.settings.backends import REDIS_URL
from webapp.settings.env import DATA_DIR, env

# A YAML file of configured bots; none is needed, and an empty name means the usual one.
CONFAB_BOTS = Path(env.text("CONFAB_BOTS", default=str(DATA_DIR / "bots.yaml")))
# A YAML file of metrics that need parameters (a language model, a classifier); none is needed.
CONFAB_METRICS = Path(env.text("CONFAB_METRICS", default=str(DATA_DIR / "metrics.yaml")))
# Environment variables that bots added in the browser may take their keys from: NAME, or NAME=https://its.address.
CONFAB_BOT_KEY_VARIABLES = {
    name.strip(): address.strip()
    for name, _equals, address in (one.partition("=") for one in env.names("CONFAB_BOT_KEY_VARIABLES", default=[]))
}
# Folders below which the local models of such bots lie.
CONFAB_MODEL_FOLDERS = [
    Path(one).expanduser().resolve() for one in env.names("CONFAB_MODEL_FOLDERS", default=[str(DATA_DIR / "models")])
]
# Python modules whose import registers bots or metrics from outside.
CONFAB_PLUGINS = env.names("CONFAB_PLUGINS", default=[])
# Where everything computes that uses torch (bots, encoders, metrics, training): cpu, cuda, cuda:1.
CONFAB_DEVICE = env.match(
    "CONFAB_DEVICE", default="cpu", pattern=r"cpu|cuda(:[0-9]+)?", like="cpu, cuda or one of several as cuda:1"
)
# Megabytes that the loaded bots may take together; those used longest ago make room. 0: no limit.
CONFAB_BOT_MEMORY_MB = env.whole("CONFAB_BOT_MEMORY_MB", default=0, least=0)
# Megabytes of keys and values that transformers bots of a process keep from turn to turn. 0: nothing.
CONFAB_KEPT_TURNS_MB = env.whole("CONFAB_KEPT_TURNS_MB", default=512, least=0)
# Bots of other pools than "default": "gpu2=hred-ei|vhred-ei".
CONFAB_BOT_POOLS = env.pools("CONFAB_BOT_POOLS", default={})
# The web process is the bot host too, unless Redis connects it to one of its own.
CONFAB_BOT_HOST_IN_PROCESS = env.flag("CONFAB_BOT_HOST_IN_PROCESS", default=not REDIS_URL)
CONFAB_REPLY_TIMEOUT_S = env.number("CONFAB_REPLY_TIMEOUT_S", default=60.0, least=1.0)
# Loading a bot's model is no part of that time; a reply waits for it so long.
CONFAB_LOAD_TIMEOUT_S = env.number("CONFAB_LOAD_TIMEOUT_S", default=300.0, least=1.0)
# A host that dies is replaced after this long; it renews its leases three times as often.
CONFAB_REPLY_LEASE_S = env.number("CONFAB_REPLY_LEASE_S", default=12.0, least=1.0)
# A bot whose replies keep failing is given to no new participant: after so many failures in a row,
CONFAB_ASIDE_IN_A_ROW = env.whole("CONFAB_ASIDE_IN_A_ROW", default=3, least=1)
# or after so many (more than there are: never)
CONFAB_ASIDE_FAILED = env.whole("CONFAB_ASIDE_FAILED", default=4, least=1)
# among so many of its latest replies.
CONFAB_ASIDE_OF = env.whole("CONFAB_ASIDE_OF", default=10, least=1)
