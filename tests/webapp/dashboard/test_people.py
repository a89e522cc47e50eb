"""Settings: accounts, secrets and tokens; nobody lifts their own rights, and nobody is shown a secret."""

import re

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client
from django.urls import reverse

from tests.builders import make_staff, signed_in
from webapp.bots.declared_bots import secret_open
from webapp.bots.models import Secret
from webapp.core.models import ApiToken
from webapp.core.rights import Right, may

pytestmark = pytest.mark.django_db


PEOPLE = "/dashboard/settings/people/"
SECRETS = "/dashboard/settings/secrets/"
KEY = "sk-very-secret-0123456789"


def change(client: Client, user: User, action: str, **more: object) -> str:
    response = client.post(f"{PEOPLE}{user.pk}/", {"action": action, **more}, follow=True)
    assert response.status_code == 200
    return response.content.decode()


def group(name: str) -> Group:
    return Group.objects.get(name=f"Confab {name}")


def test_a_person_is_added_sets_a_password_by_the_link_and_signs_in() -> None:
    admin = signed_in(*Right, username="ann")
    params = {"username": "bob", "email": "bob@example.org", "groups": [group("analysts").pk]}
    response = admin.post(PEOPLE, params)
    assert response.status_code == 200
    [link] = set(re.findall(r"http://testserver(/set-password/[^<\"]+)", response.content.decode()))
    assert link not in admin.get(PEOPLE).content.decode()
    person = Client()
    form = person.get(link)["Location"]
    assert "Set your password" in person.get(form).content.decode()
    person.post(form, {"new_password1": "correct horse battery", "new_password2": "correct horse battery"})
    assert "used already" in Client().get(link).content.decode()
    signed = person.post("/login/", {"username": "bob", "password": "correct horse battery"})
    assert signed.status_code == 302
    assert may(User.objects.get(username="bob"), Right.READ, Right.RUN)


@pytest.mark.parametrize("name", ["ann", "", "x" * 151, "a b"])
def test_what_is_no_new_name_is_refused(name: str) -> None:
    response = signed_in(*Right, username="ann").post(PEOPLE, {"username": name})
    assert response.status_code == 400
    assert "No account was created" in response.content.decode()
    assert User.objects.count() == 1


def test_nobody_changes_their_own_account_or_one_with_rights_that_they_lack() -> None:
    small = make_staff(Right.READ, Right.ADMINISTER, username="small")
    payer, root = make_staff(Right.PAY, username="payer"), User.objects.create_superuser("root")
    client = Client()
    client.force_login(small)
    for user, said in ((small, "your own account"), (payer, "rights that you do not have"), (root, "superuser")):
        for action in ("groups", "link", "deactivate", "delete"):
            assert said in change(client, user, action, groups=[group("readers").pk]), (user, action)
    assert User.objects.filter(is_active=True).count() == 3
    values = {"username": "accomplice", "groups": [group("administrators").pk]}
    refused = client.post(PEOPLE, values)
    assert refused.status_code == 400
    assert "rights that you do not have" in refused.content.decode()
    assert not User.objects.filter(username="accomplice").exists()
    reader = make_staff(Right.READ, username="reader")
    assert "rights that you do not have" in change(client, reader, "groups", groups=[group("payers").pk])
    assert "were saved" in change(client, reader, "groups", groups=[group("readers").pk, "x"])


def test_an_account_is_deactivated_before_it_is_deleted() -> None:
    admin, bob = signed_in(*Right, username="ann"), make_staff(Right.READ, username="bob")
    assert "Deactivate the account first" in change(admin, bob, "delete")
    browser = Client()
    browser.force_login(bob)
    assert "no longer sign in" in change(admin, bob, "deactivate")
    assert browser.get("/dashboard/").status_code == 302
    assert "sign in again" in change(admin, bob, "activate")
    change(admin, bob, "deactivate")
    assert "was deleted" in change(admin, bob, "delete")
    assert admin.post(f"{PEOPLE}{User.objects.get().pk}/", {"action": "promote"}).status_code == 404


def test_a_secret_is_stored_replaced_and_never_shown() -> None:
    client = signed_in(Right.READ, Right.BOTS)
    params = {"name": "<b>lab</b>", "address": "https://models.example.org/v1", "value": KEY}
    html = client.post(SECRETS, params, follow=True).content.decode()
    assert "&lt;b&gt;lab&lt;/b&gt;" in html
    assert "https://models.example.org:443" in html
    secret = Secret.objects.get()
    renewed = client.post(reverse("dashboard:secrets_again"), follow=True).content.decode()
    assert "newest key" in renewed
    refused = client.post(SECRETS, {**params, "value": f"{KEY}x"})
    assert refused.status_code == 400
    client.post(f"{SECRETS}{secret.pk}/", {"value": f"{KEY}y"})
    secret.refresh_from_db()
    assert secret_open(secret, params["address"]) == f"{KEY}y"
    assert KEY not in html + renewed + refused.content.decode() + client.get(SECRETS).content.decode()
    client.post(f"{SECRETS}{secret.pk}/", {"action": "delete"})
    assert not Secret.objects.exists()


@pytest.mark.parametrize("field", ["name", "address", "value"])
def test_too_much_text_and_unstorable_text_are_refused(field: str) -> None:
    client = signed_in(Right.READ, Right.BOTS)
    params = {"name": "lab", "address": "https://models.example.org", "value": KEY}
    for text in ("x" * 6000, "nul\0", ""):
        assert client.post(SECRETS, {**params, field: text}).status_code == 400, text[:5]
    assert not Secret.objects.exists()


ADDRESS = "/dashboard/settings/tokens/"


def browser(*rights: Right, username: str) -> Client:
    return signed_in(*rights, username=username)


def test_a_token_is_shown_once_and_taken_back() -> None:
    ann, bob = browser(Right.READ, Right.RUN, username="ann"), browser(Right.READ, username="bob")
    empty = ann.get(ADDRESS).content.decode()
    assert "You have no tokens yet" in empty
    assert "http://testserver/api/v1/studies" in empty
    params = {"name": "<b>CI</b>", "rights": ["read", "run"], "days": "30"}
    answer = ann.post(ADDRESS, params)
    assert "no-store" in answer["Cache-Control"]
    [text] = set(re.findall(r"confab_[\w-]{43}", answer.content.decode()))
    program = Client(headers={"authorization": f"Bearer {text}"})
    assert program.get("/api/v1/me").json()["rights"] == ["read", "run"]
    shown = ann.get(ADDRESS).content.decode()
    assert text not in shown
    assert "&lt;b&gt;CI&lt;/b&gt;" in shown
    assert "<b>CI" not in shown

    token = ApiToken.objects.get()
    assert "CI&lt;/b" not in bob.get(ADDRESS).content.decode()
    assert bob.post(f"{ADDRESS}{token.pk}/end/").status_code == 404
    assert ann.post(f"{ADDRESS}{token.pk}/end/").status_code == 302
    assert "Revoked" in ann.get(ADDRESS).content.decode()
    assert program.get("/api/v1/me").status_code == 401


def test_what_cannot_be_is_said_at_its_field() -> None:
    bob = browser(Right.READ, username="bob")
    more = bob.post(ADDRESS, {"name": "x", "rights": ["run"], "days": "0"})
    assert more.status_code == 400
    text = more.content.decode()
    assert "run is not one of the available choices" in text
    assert "greater than or equal to 1" in text
    assert "No token was created" in text
    assert not ApiToken.objects.exists()
