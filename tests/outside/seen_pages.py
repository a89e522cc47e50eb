"""Words of every page: of participants for each protocol, of researchers for three fixed studies."""

import json
import re

import pytest
from django.core.management import call_command
from django.test import Client

from tests.outside.conftest import STUDIES, command
from tests.outside.snapshots import compare, compare_parts, words_of

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("ids_by_seed_again")]
OUTCOMES = ("rated", "bot_failed", "screened_out", "failed_check", "no_consent", "withdrawn")
WHY = ("models", "raters", "agreement", "trajectories", "correlations", "powered", "order")
OF_A_STUDY = (
    "",
    "build/",
    "build/bots/",
    "build/questions/",
    "build/texts/",
    "build/pay/",
    "build/check/",
    "versions/",
    "study.yaml",
    "people/",
    "results/",
    "results/?part=questions",
    "results/?part=comparisons",
    "results/why/",
    *(f"results/why/?part={part}" for part in WHY),
    "report/",
    *(f"report/?part={part}" for part in ("export", "package", "datasheet")),
    "report.html",
    "results/prediction/",
    "conversations/",
    "conversations/notes/",
)
OF_THE_SERVER = (
    *("", "studies/", "studies/new/", "studies/new/file/", "bots/", "bots/eliza/", "runs/", "runs/compare/"),
    *("benchmark/", "benchmark/published/", "metrics/", "imports/", "settings/tokens/"),
)


def protocols(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return sorted(json.loads(command(capsys, "study_example", "--json")))


def shown(client: Client, address: str) -> str:
    answer = client.get(address)
    head = f"== {address} {answer.status_code}"
    if 300 <= answer.status_code < 400:
        return f"{head} to {answer['Location']}"
    content = b"".join(answer.streaming_content) if answer.streaming else answer.content
    if "html" in answer["Content-Type"]:
        return f"{head}\n{words_of(content.decode())}"
    return head


def test_pages_of_participants(
    staff: Client, capsys: pytest.CaptureFixture[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("examples")
    for protocol in protocols(capsys):
        file = folder / f"{protocol}.yaml"
        call_command("study_example", protocol, "--output", str(file))
        call_command("import_study", str(file), "--key", f"x-{protocol}")
        key = f"x-{protocol}"
        first = staff.get(f"/dashboard/studies/{key}/build/texts/")
        assert first.status_code == 200
        steps = sorted(set(re.findall(rf"/preview/{key}/([\w-]+)/", first.content.decode())))
        assert steps, protocol
        pages = []
        for step in steps:
            for outcome in OUTCOMES if step == "done" else ("",):
                query = f"?outcome={outcome}" if outcome else ""
                pages.append(shown(staff, f"/preview/{key}/{step}/{query}"))
        compare(f"participants/{protocol}.txt", "\n\n".join(pages))


@pytest.mark.parametrize("key", STUDIES)
def test_pages_of_a_study(studies: tuple[str, ...], staff: Client, key: str) -> None:
    pages = {path: shown(staff, f"/dashboard/studies/{key}/{path}") for path in OF_A_STUDY}
    compare_parts(f"researchers/{key}", pages)


def test_pages_of_the_server(studies: tuple[str, ...], staff: Client) -> None:
    compare_parts("researchers/server", {path: shown(staff, f"/dashboard/{path}") for path in OF_THE_SERVER})
