"""The builder: a draft, its steps, saving by script and without, conflicts, the checklist and opening."""

import re
import uuid
from collections.abc import Sequence
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.core.files.uploadedfile import SimpleUploadedFile
from django.forms import MultiWidget
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse
from pytest_django.asserts import assertContains
from statsmodels.stats.power import TTestIndPower

from chatbots.registry import bot_get
from evaluation.analysis.planning import plan_raters
from evaluation.stats.comparisons import ORDER_ALPHA
from evaluation.stats.power import raters_needed
from tests.builders import force_bots, make_annotated, make_conversation, make_participant, make_study, signed_in
from tests.markup import flat
from tests.webapp.dashboard.conftest import rate_some
from webapp.conversations.models import Conversation, Turn
from webapp.conversations.services.replies import heartbeat_store
from webapp.core.rights import Right
from webapp.dashboard.builder.attention_checks import KINDS
from webapp.dashboard.builder.base import Plan
from webapp.dashboard.builder.checklist import findings_of, stops
from webapp.dashboard.builder.forms import section_fields
from webapp.dashboard.views.builder.step import STEPS
from webapp.insights.study_plan import cost_of, reach_of, spread_for
from webapp.jobs.models import HybridFit, Job
from webapp.ratings.selectors import study_ratings
from webapp.studies.models import Outcome, Study, Task
from webapp.studies.protocols.base import protocols
from webapp.studies.recruitment.completion import money_text
from webapp.studies.services import task_complete, task_open
from webapp.studies.settings import SECTIONS, StudyValues
from webapp.studies.versions import state_of, study_edit

pytestmark = pytest.mark.django_db
CODES = Outcome.values
JSON = {"HTTP_ACCEPT": "application/json"}


def address(study: Study | str, step: str) -> str:
    key = study if isinstance(study, str) else study.key
    return reverse("dashboard:study_build_step", args=[key, step])


def send_step(
    staff: Client, study: Study, step: str, names: Sequence[str], data: dict[str, Any], *, script: bool
) -> HttpResponse:
    """Send a step's form as a browser does, with the state of the settings that it holds."""
    study.refresh_from_db()
    headers = {"accept": "application/json"} if script else {}
    answer = staff.post(address(study, step), {**data, "_seen": state_of(study, names)}, headers=headers)
    study.refresh_from_db()
    return answer


def form_of(client: Client, where: str) -> dict[str, Any]:
    """Return what a browser would send of the step's form as it stands."""
    context = client.get(where).context
    form = context["form"]
    data: dict[str, Any] = {"_seen": context["seen"]}
    for name in form.fields:
        value = form[name].value()
        if value is None or value is False:
            continue
        widget = form.fields[name].widget
        if isinstance(widget, MultiWidget):  # a browser sends each of its parts
            parts = zip(widget.widgets_names, widget.decompress(value), strict=True)
            data |= {f"{name}{part}": given for part, given in parts if given not in (None, False)}
            continue
        data[name] = "on" if value is True else value
    return data


def draft(key: str = "d", **fields: Any) -> Study:
    return make_study(key, state=Study.State.DRAFT, **{"contact": "lab@example.org", **fields})


def walk(study: Study) -> None:
    """Go the whole way once, as a rehearsal does."""
    task_complete(task=task_open(participant=make_participant(study, is_synthetic=True)))


def test_a_new_study_is_a_draft_with_a_key_of_its_name(staff: Client) -> None:
    url = reverse("dashboard:study_new")
    page = staff.get(url).content.decode()
    for protocol in protocols:
        assert f'value="{protocol.name}"' in page
    answer = staff.post(url, {"protocol": "chat", "name": "Everyday talk, winter"})
    assert answer["Location"] == address("everyday-talk-winter", "bots")
    study = Study.objects.get()
    assert (study.state, study.protocol, study.version.author) == ("draft", "chat", "r")
    again = staff.post(url, {"protocol": "chat", "name": "Everyday talk, winter"})
    assert again["Location"] == address("everyday-talk-winter-2", "bots")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"name": ""}, "This field is required"),
        ({"name": "x", "key": "s"}, "The key “s” is not available"),
        ({"name": "x", "key": "new"}, "“new” is the address of a page"),
        ({"name": "x", "key": "a b"}, "Enter a valid “slug”"),
        ({"name": "x", "protocol": "nothing"}, "nothing is not one of the available choices"),
    ],
)
def test_what_is_no_new_study_is_said_at_its_field(staff: Client, given: dict[str, str], said: str) -> None:
    make_study("s")
    answer = staff.post(reverse("dashboard:study_new"), {"protocol": "chat", **given})
    assert said in answer.content.decode()
    assert Study.objects.count() == 1


def test_name_key_and_seed_are_changed_until_people_have_agreed(staff: Client) -> None:
    where = address(draft(), "general")
    saved = staff.post(where, {**form_of(staff, where), "name": "Other", "key": "other", "seed": "7"})
    study = Study.objects.get()
    assert (study.name, study.key, study.seed) == ("Other", "other", 7)
    assert saved["Location"] == address("other", "general")
    make_participant(study)
    where = address("other", "general")
    refused = staff.post(where, {**form_of(staff, where), "key": "third"})
    assert "1 participant has already consented" in refused.content.decode()


def test_an_imported_study_has_one_page_of_settings(staff: Client) -> None:
    study = make_study("i", is_imported=True)
    where = address(study, "general")
    assert staff.get(reverse("dashboard:study_build", args=["i"]))["Location"] == where
    assert where.removesuffix("general/") in staff.get(reverse("dashboard:study", args=["i"])).content.decode()
    page = staff.get(where).content.decode()
    assert "Lower is better" in page
    assert 'data-step="texts"' not in page
    assert staff.get(address(study, "texts")).status_code == 404
    sent = {**form_of(staff, where), "name": "Set of 2019", "reversed": ["fluency"], "kappa_items": "9"}
    assert staff.post(where, sent)["Location"] == where
    study = Study.objects.get()
    assert (study.name, study.values.judging.kappa_items) == ("Set of 2019", 9)
    assert list(study.rubric.dimensions.filter(reversed=True).values_list("key", flat=True)) == ["fluency"]


def test_every_setting_of_every_section_has_a_field() -> None:
    missing = [
        name
        for section, kind in SECTIONS.items()
        for name in kind.model_fields
        if name not in section_fields(section) and name not in KINDS and name not in ("factors", "parts")
    ]
    assert not missing, "no form shows these; say in builder/forms.py how"


def test_a_change_is_saved_by_script_and_without(staff: Client) -> None:
    study = draft()
    where = address(study, "texts")
    data = {**form_of(staff, where), "title": "Talk to it", "consent_points": "One.\r\nTwo."}
    answer = staff.post(where, data, **JSON).json()
    assert answer["saved"]
    assert answer["errors"] == {}
    assert set(answer["steps"]) == {step.name for step in STEPS}
    study.refresh_from_db()
    assert study.values.texts.title == "Talk to it"
    assert study.values.texts.consent_points == "One.\nTwo."
    assert study.bots == ["eliza", "parrot"]
    # The next change says what it has seen, which the answer told.
    again = {**data, "_seen": answer["seen"], "title": "Talk with it"}
    assert staff.post(where, again, **JSON).json()["saved"]
    plain = staff.post(where, {**form_of(staff, where), "title": "Plain", "_next": "1"})
    assert plain["Location"] == address(study, "questions")
    study.refresh_from_db()
    assert study.values.texts.title == "Plain"


def test_a_mistake_is_said_at_its_field_and_nothing_is_saved(staff: Client) -> None:
    study = draft()
    where = address(study, "bots")
    data = {**form_of(staff, where), "min_exchanges": "9", "max_exchanges": "4"}
    body = staff.post(where, data, **JSON).json()
    assert not body["saved"]
    assert "The minimum of 9 exchanges is above the maximum of 4." in body["errors"]["min_exchanges"][0]
    html = flat(staff.post(where, data).content.decode())
    assert re.search(r'id="id_min_exchanges_error"><p class="field-error">The minimum of 9 exchanges', html)
    assert 'value="9"' in html
    study.refresh_from_db()
    assert study.values.chat.min_exchanges == 3
    pay = address(study, "pay")
    wrong = {**form_of(staff, pay), "frame_ancestors": "nonsense, really"}
    assert "is not an origin" in staff.post(pay, wrong, **JSON).json()["errors"]["frame_ancestors"][0]


def test_two_who_edit_at_once_see_the_difference(staff: Client) -> None:
    study = draft()
    other = signed_in(*Right, username="r.lee")
    where = address(study, "texts")
    mine = {**form_of(staff, where), "title": "Mine"}
    theirs = {**form_of(other, where), "title": "Theirs", "thanks_text": "Thanks a lot."}
    assert staff.post(where, {**mine, "title": "First"}, **JSON).json()["version"] == 1
    stale = staff.get(where).context["seen"]
    assert "Your" not in stale
    assert other.post(where, {**theirs, "_seen": stale}, **JSON).json()["version"] == 2
    answer = staff.post(where, {**mine, "_seen": stale}, **JSON).json()
    assert not answer["saved"]
    assert "r.lee saved version 2 while you were editing." in answer["conflict"]
    assert "Theirs" in answer["conflict"]
    assert "Mine" in answer["conflict"]
    # A browser ends lines in its own way: that is no difference.
    mine |= {name: text.replace("\n", "\r\n") for name, text in mine.items() if isinstance(text, str)}
    page = staff.post(where, {**mine, "_seen": stale})
    html = page.content.decode()
    titles = re.findall(r'<th scope="row">([^<]+)', html.split("_keep")[0])
    assert titles == ["Title on the first page", "Thank-you text"]
    assert "Save mine as version 3" in html
    assert Study.objects.get().values.texts.title == "Theirs"
    keep = re.search(r'name="_keep" value="(\w+)"', html)
    assert keep
    staff.post(where, {**mine, "_seen": stale, "_keep": keep[1]})
    kept = Study.objects.get()
    assert (kept.version.number, kept.version.author) == (3, "r")
    assert kept.values.texts.title == "Mine"


def test_changes_of_other_steps_are_no_conflict(staff: Client) -> None:
    study = draft()
    where = address(study, "texts")
    mine = {**form_of(staff, where), "title": "Mine"}
    study_edit(study=study, author="r.lee", min_exchanges=4)
    assert staff.post(where, mine, **JSON).json()["saved"]
    result = Study.objects.get()
    assert (result.values.texts.title, result.values.chat.min_exchanges) == ("Mine", 4)


def test_one_person_edits_one_version_until_somebody_agrees(staff: Client) -> None:
    study = draft()
    where = address(study, "texts")
    for title in ("A", "B"):
        assert staff.post(where, {**form_of(staff, where), "title": title}, **JSON).json()["saved"]
    assert study.versions.count() == 1
    make_participant(study)
    assert staff.post(where, {**form_of(staff, where), "title": "C"}, **JSON).json()["version"] == 2


def test_a_bot_keeps_its_place(staff: Client) -> None:
    study = draft(bots=["parrot", "eliza"])
    where = address(study, "bots")
    data = {**form_of(staff, where), "bots": ["eliza", "generic", "parrot"]}
    assert staff.post(where, data, **JSON).json()["saved"]
    study.refresh_from_db()
    assert study.bots == ["parrot", "eliza", "generic"]


def test_a_bot_that_cannot_load_keeps_its_card_closed(staff: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    why = "has no checkpoint in its folder"
    monkeypatch.setattr(type(bot_get("parrot")), "unavailable_reason", lambda _self: why)
    study = draft(bots=["eliza"])
    force_bots(study, ["eliza", "gone"])
    html = flat(staff.get(address(study, "bots")).content.decode())
    cards = {
        bot_id: re.split("data-bot=", html.split(f'data-bot="{bot_id}"', 1)[1], maxsplit=1)[0]
        for bot_id in ("eliza", "parrot", "gone")
    }
    assert "data-closed" not in cards["eliza"]
    assert "/dashboard/bots/eliza/" in cards["eliza"]
    assert why in cards["parrot"]
    assert 'value="parrot" disabled' in cards["parrot"]
    assert "/dashboard/bots/parrot/" not in cards["parrot"]
    # One that was chosen can be taken out.
    assert "No longer registered here" in cards["gone"]
    assert 'value="gone" checked>' in cards["gone"]
    assert leads(study)["1 of 2 bots cannot reply."] == "warn"


def test_who_may_only_read_sees_a_closed_form() -> None:
    study = draft()
    reader = signed_in(Right.READ, username="reader")
    html = reader.get(address(study, "texts")).content.decode()
    assert '<fieldset class="build-fields" disabled>' in html
    assert "data-build" not in html
    assert "rehearsal=" not in html
    assert reader.post(address(study, "texts"), {"title": "x"}).status_code == 403


def leads(study: Study) -> dict[str, str]:
    return {one.lead: one.tone for one in findings_of(Plan(study))}


def test_the_checklist_says_what_is_missing_and_opening_is_refused(staff: Client) -> None:
    study = draft(bots=[], thanks_text="", platform="prolific")
    missing = stops(findings_of(Plan(study)))
    text = " ".join(one.lead + one.rest for one in missing)
    assert "The study has no bot. Choose one before you open the study." in text
    assert "Thank-you text" in text
    assert f"{len(CODES) - 1} outcomes have no Prolific code:" in text, "none is late in a study without parts"
    assert "You have not tested the study" in text
    steps = {one.step for one in missing}
    assert steps == {"bots", "texts", "pay", "walk"}
    answer = staff.post(address(study, "check"), {"_state": "collecting"})
    html = answer.content.decode()
    assert "The study cannot open yet" in html
    assert 'aria-disabled="true" aria-describedby="open-reason"' in html
    assert Study.objects.get().state == "draft"


def test_opening_says_which_bots_are_not_loaded_yet(staff: Client) -> None:
    study = draft(bots=["eliza", "parrot"])
    study_edit(study=study, state=Study.State.COLLECTING)
    walk(study)
    study_edit(study=study, state=Study.State.DRAFT)
    check = staff.get(address(study, "check")).content.decode()
    assert "0 are loaded now. They all load when a participant goes through the link." in check
    text = "1 of its bots is not loaded yet. Its first participant may wait for a reply."
    for loaded, is_said in ((["eliza"], True), (["eliza", "parrot"], False)):
        heartbeat_store(
            host_id=uuid.UUID(int=1), pool="default", bots={bot_id: {"state": "ready"} for bot_id in loaded}
        )
        answer = staff.post(address(study, "check"), {"_state": "collecting"}, follow=True)
        assert "The study is open." in answer.content.decode()
        assert (text in answer.content.decode()) is is_said
        staff.post(address(study, "check"), {"_state": "paused"}, follow=True)
    check = staff.get(address(study, "check")).content.decode()
    assert "2 are loaded now." in check
    assert "They all load" not in check


def test_no_study_opens_without_a_contact_and_it_is_remembered(staff: Client) -> None:
    study = draft(contact="")
    walk(study)
    [missing] = stops(findings_of(Plan(study)))
    assert (missing.lead, missing.field) == ("Contact missing.", "contact")
    assert "Contact missing." in staff.post(address(study, "check"), {"_state": "collecting"}).content.decode()
    assert Study.objects.get().state == "draft"
    study_edit(study=study, contact="lab@example.org", organisation="The lab")
    assert not stops(findings_of(Plan(study)))
    staff.post(reverse("dashboard:study_new"), {"protocol": "chat", "name": "Next"})
    texts = Study.objects.get(key="next").values.texts
    assert (texts.organisation, texts.contact) == ("The lab", "lab@example.org")


def test_a_study_opens_once_somebody_has_gone_the_whole_way(staff: Client) -> None:
    study = draft()
    assert [stop.step for stop in stops(findings_of(Plan(study)))] == ["walk"]
    study_edit(study=study, state=Study.State.COLLECTING)
    walk(study)
    study_edit(study=study, state=Study.State.DRAFT)
    assert not stops(findings_of(Plan(study)))
    assert staff.get(address(study, "check")).context["n_left"] == 0
    answer = staff.post(address(study, "check"), {"_state": "collecting"})
    assert answer["Location"] == reverse("dashboard:study", args=["d"])
    assert Study.objects.get().state == "collecting"
    for state in ("paused", "collecting", "ended"):
        staff.post(address(study, "check"), {"_state": state})
        assert Study.objects.get().state == state
    assert "This change is not possible" in staff.post(address(study, "check"), {"_state": "paused"}).content.decode()


def test_a_way_gone_through_before_an_edit_is_said() -> None:
    study = make_study()
    walk(study)
    assert leads(study)["The study was tested from start to end."] == "good"
    make_participant(study)
    changed = study_edit(study=study, title="Other")
    assert leads(changed)["The study was tested from start to end."] == "warn"


def test_cost_and_what_the_plan_can_show() -> None:
    study = draft(pay_each=1.6, fee_share=1 / 3, minutes=8, max_per_bot=40)
    cost = cost_of(study)
    assert cost.n == 80
    assert money_text(cost.an_hour or 0, "GBP") == "£12.00"
    assert cost.people == pytest.approx(128)
    assert cost.in_all == pytest.approx(128 * 4 / 3)
    reach = reach_of(study, 6)
    assert (reach.n, reach.n_pairs, reach.spread.study) == (40, 1, "")
    # By another program: the power of the t-test with n ratings a bot.
    test = TTestIndPower()
    assert reach.alpha == 0.05, "as pairs differ significantly, so they are planned for"
    reached = test.power(reach.difference / reach.spread.sd, 40, 0.05)
    assert reached == pytest.approx(0.8, abs=1e-4)
    assert (reach.smallest, reach.for_smallest is not None) == (pytest.approx(0.6), True), "a tenth of the scale"
    enough = [test.power(0.6 / reach.spread.sd, reach.for_smallest + less, 0.05) for less in (0, -1)]
    assert enough[0] >= 0.8 > enough[1]
    named = reach_of(study_edit(study=study, smallest_difference=1.2), 6)
    assert (named.smallest, named.for_smallest < reach.for_smallest / 3) == (1.2, True)
    with pytest.raises(ValidationError, match="cannot differ by more than 6"):
        study_edit(study=study, smallest_difference=7)
    told = leads(study)
    assert "80 tasks wanted" in told
    assert told["£12.00 per hour"] == "good"
    few = study_edit(study=study, platform="prolific", pay_each=0.5)
    assert leads(few)["£3.75 per hour is low."] == "warn"


def rated_study() -> Study:
    """Make a study of which two bots that are no controls are rated."""
    study = make_study("rated")
    rate_some(study, 24)
    chats = Conversation.objects.filter(study=study)
    eliza = next(chat.bot for chat in chats if chat.bot.bot_id == "eliza")
    chats.update(bot=eliza)
    eliza.pk, eliza.bot_id, eliza.key = None, "ada", "ada"
    eliza.save()
    chats.filter(turns__vote=1).update(bot=eliza)
    return study


def test_the_spread_is_that_of_ratings_here() -> None:
    rated_study()
    spread = spread_for(draft(), 6)
    assert spread.study == "rated"
    # quality is 1 to 7 in turn; the plan is the one of the page of comparisons.
    assert 1.5 < spread.sd < 2.5
    ratings = study_ratings(Study.objects.get(key="rated"))
    assert spread.plan == plan_raters(ratings)
    three = draft("three", max_per_bot=60)
    force_bots(three, ["ada", "eliza", "eva"])
    reach, page = reach_of(three, 6), plan_raters(ratings, [0.6])
    assert (reach.n_pairs, page.n_comparisons) == (3, 1)
    expected = raters_needed(0.6, page.pairs[0].sd, alpha=0.05, n_comparisons=3)
    assert (reach.for_smallest, reach.with_prediction, reach.alpha) == (expected.n, None, 0.05)
    # It is planned at its own level, whatever that of the study with the ratings.
    reach = reach_of(study_edit(study=three, level=None), 6)
    expected = raters_needed(0.6, page.pairs[0].sd, alpha=ORDER_ALPHA, n_comparisons=3)
    assert (reach.for_smallest, reach.alpha) == (expected.n, ORDER_ALPHA)


def test_a_study_with_a_fit_is_planned_with_and_without_its_predictions() -> None:
    rated = rated_study()
    fit = {
        "target": "quality",
        "q2": {"value": 0.7, "null95": 0.4},
        "ratings_worth": {"stated": 21.0, "by_error": 30.0},
        "bots": {"ada": {}, "eliza": {}},
    }
    HybridFit.objects.create(study=rated, state=Job.State.DONE, result=fit, request={"targets": ["quality"]})
    reach = reach_of(rated, 6)
    assert reach.with_prediction == reach.for_smallest - 21
    half = next(one.hint for one in findings_of(Plan(rated)) if "smallest difference" in one.hint)
    assert f"({reach.with_prediction} for a new bot that the hybrid metric predicts)" in half
    document = plan_raters(study_ratings(rated), [0.5], fit=fit)
    (row,) = document.to_json()["plans"]
    assert row["independent_with_prediction"] == row["independent"]["n"] - 21
    assert "own, with the prediction" in document.summary()
    assert "own, with the prediction" not in plan_raters(study_ratings(rated), [0.5]).summary()


def test_a_spread_is_taken_from_a_scale_as_wide() -> None:
    rate_some(make_study("rated"), 24)
    assert spread_for(draft("other"), 4).study == ""


def test_what_follows_from_the_numbers_comes_with_every_save(staff: Client) -> None:
    study = draft()
    where = address(study, "pay")
    data = {**form_of(staff, where), "pay_each": "2", "n_conversations_wanted": "10"}
    answer = staff.post(where, data, **JSON).json()
    assert answer["saved"], answer["errors"]
    assert "= £20.00; £15.00 an hour" in " ".join(answer["live"].split())
    assert answer["steps"]["pay"]["words"] == "10 wanted"


def test_two_equal_codes_are_said_at_the_field(staff: Client) -> None:
    where = address(draft(), "pay")
    data = {**form_of(staff, where), "platform": "prolific", "code_rated": "C1", "code_withdrawn": "C1"}
    answer = staff.post(where, data, **JSON).json()
    assert "Another outcome already has the code C1." in answer["errors"]["code_withdrawn"][0]
    html = staff.get(where).content.decode()
    assert "PROLIFIC_PID={{%PROLIFIC_PID%}}" in html
    assert f'data-fetch-codes="{reverse("dashboard:study_pay_codes", args=["d"])}"' in html


def test_a_duplicate_is_a_draft_with_the_items_and_without_codes(staff: Client) -> None:
    study = make_annotated("a", n_items=4, platform="prolific", **{f"code_{o}": f"C{o}" for o in CODES})
    make_participant(study)
    answer = staff.post(reverse("dashboard:study_duplicate", args=["a"]))
    assert answer["Location"] == address("a-2", "bots")
    result = Study.objects.get(key="a-2")
    assert (result.state, result.version.author, result.items.count()) == ("draft", "r", 4)
    assert result.values.recruitment.code_rated == ""
    assert study.items.count() == 4
    assert result.participants.count() == 0


def test_an_archived_study_leaves_the_list_and_comes_back(staff: Client) -> None:
    study = make_study("kept")
    url = reverse("dashboard:study_archive", args=["kept"])
    assert "Pause or close it first" in staff.post(url, {"archived": "1"}, follow=True).content.decode()
    study_edit(study=study, state=Study.State.ENDED)
    staff.post(url, {"archived": "1"})
    listed = reverse("dashboard:studies")
    assert ">kept</a>" not in staff.get(listed).content.decode()
    assert "Archived 1" in staff.get(listed).content.decode()
    assert ">kept</a>" in staff.get(listed, {"state": "archived"}).content.decode()
    assert staff.get("/dashboard/", {"archived": "1"}).url == f"{listed}?state=archived"
    staff.post(url, {"archived": "0"})
    assert ">kept</a>" in staff.get(listed).content.decode()


def test_a_study_with_peoples_data_is_deleted_only_by_its_key(staff: Client) -> None:
    study = make_study("gone")
    rate_some(study, 3)
    walk(study)
    url = reverse("dashboard:study_delete", args=["gone"])
    assert "Pause or close it first" in staff.post(url, {"typed": "gone"}).content.decode()
    study_edit(study=study, state=Study.State.ENDED)
    html = staff.get(url).content.decode()
    assert "<dt>ratings, with their comments</dt><dd>3</dd>" in html
    refused = staff.post(url, {"typed": "Gone"}).content.decode()
    assert "Type its key, gone, to delete it, not “Gone”." in refused
    assert Study.objects.count() == 1
    assert staff.post(url, {"typed": "gone"})["Location"] == reverse("dashboard:studies")
    assert Study.objects.count() == Conversation.objects.count() == Task.objects.count() == 0


def test_a_draft_that_was_only_rehearsed_is_deleted_at_once(staff: Client) -> None:
    study = make_study("tried")
    walk(study)
    study_edit(study=study, state=Study.State.DRAFT)
    url = reverse("dashboard:study_delete", args=["tried"])
    assert 'name="typed"' not in staff.get(url).content.decode()
    staff.post(url)
    assert not Study.objects.exists()


@pytest.mark.parametrize(("people", "said"), [("many", "“many” is not a number"), ("0", "people"), ("900", "people")])
def test_a_rehearsal_of_no_number_is_refused(staff: Client, people: str, said: str) -> None:
    study = draft()
    url = reverse("dashboard:study_rehearse", args=[study.key])
    assert said in staff.post(url, {"people": people}, follow=True).content.decode()
    assert not Job.objects.exists()


def test_a_rehearsal_is_a_job_of_the_study(staff: Client) -> None:
    study = draft()
    answer = staff.post(reverse("dashboard:study_rehearse", args=[study.key]), {"people": "3"})
    job = Job.objects.get()
    assert answer["Location"] == reverse("dashboard:job", args=["rehearsal", job.pk])
    assert (job.study, job.payload["people"], job.payload["url"]) == (study, 3, "http://testserver")
    assert "Rehearsal: d" in staff.get(answer["Location"]).content.decode()


def item_file(*lines: str) -> SimpleUploadedFile:
    return SimpleUploadedFile("items.jsonl", "\n".join(lines).encode())


def test_items_come_from_a_file_and_what_is_none_is_told(staff: Client) -> None:
    draft("judged", protocol="annotate", bots=[])
    good = '{"id": "1", "source": "x", "context": ["hi"], "response": "hello", "reference": null}'

    def sent(*lines: str) -> str:
        page = staff.post("/dashboard/imports/?study=judged", {"file": item_file(*lines)})["Location"]
        assert "hello" in staff.get(page).content.decode()
        assert staff.post(page, {"study": ""}).status_code == 400
        return staff.post(page, {"study": "judged"}, follow=True).content.decode()

    html = sent(good, '{"id": 2}')
    assert "1 new item, 0 already present, 1 skipped." in html
    assert "Line 2 was skipped" in html
    assert "1 item to rate" in html
    assert "data-step-state>1 item<" in html
    assert "0 new items, 1 already present, 0 skipped." in sent(good)


def test_items_are_drawn_from_conversations_by_a_job(staff: Client) -> None:
    rate_some(make_study("source"), 3)
    study = draft("judged", protocol="annotate", bots=[])
    html = staff.get(address(study, "bots")).content.decode()
    assert "source (3 chats)" in html
    url = reverse("dashboard:study_items", args=["judged"])
    params = {"n_contexts": "5", "n_utterances": "2", "more_than_tokens": "0", "source": "study:source"}
    answer = staff.post(url, params)
    job = Job.objects.get()
    assert answer["Location"] == reverse("dashboard:job", args=["items", job.pk])
    assert (job.payload["of_study"], job.payload["n_contexts"]) == ("source", 5)
    refused = staff.post(url, {**params, "source": "study:none"}, follow=True).content.decode()
    assert "study:none is not one of the available choices" in refused
    chat = draft("chat")
    assert staff.post(reverse("dashboard:study_items", args=[chat.key]), params).status_code == 404


def test_the_link_to_go_through_brings_a_new_person_of_the_platform(staff: Client) -> None:
    for platform, name in (("prolific", "PROLIFIC_PID="), ("panel", "id=rehearsal-"), ("link", "")):
        study = draft(f"of-{platform}", platform=platform)
        link = staff.get(address(study, "check")).context["walk_link"]
        assert name in link
        assert staff.get(link).status_code == 200
        assert 'name="consent"' in staff.get(link).content.decode()


def test_a_new_study_begins_with_what_its_protocol_needs(staff: Client) -> None:
    draft()  # its contact is remembered
    for name in protocols.names():
        url = reverse("dashboard:study_new")
        answer = staff.post(url, {"protocol": name, "name": f"Try {name}"})
        study = Study.objects.get(name=f"Try {name}")
        assert answer["Location"] == address(study, "bots")
        assert (study.bots, study.state) == ([], "draft")
        steps = {stop.step for stop in stops(findings_of(Plan(study)))}
        assert steps <= {"bots", "walk"}, (name, steps)
        if name != "chat" and protocols.get(name).gives == "items":
            assert study.values.texts.title != StudyValues().texts.title


def test_a_newcomer_has_samples_and_lists_for_what_is_judged(staff: Client) -> None:
    """Nothing has to be typed, uploaded or read elsewhere to try out a protocol that judges what is stored."""
    for name, n in (("survey", 12), ("pairwise", 6), ("dialogues", 6), ("turns", 6)):
        staff.post(reverse("dashboard:study_new"), {"protocol": name, "name": name})
        bring = reverse("dashboard:study_items", args=[name])
        assert "_sample" in staff.get(address(name, "bots")).content.decode(), name
        for _twice in range(2):
            page = staff.post(bring, {"_sample": "1"}, follow=True).content.decode()
        assert f"{n} items to rate" in page or f"{n} conversations to rate" in page, name
        assert f">{n} items<" in page or f">{n} conversations<" in page, "the row of steps says it too"
    for name, left in (("survey", "No items yet"), ("turns", "No conversations yet")):
        bring = reverse("dashboard:study_items", args=[name])
        page = staff.post(bring, {"_take_out": "sample"}, follow=True).content.decode()
        assert "removed." in page
        assert left in page
        assert "removed already" in staff.post(bring, {"_take_out": "sample"}, follow=True).content.decode()
    page = staff.get(address("turns", "bots")).content.decode()
    assert '<option value="dialogues">dialogues (6 chats)</option>' in page
    data = form_of(staff, address("turns", "bots")) | {"conversations_of": "dialogues"}
    staff.post(address("turns", "bots"), data)
    assert Study.objects.get(key="turns").values.marking.conversations_of == "dialogues"
    labels = {"label_steps": "on", "step_labels": "Wrong tool\nToo late"}
    staff.post(address("turns", "bots"), form_of(staff, address("turns", "bots")) | labels)
    stored = Study.objects.get(key="turns").values.step_marking
    assert (stored.label_steps, stored.step_labels) == (True, ("Wrong tool", "Too late"))
    labels["step_labels"] = "Too late\nToo late"
    response = staff.post(address("turns", "bots"), form_of(staff, address("turns", "bots")) | labels)
    assert response.status_code == 200
    assert "“Too late” is listed twice" in response.content.decode()
    data = form_of(staff, address("turns", "bots")) | {"conversations_run": "99"}
    assert "Select a valid choice" in staff.post(address("turns", "bots"), data).content.decode()


def test_conversations_of_a_file_go_into_the_study_that_judges_them(staff: Client) -> None:
    study = draft("read", protocol="turns", bots=[])
    assert "/dashboard/imports/?study=read" in staff.get(address(study, "bots")).content.decode()
    turns = '[{"speaker": "human", "text": "hi"}, {"speaker": "bot", "text": "yes?"}]'
    good = f'{{"dialogue_id": "1", "bot": "b", "turns": {turns}}}'
    file = SimpleUploadedFile("some.jsonl", f"{good}\n{{}}".encode())
    page = staff.post("/dashboard/imports/?study=read", {"file": file})["Location"]
    assert staff.get(page).context["form"]["study"].value() == "read"
    response = staff.post(page, {"study": "read", "language": "Klingon!", "_import": "1"})
    assertContains(response, "use an ISO 639 code such as en, de or pt-br", status_code=400)
    staff.post(page, {"study": "read", "language": "DE", "_import": "1"})
    conversation = study.conversations.get()
    assert (conversation.turns.count(), conversation.language) == (2, "de")


def test_every_step_of_every_new_study_can_be_saved_as_it_is(staff: Client) -> None:
    for name in protocols.names():
        staff.post(reverse("dashboard:study_new"), {"protocol": name, "name": name})
        before = Study.objects.get(key=name).values.flat()
        for step in ("bots", "texts", "pay"):
            form = form_of(staff, address(name, step))
            body = staff.post(address(name, step), form, **JSON).json()
            assert not body.get("errors"), (name, step, body)
        after = Study.objects.get(key=name).values.flat()
        assert {key: after[key] for key in before if after[key] != before[key]} == {}, name
    where = address("reference", "bots")
    form = form_of(staff, where) | {"asked_only_of": "fluency"}
    body = staff.post(where, form, **JSON).json()
    assert "must be a name" in str(body["errors"]["asked_only_of"])


def test_the_checklist_names_bots_that_are_slower_than_the_pace() -> None:
    pace = {"paces_alike": True, "first_words_s": 2, "words_per_s": 6}
    study = make_study("p", bots=["eliza", "parrot"], max_exchanges=9, **pace)
    for _chat in range(4):
        chat = make_conversation(study, n_exchanges=3)
        own = 4100 if chat.bot.bot_id == "eliza" else 100
        Turn.objects.filter(conversation=chat, speaker="bot").update(first_ms=own, latency_ms=own)
    leads = {one.lead: one.rest for one in findings_of(Plan(study)) if one.tone == "warn"}
    assert "after 4.1 s" in leads["eliza is slower than the pace."]
    assert not any(lead.startswith("parrot") for lead in leads)
