"""People of a study: the list for those who may not pay, steps, bots, places held, scripted participants."""

from datetime import timedelta
from typing import Any

from bs4 import BeautifulSoup
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from tests.builders import make_conversation, make_rating, make_study, signed_in
from tests.markup import flat
from webapp.core.rights import Right
from webapp.insights.live_bots import bots_of
from webapp.insights.live_progress import now_rounded
from webapp.pay.submissions import SubmissionKey
from webapp.studies.models import Study, Task
from webapp.studies.recruitment.links import step_reached
from webapp.studies.versions import study_edit


def people(client: Client, study: Study, **query: str) -> BeautifulSoup:
    response = client.get(reverse("dashboard:study_people", args=[study.key]), query)
    assert response.status_code == 200
    return BeautifulSoup(flat(response.content.decode()), "html.parser")


def rows(page: BeautifulSoup) -> list[list[str]]:
    """Return the texts of the list's cells, row by row, without the first."""
    result = page.select(".people-list tbody tr")
    return [[cell.get_text(" ", strip=True) for cell in row.select("td:not(.people-tick)")] for row in result]


def titles(page: BeautifulSoup) -> list[str]:
    return [head.get_text(strip=True) for head in page.select(".people-list thead th")]


def test_a_row_says_where_somebody_is_and_with_which_bot(staff: Client, rated: Study) -> None:
    chat = make_conversation(rated)
    step_reached(task=chat.task, step="chat")
    conversation = make_conversation(rated)
    Task.objects.filter(slots__chat=conversation).update(created_at=timezone.now() - timedelta(days=1))
    [first] = rows(people(staff, rated, show="inside"))
    assert first[:3] == ["Not finished at Chat", chat.bot.title, "–"]
    [[state, *_others]] = rows(people(staff, rated, show="left"))
    assert state == "Left"
    assert len(rows(people(staff, rated, show="done"))) == 8
    [result] = rows(people(staff, rated, words=chat.participant_id.hex[:12]))
    assert result == first


def test_pay_is_listed_where_the_study_pays_and_the_reader_may_decide(
    rated: Study, staff: Client, paid: Study, visit: Any
) -> None:
    make_conversation(paid)
    visit("rated", "a")
    plain = ["Person", "State", "Bot", "Minutes", "Flags", "Reports"]
    reader = signed_in(Right.READ, username="reader")
    assert titles(people(staff, rated)) == ["Id", *plain[1:]], "nobody is paid"
    assert titles(people(reader, paid)) == plain
    payer = signed_in(Right.READ, Right.PAY, username="payer")
    assert titles(people(payer, paid)) == ["Select", *plain, "Code", "Pay"]
    for query in ({"show": "approve"}, {"words": "CDONE"}):
        assert len(rows(people(payer, paid, **query))) == 1 - ("show" in query), query
    # Neither the group nor the search tells a reader of pay and of codes.
    assert len(rows(people(reader, paid, show="approve"))) == 2
    assert rows(people(reader, paid, words="CDONE")) == []


def test_one_person_s_page_has_no_pay_for_readers(paid: Study, visit: Any) -> None:
    key: SubmissionKey = visit("rated", "a")
    address = reverse("dashboard:study_person", args=[paid.key, key.participant])
    html = {}
    for rights in ((Right.READ,), (Right.READ, Right.PAY)):
        response = signed_in(*rights, username=f"of-{len(rights)}").get(address)
        assert response.status_code == 200
        html[len(rights)] = response.content.decode()
    assert [code in html[2] for code in ("CDONE111", 'value="approve"', "Identical answers")] == [True, True, True]
    assert [code in html[1] for code in ("CDONE111", 'value="approve"', "Identical answers")] == [False, False, True]


def test_scripted_people_are_listed_by_the_switch_and_never_paid(paid: Study, visit: Any, staff: Client) -> None:
    visit("rated", "a")
    make_rating(make_conversation(paid, n_exchanges=3, is_synthetic=True))
    assert len(rows(people(staff, paid))) == 1
    page = people(staff, paid, synthetic="1")
    assert sorted(row[-1] for row in rows(page)) == ["Look £1.60", "–"]
    assert len(page.select(".people-list input[name=visit]")) == 1
    assert "Rehearsal" in page.select_one(".people-list").get_text()
    assert all("synthetic=1" in link["href"] for link in page.select(".people-tools a"))
    response = staff.post(reverse("dashboard:study_pay_decide", args=["paid"]), {"action": "approve_all"}, follow=True)
    assert "There was nothing left to approve" in response.content.decode()


def test_a_bot_says_how_much_of_its_quota_is_done_and_held(staff: Client, rated: Study) -> None:
    conversation, lapsed = make_conversation(rated), make_conversation(rated)
    make_conversation(rated, is_synthetic=True)
    late = timezone.now() - timedelta(hours=2, minutes=1)
    Task.objects.filter(slots__chat=lapsed).update(created_at=late)

    def n_held(synthetic: bool) -> int:
        return sum(bot.n_held for bot in bots_of(rated, include_synthetic=synthetic, now=now_rounded()))

    assert (n_held(False), n_held(True)) == (1, 2)
    assert [bot.info.title for bot in bots_of(rated, include_synthetic=False, now=now_rounded()) if bot.n_held] == [
        conversation.bot.title
    ]
    study = make_study("quotas", bots=["eliza", "parrot", "generic"])
    study_edit(study=study, bot_quotas={"eliza": 1, "parrot": 0})
    while (chat := make_conversation(study, n_exchanges=3)).bot.bot_id != "eliza":
        pass
    make_rating(chat)
    text = people(staff, study).select_one('[data-part="bots"]').get_text(" ", strip=True)
    for said in ("1 of 1", "Complete", "0 of 0", "Closed"):
        assert said in text, said


def test_a_longer_list_takes_no_more_queries(staff: Client, rated: Study) -> None:
    counts = []
    for _time in range(3):
        make_rating(make_conversation(rated, n_exchanges=3))
        make_conversation(rated)
        with CaptureQueriesContext(connection) as queries:
            people(staff, rated)
        counts.append(len(queries))
    assert counts[1] == counts[2]
    assert counts[2] < 92


def test_a_person_leads_to_the_next_one_of_the_filtered_list(staff: Client, rated: Study) -> None:
    query = {"show": "done"}
    listed = people(staff, rated, **query).select("a.person-id")
    assert len(listed) == 8
    page = staff.get(listed[1]["href"])
    assert page.status_code == 200
    links = BeautifulSoup(page.content.decode(), "html.parser")
    assert links.select_one("a[rel=prev]")["href"] == listed[0]["href"]
    assert links.select_one("a[rel=next]")["href"] == listed[2]["href"]
    for place, missing in ((0, "prev"), (7, "next")):
        end = staff.get(listed[place]["href"])
        assert end.status_code == 200
        assert not BeautifulSoup(end.content.decode(), "html.parser").select(f"a[rel={missing}]")
