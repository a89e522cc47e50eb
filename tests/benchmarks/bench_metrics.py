"""All default metrics over many conversations, against the bare encoding of the same distinct utterances.

Prints one ratio: time of the job behind `compute_metrics` (reading, computing, storing; SQLite in a temporary
folder), cold cache, divided by the time the sentence encoder alone takes for the distinct texts. Nothing is encoded
twice, and batches are sorted by length on both sides; the rest is what tokens, word vectors, tables and the database
cost.

    python -m tests.benchmarks.bench_metrics [--conversations 2000]

The aim is stated for 2,000 conversations, which take some three minutes.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from typing import TYPE_CHECKING

import numpy as np

from chatbots import Conversation
from chatbots.corpora.dialogues import EVERYDAY, corpus_read
from chatbots.encoders.sentence import sentence_encoder
from chatbots.encoders.word_vectors import word_vectors

if TYPE_CHECKING:
    from webapp.studies.models import Study


def conversations(n: int, n_turns: int = 10, seed: int = 0) -> list[Conversation]:
    """Make conversations of utterances of the everyday corpus, varied so that most occur once."""
    rng = np.random.default_rng(seed)
    corpus = [turn for dialogue in corpus_read(EVERYDAY).dialogues for turn in dialogue.turns]
    words = sorted({word for turn in corpus for word in turn.split()})
    results = []
    for i in range(n):
        texts = [
            f"{corpus[rng.integers(len(corpus))]} {' '.join(rng.choice(words, rng.integers(1, 4)))}"
            for _ in range(n_turns)
        ]
        results.append(Conversation.from_texts(texts, id=str(i)))
    return results


def study_made(talk: list[Conversation]) -> Study:
    """Store an imported study with these conversations."""
    from webapp.bots.services import bot_version_record_imported
    from webapp.conversations.models import Conversation as Row
    from webapp.conversations.models import Turn
    from webapp.studies.services import study_create

    study = study_create(key="bench", name="bench", bots=["alpha"], is_imported=True)
    bot = bot_version_record_imported(bot_id="alpha", source="bench")
    rows = Row.objects.bulk_create(
        Row(source="import", state="completed", bot=bot, study=study, external_id=one.id) for one in talk
    )
    Turn.objects.bulk_create(
        (
            Turn(conversation=row, index=i, speaker=turn.speaker, text=turn.text)
            for row, one in zip(rows, talk, strict=True)
            for i, turn in enumerate(one.turns)
        ),
        batch_size=5000,
    )
    return study


def bench_metrics(n: int) -> None:
    """Time of computing and storing all default metrics to time of bare encoding."""
    import django

    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"CONFAB_DATA_DIR": folder, "DATABASE_URL": "", "REDIS_URL": ""}
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings.embedded")
        django.setup()
        from django.core.management import call_command
        from django.db import connection

        from chatbots.encoders.cache import cache_folder_set
        from webapp.jobs.engine import run_job
        from webapp.jobs.services.fits import metric_run_create

        cache_folder_set(None)  # word vectors are distilled once a machine, not once a benchmark
        call_command("migrate", verbosity=0)
        talk = conversations(n)
        study = study_made(talk)
        distinct = list(dict.fromkeys(text for c in talk for text in c.texts))
        encoder = sentence_encoder()
        encoder.encode(["warm the model up"])
        word_vectors().load()
        start = np.array([time.perf_counter(), time.process_time()])
        encoder.encode(distinct)
        bare_s = np.array([time.perf_counter(), time.process_time()]) - start
        start = np.array([time.perf_counter(), time.process_time()])
        job = metric_run_create(study=study, enqueue=False)
        run_job(job)
        all_s = np.array([time.perf_counter(), time.process_time()]) - start
        job.refresh_from_db()
        if job.n_done != n:
            raise SystemExit(f"{job.n_done} of {n} conversations were measured: {job.error}")
        connection.close()
    ratio, cpu_ratio = all_s / bare_s
    print(
        f"metrics: {n} conversations, {len(distinct)} distinct utterances, {len(job.metrics)} metrics: bare "
        f"encoding {bare_s[0]:.1f} s ({len(distinct) / bare_s[0]:.0f}/s), compute_metrics {all_s[0]:.1f} s, "
        f"ratio {ratio:.2f} (aim: at most 1.3); of processor time, which other work disturbs less, {cpu_ratio:.2f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--conversations", type=int, default=2000)
    bench_metrics(parser.parse_args().conversations)


if __name__ == "__main__":
    main()
