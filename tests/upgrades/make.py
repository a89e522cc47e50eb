"""Make a database in which a study collects, and what is found in it, for upgrades to start from.

    python -m tests.upgrades.make tests/upgrades/NAME

is run with the code of a release; from then on the test upgrades what it kept to the newest state.
"""

import json
import os
import random
import sys
import tempfile
from datetime import timedelta
from io import StringIO
from pathlib import Path

WORDS = [
    *("good", "day", "rain", "music", "garden", "book", "train", "tea", "dog", "cold", "happy", "sad", "long"),
    *("river", "city", "walk"),
]
STUDY = "collects"


def main(folder: Path) -> None:
    """Fill an empty database of SQLite and keep it in `folder`."""
    from django.core.management import call_command

    from tests.upgrades.database import keep
    from tests.upgrades.facts import facts, tables_write

    folder.mkdir(parents=True, exist_ok=True)
    call_command("migrate", verbosity=0)
    _people()
    _researchers()
    _imported()
    _computed()
    keep(folder)
    tables_write(folder)
    (folder / "facts.json").write_text(json.dumps(facts(), indent=1, sort_keys=True) + "\n")


def _people() -> None:
    """Make a study that collects, with somebody in every state."""
    from django.utils import timezone

    from tests.builders import BY_PROLIFIC, exchange, fail_reply, make_conversation, make_rating, make_study
    from webapp.conversations import services, task_start
    from webapp.conversations.models import Conversation
    from webapp.ratings.services import rating_draft_store
    from webapp.studies.models import Task
    from webapp.studies.privacy import consent_version
    from webapp.studies.services import participant_enter
    from webapp.studies.versions import study_edit

    study = make_study(
        STUDY,
        bots=["eliza", "retrieval", "parrot", "generic"],
        rule="balanced",
        max_exchanges=15,
        **BY_PROLIFIC,
        organisation="University of Example",
        consent_text="You may *stop* at any time.",
    )

    def prolific(name: str, visit: str = "1") -> dict:
        session = f"{name}-{visit}"
        recruitment = {"PROLIFIC_PID": name, "STUDY_ID": "st", "SESSION_ID": session}
        return {"platform": "prolific", "external_id": name, "recruitment": recruitment}

    def mturk(name: str) -> dict:
        sent = {"workerId": name, "assignmentId": f"a-{name}", "hitId": "h"}
        sent["turkSubmitTo"] = "https://workersandbox.mturk.com"
        return {"platform": "mturk", "external_id": name, "recruitment": sent}

    # Rated, by three ways of coming; one of them twice.
    for number, who in enumerate([prolific("p1"), prolific("p2"), mturk("w1"), {"entry_nonce": "n1"}]):
        chat = make_conversation(study, n_exchanges=3 + number % 2, **who)
        services.vote_set(conversation_id=chat.pk, turn_index=1, value=[1, -1, 0, 1][number])
        make_rating(chat, quality=2 + number, empathy=7 - number)
    make_rating(make_conversation(study, n_exchanges=3, **prolific("p1", "2")), quality=6)
    # Under way: just begun, waiting for a reply, with a rating begun, with a reply that failed.
    make_conversation(study, **prolific("open"))
    due = make_conversation(study, n_exchanges=1, entry_nonce="due")
    services.turn_add_human(conversation_id=due.pk, client_id=due.pk, text="Are you there?")
    draft = make_conversation(study, n_exchanges=4, **mturk("draft"))
    rating_draft_store(conversation=draft, values={"quality": "5", "comments": "so far, so good"})
    fail_reply(make_conversation(study, n_exchanges=1, **prolific("failing")))
    # Bot failed: swapped for another that was rated, ended early.
    swapped = make_conversation(study, **prolific("swap"))
    fail_reply(swapped)
    second = services.conversation_swap(conversation=swapped)
    for number in range(3):
        exchange(second, f"again {number}", f"yes {number}")
    make_rating(second, quality=5)
    ended = make_conversation(study, n_exchanges=1, **mturk("ended"))
    fail_reply(ended)
    services.conversation_finish_failed(conversation=ended)
    # Withdrawn, left for another visit, and left and then withdrawn.
    services.conversation_withdraw(conversation=make_conversation(study, n_exchanges=2, **prolific("gone")))
    for name in ("left", "left-gone"):
        conversation = make_conversation(study, n_exchanges=1, **prolific(name))
        idle_since = timezone.now() - timedelta(days=1)
        Task.objects.filter(pk=conversation.task.pk).update(updated_at=idle_since)
        conversation.turns.update(created_at=idle_since)
        task_start.chat_elsewhere_close(participant=conversation.participant, submission=f"{name}-2")
        if name == "left-gone":
            services.conversation_withdraw(conversation=conversation)
    # A rehearsal; somebody who declined.
    scripted = make_conversation(study, n_exchanges=3, entry_nonce="script", is_synthetic=True)
    make_rating(scripted)
    make_conversation(study, entry_nonce="script2", is_synthetic=True)
    participant_enter(study=study, **prolific("declined"))
    # Waits and places are measured from now on; these are long over, today as on the day of a test.
    long_ago = timezone.now() - timedelta(days=1)
    Task.objects.filter(state="open").update(created_at=long_ago)
    Conversation.objects.filter(due_turn__isnull=False).update(due_since=long_ago)
    # Its texts change; who comes now agrees to others.
    first = consent_version(study.values)
    study = study_edit(study=study, payment="£2")
    assert consent_version(study.values) != first
    make_rating(make_conversation(study, n_exchanges=3, **prolific("later")), quality=3)
    # With these eight completed it is full, whoever still holds a place.
    study_edit(study=study, n_conversations_wanted=8)


def _researchers() -> None:
    """Make somebody who pays people, by a ready group, with the password "test"."""
    from django.contrib.auth import get_user_model
    from django.contrib.auth.models import Group

    user = get_user_model().objects.create_user("payer", password="test", is_staff=True)
    user.groups.add(Group.objects.get(name="Confab payers"))


def _imported() -> None:
    """Make a study of imported conversations; one rater has no name, one rates a conversation twice."""
    from webapp.transfer.import_file import import_conversations

    rng = random.Random(3)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "imported.jsonl"
        with path.open("w") as file:
            for number in range(24):
                bot = number % 3
                turns = []
                for _ in range(3):
                    text = " ".join(rng.choices(WORDS, k=rng.randint(3, 8)))
                    mark = "?" if rng.random() < bot / 3 else "."
                    reply = " ".join(rng.choices(WORDS, k=rng.randint(2, 8))) + mark
                    vote = rng.choice([-1, 0, 1])
                    turns.append({"speaker": "human", "text": text})
                    turns.append({"speaker": "bot", "text": reply, "vote": vote})
                ratings = [{"rater": f"w{number % 8}", "quality": 1 + bot + rng.choice([0, 1, 2])}]
                if number == 0:
                    ratings += [{"quality": 4}, {"rater": "w0", "quality": 2, "comment": "again"}]
                record = {"dialogue_id": f"d{number}", "bot": f"bot{bot}", "source": "paper"}
                file.write(json.dumps({**record, "turns": turns, "ratings": ratings}) + "\n")
        import_conversations(path, study_key="imported", scale=(1, 7))


def _computed() -> None:
    """Compute self-play with metrics, metrics of both studies, and a hybrid fit applied to the self-play."""
    from webapp.jobs.models import HybridFit, MetricRun, SelfPlayRun

    metrics = ["--metrics", "words,length,question"]
    selfplay = ["--bots", "parrot,generic", "--conversations", "2", "--turns", "4", "--seed", "7"]
    run = _command("selfplay", *selfplay, *metrics, "--inline")["run"]
    _command("compute_metrics", "--run", str(run), *metrics, "--inline")
    for key in (STUDY, "imported"):
        _command("compute_metrics", "--study", key, *metrics, "--inline")
    features = ["--features", "question_bot,words_user,words_bot"]
    _command("fit_hybrid", "--study", "imported", *features, "--run", str(run))
    for job in (SelfPlayRun, MetricRun, HybridFit):
        job.objects.update(holder="")  # the machine's name


def _command(name: str, *args: str) -> dict:
    from django.core.management import call_command

    out = StringIO()
    call_command(name, *args, "--json", stdout=out, stderr=StringIO())
    return json.loads(out.getvalue())


if __name__ == "__main__":
    import django

    with tempfile.TemporaryDirectory() as data:
        os.environ |= {"CONFAB_DATA_DIR": data, "DATABASE_URL": "", "REDIS_URL": ""}
        os.environ["DJANGO_SETTINGS_MODULE"] = "webapp.settings.test"
        django.setup()
        main(Path(sys.argv[1]))
