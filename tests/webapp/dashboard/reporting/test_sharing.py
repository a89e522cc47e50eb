"""Reports: what they say, what has changed, beside the paper; and links to them, to whom and until when."""

import io
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from evaluation.published.ghandeharioun2019 import DIMENSIONS, PaperBot, matched, paper_bots, published
from evaluation.published.papers import GapReason
from tests.builders import make_conversation, make_rating, make_study, signed_in
from tests.webapp.results.conftest import study  # noqa: F401
from webapp.core.errors import Refused
from webapp.core.logs import redact_tokens
from webapp.core.rights import Right
from webapp.insights.report_document import (
    CHANGES_SECTION,
    Chapter,
    Document,
    Headline,
    Past,
    count_headline,
    document_dump,
    share_headline,
    with_changes,
)
from webapp.insights.report_files import report_ask, report_newest, report_path, report_read, reports_of
from webapp.insights.report_paper import _r
from webapp.jobs.engine import run_job
from webapp.jobs.models import Job, State
from webapp.ratings.models import Rating
from webapp.studies.bot_columns import bot_columns_read
from webapp.studies.models import Participant, Study
from webapp.studies.privacy import participants_erase
from webapp.studies.services import bot_columns_store
from webapp.transfer.models import SharedReport
from webapp.transfer.report_links import share_make


@pytest.fixture
def reported(db: Any) -> Study:
    """Return a study with a report that a worker has made, of the fewest words."""
    result = make_study("reported")
    make_rating(make_conversation(result, n_exchanges=3))
    job = report_ask(study=result)
    report_path(job).write_bytes(document_dump(document(1)))
    Job.objects.filter(pk=job.pk).update(state=State.DONE, result={"n_ratings": 1})
    return result


def made(client: Client, study: Study, sections: str = "", **given: Any) -> str:  # noqa: F811
    where = reverse("dashboard:report_share", args=[study.key]) + sections
    answer = client.post(where, {"name": "Reviewers", "days": "7", **given})
    assert answer.status_code == 200, answer.content.decode()
    match = re.search(r'token-text" tabindex="0">http://testserver(/shared/[^<]+)<', answer.content.decode())
    assert match
    report = reverse("dashboard:study_report", args=[study.key])
    assert f'data-load="{report}?part=export' in answer.content.decode(), "a POST's page loads its sections, too"
    return match[1]


def test_a_link_shows_the_report_as_it_was_and_no_more(
    staff: Client,
    study: Study,  # noqa: F811
) -> None:
    run_job(report_ask(study=study))
    reported = study
    link = made(staff, reported, "?sections=ratings,raters")
    assert link.split("/")[2] not in str(SharedReport.objects.values_list("digest", "name").get())
    page = staff.get(reverse("dashboard:study_report", args=[reported.key])).content.decode()
    assert link not in page
    assert "Reviewers" in page
    anyone = Client()
    before = anyone.get(link)
    assert before.status_code == 200
    assert before["X-Robots-Tag"] == "noindex, nofollow, noarchive"
    assert (before["Referrer-Policy"], before["Cache-Control"]) == ("no-referrer", "private, no-store")
    html = before.content.decode()
    assert re.findall(r'<section id="([a-z]+)"', html) == ["ratings", "raters"]
    assert 'name="robots"' in html
    assert '"/dashboard/' not in html
    html = html.replace("www.w3.org", "")
    ids = Rating.objects.values_list("participant", "rater", "external_id", "conversation")
    for one in {str(value) for row in ids for value in row if value}:
        assert not re.search(rf"\b{re.escape(one)}\b", html), one
    assert anyone.get(reverse("dashboard:study_report", args=[reported.key])).status_code == 302
    report_path(Job.objects.get(kind="report")).unlink()
    assert anyone.get(link).content == before.content


def test_a_link_ends(staff: Client, reported: Study) -> None:
    anyone = Client()
    assert anyone.get("/shared/nonsense/").status_code == 404
    link = made(staff, reported)
    share = SharedReport.objects.get()
    staff.post(reverse("dashboard:report_share_end", args=[reported.key, share.pk]))
    gone = anyone.get(link)
    assert gone.status_code == 410
    assert "It was revoked on" in gone.content.decode()
    assert gone["X-Robots-Tag"].startswith("noindex")
    share.refresh_from_db()
    assert bytes(share.document) == b"", "what nobody may read is not kept"
    link = made(staff, reported)
    SharedReport.objects.filter(ended_at=None).update(expires_at=timezone.now() - timedelta(days=1))
    gone = anyone.get(link)
    assert (gone.status_code, "It expired on" in gone.content.decode()) == (410, True)
    link = made(staff, reported, days="")
    assert anyone.get(link).status_code == 200


def test_a_link_ends_when_somebody_is_erased(
    staff: Client, reported: Study, django_capture_on_commit_callbacks: Any
) -> None:
    link = made(staff, reported)
    [job] = reports_of(reported)
    earlier = report_path(job).with_name(f"report-{job.pk}.html")  # as an earlier Confab kept it
    earlier.touch()
    with django_capture_on_commit_callbacks(execute=True):
        participants_erase(participants=Participant.objects.filter(study=reported)[:1])
    assert not earlier.exists()
    assert not report_path(job).exists()
    gone = Client().get(link)
    assert (gone.status_code, "were removed" in gone.content.decode()) == (410, True)
    assert bytes(SharedReport.objects.get().document) == b""


def test_only_who_administers_makes_links(reported: Study) -> None:
    reader = signed_in(Right.READ, Right.RUN, username="reader")
    page = reader.get(reverse("dashboard:study_report", args=[reported.key])).content.decode()
    assert "Create link" not in page
    url = reverse("dashboard:report_share", args=[reported.key])
    assert reader.post(url, {"name": "x"}).status_code == 403
    assert not SharedReport.objects.exists()


def test_a_bad_link_is_refused(staff: Client, reported: Study) -> None:
    url = reverse("dashboard:report_share", args=[reported.key])
    for given in ({"name": " "}, {"name": "x", "days": "0"}, {"name": "x", "days": "9999"}):
        answer = staff.post(url, given)
        assert (answer.status_code, "The link was not created" in answer.content.decode()) == (400, True)
    with pytest.raises(Refused, match="A link can last 1 to 3650 days, not 0"):
        share_make(study=reported, name="x", document=b"", report_made_at=timezone.now(), days=0)
    assert not SharedReport.objects.exists()


def test_the_token_stands_in_no_log() -> None:
    assert redact_tokens("GET /shared/abc-DEF_1/ 200") == "GET /shared/…/ 200"


def document(n: int, *headlines: Headline) -> Document:
    chapters = tuple(Chapter(name, name, (), (), (), "", ()) for name in ("ratings", "methods"))
    made = datetime(2026, 11, 21, 14, 32, tzinfo=UTC)
    return Document("s", "S", 1, made, n, n, ("One.", "Two."), tuple(headlines), chapters)


def test_changes_are_told_with_both_intervals() -> None:
    before = Past(
        datetime(2026, 11, 2, 9, 5, tzinfo=UTC),
        40,
        40,
        (
            count_headline("n", 40, "conversations"),
            share_headline("alpha", 0.5, "agreement", 0.3, 0.6, 0.95),
            Headline("mean:gone", "3.00", "gone, mean quality", 3.0, is_shown=False),
        ),
    )
    now = document(
        41,
        count_headline("n", 41, "conversations"),
        share_headline("alpha", 0.44, "agreement", 0.2, 0.6, 0.95),
        Headline("mean:new", "4.00", "new, mean quality", 4.0, is_shown=False),
        Headline("hybrid", "–", "hybrid metric", reason="not fitted"),
    )
    result = with_changes(now, before)
    assert [chapter.id for chapter in result.chapters] == ["ratings", CHANGES_SECTION, "methods"]
    chapter = result.chapters[1]
    assert chapter.lead == (
        "Since the report of 2 November 2026, 09:05 UTC, 1 rated conversation has been added.",
        "4 of its 4 headline numbers have changed.",
    )
    [part] = chapter.parts
    assert [[cell.text for cell in row] for row in part.table.rows] == [
        ["conversations", "40", "–", "41", "–", "+1"],
        ["agreement", ".50", "95 %: [.30, .60]", ".44", "95 %: [.20, .60]", "−.06"],
        ["new, mean quality", "–", "–", "4.00", "–", "–"],
        ["hybrid metric", "–", "–", "–", "–", "–"],
        ["gone, mean quality", "3.00", "–", "–", "–", "–"],
    ]
    assert part.table.rows[4][3].reason == "not in this report"


def test_a_report_without_an_earlier_one_or_with_the_same_numbers() -> None:
    now = document(40, count_headline("n", 40, "conversations"))
    assert with_changes(now, None) is now
    same = Past(now.made, 40, 40, now.headlines)
    [_ratings, chapter, _methods] = with_changes(now, same).chapters
    assert chapter.lead[1] == "Its headline numbers have not changed."


TABLE = b"bot,ppl,corpus,architecture,EI\nalpha,20,Reddit,HRED,EI\nbeta,25,Reddit,HRED,plain\ngamma,40,,,\nbad,,,,\n"


def test_the_published_numbers_agree_with_what_the_paper_says_of_them() -> None:
    rows = published()
    n = [rows["8", bot, "ratings"].value for bot in paper_bots()]
    assert sum(one or 0 for one in n) == 566
    for dimension in DIMENSIONS:
        assert all(rows["2", bot, dimension].half_width for bot in paper_bots())
    # Correlations of Tables 2 and 3 over the twelve bots, as computed elsewhere.
    quality = [rows["2", bot, "quality"].value for bot in paper_bots()]
    for name, expected in (("perplexity", -0.854), ("average", 0.866), ("greedy", 0.855)):
        result = _r(quality, [rows["5", bot, name].value for bot in paper_bots()])
        assert result.r == pytest.approx(expected, abs=5e-4)
    fluency = [rows["2", bot, "fluency"].value for bot in paper_bots()]
    assert _r(quality, fluency).r == pytest.approx(0.818, abs=5e-4)


@pytest.mark.parametrize(
    ("bot", "factors", "expected"),
    [
        ("vhred-ei-reddit", {}, PaperBot("VHRED", "Reddit", "EI")),
        ("HRED_cornell", {}, PaperBot("HRED", "Cornell", "baseline")),
        ("x", {"architecture": {"x": "vhcr"}, "corpus": {"x": "cornell"}, "EI": {"x": "EI_emo"}},
         PaperBot("VHCR", "Cornell", "EI_emo")),
        ("hred-reddit", {"EI": {"hred-reddit": "plain"}}, PaperBot("HRED", "Reddit", "baseline")),
        ("hred-reddit", {"corpus": {"hred-reddit": "OpenSubtitles"}}, None),
        ("shred-reddits", {}, None),
        ("dialog-350m", {}, None),
    ],
)  # fmt: skip
def test_bots_are_matched_by_factors_or_words(bot: str, factors: dict, expected: PaperBot | None) -> None:
    assert matched(bot, factors) == expected


def test_a_study_stands_beside_the_paper(
    staff: Client,
    study: Study,  # noqa: F811
    tmp_path: Path,
) -> None:
    bots = ["alpha", "beta", "gamma", "bad"]
    bot_columns_store(study=study, columns=bot_columns_read(TABLE, bots, "bots.csv"))
    run_job(report_ask(study=study, like="ghandeharioun2019"))
    made = report_newest(study, like="ghandeharioun2019")
    document = report_read(made) if made else None
    assert [chapter.id for chapter in document.chapters] == [
        *("table-1", "figure-2", "table-2", "table-3", *(f"figure-{n}" for n in range(3, 9)), "table-4", "table-5"),
        *("table-6", "table-7", "table-8", "table-9", "figure-9", "one-turn"),
    ]
    two, three, eight = (document.table(f"table-{n}") for n in (2, 3, 8))
    assert two.label == "Table 2"
    rows = {(row[0].text, row[1].text): row for row in two.table.rows}
    there = rows["HRED, Reddit, EI", "Quality"]
    assert (there[2].raw, there[3].text, there[6].raw) == ((2.714,), "[2.415, 3.013]", (16,))
    assert rows["VHCR, Cornell, EI", "Quality"][4].reason == GapReason.NO_DATA
    assert rows["HRED, Reddit, EI", "empathy"][4].reason == GapReason.NO_DATA
    assert rows["gamma", "Quality"][2].reason == GapReason.NOT_PUBLISHED
    assert [row[2].text for row in three.table.rows if row[0].text == "HRED, Reddit, EI"] == ["20.000"]
    assert [row[1].text for row in eight.table.rows[:2]] == ["55", "49"]
    lacking = next(chapter for chapter in document.chapters if chapter.id == "figure-6")
    assert not lacking.parts
    assert "There is no hybrid-metric fit" in lacking.missing[0]
    url = reverse("dashboard:study_report", args=[study.key])
    page = staff.get(url + "?like=ghandeharioun2019&part=preview").content.decode()
    assert "Table 8. Ratings per bot" in page
    assert staff.get(url + "?like=gp2020").status_code == 404
    output = tmp_path / "paper.html"
    call_command(
        *("report", "--study", study.key, "--like", "ghandeharioun2019", "--output", str(output)), stdout=io.StringIO()
    )
    assert re.findall(r'<section id="([a-z0-9-]+)"', output.read_text())[:2] == ["table-1", "figure-2"]
    with pytest.raises(CommandError, match="invalid choice: 'gp2020'"):
        call_command("report", "--study", study.key, "--like", "gp2020", "--output", "x.html")
    with pytest.raises(CommandError, match=r"--like and --sections need a page; add --output FILE\.html"):
        call_command("report", "--study", study.key, "--like", "ghandeharioun2019", "--json")
