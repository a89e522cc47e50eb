"""Login throttling: forged addresses, many addresses, and an administrator who is not kept out."""

from datetime import timedelta
from typing import Any

import pytest
from axes.models import AccessFailureLog
from django.conf import settings as django_settings
from django.contrib.auth import get_user_model
from django.test import Client, RequestFactory
from django.urls import reverse

from webapp.core.authentication import ACCOUNT_LIMIT, client_address

pytestmark = pytest.mark.django_db
RIGHT = "a-long-password"


@pytest.fixture(autouse=True)
def admin() -> None:
    get_user_model().objects.create_superuser("admin", password=RIGHT)


def attempt(client: Client, password: str, address: str, username: str = "admin", **more: Any) -> int:
    """Return the status of a login: 302 it worked, 200 wrong, 429 not looked at."""
    data = {"username": username, "password": password}
    return client.post(reverse("login"), data, REMOTE_ADDR=address, **more).status_code


def test_a_forged_address_does_not_get_around_the_limit() -> None:
    statuses = [
        attempt(Client(), "wrong", "10.0.0.1", HTTP_X_FORWARDED_FOR=f"203.0.113.{n}")
        for n in range(django_settings.AXES_FAILURE_LIMIT + 1)
    ]
    assert statuses[-1] == 429
    assert attempt(Client(), RIGHT, "10.0.0.1", HTTP_X_FORWARDED_FOR="203.0.113.99") == 429
    assert attempt(Client(), RIGHT, "10.0.0.2") == 302


@pytest.mark.parametrize(
    ("n_proxies", "header", "address"),
    [
        (0, "203.0.113.9", "10.0.0.1"),
        (1, "203.0.113.9", "203.0.113.9"),
        (1, "6.6.6.6, 203.0.113.9", "203.0.113.9"),
        (2, "6.6.6.6, 203.0.113.9, 10.0.0.7", "203.0.113.9"),
        (2, "203.0.113.9", "10.0.0.1"),
        (1, "", "10.0.0.1"),
        (1, "' OR 1=1", "10.0.0.1"),
        (1, "2001:db8::1", "2001:db8::1"),
    ],
)
def test_proxies_are_heard_where_they_are_declared(settings: Any, n_proxies: int, header: str, address: str) -> None:
    settings.CONFAB_PROXY_COUNT = n_proxies
    request = RequestFactory().get("/", REMOTE_ADDR="10.0.0.1", HTTP_X_FORWARDED_FOR=header)
    assert client_address(request) == address


def test_no_proxy_is_declared_unless_somebody_does() -> None:
    assert django_settings.CONFAB_PROXY_COUNT == 0


def attack(n: int) -> list[int]:
    """Try wrong passwords, each from an address of its own, and return the statuses."""
    return [attempt(Client(), "wrong", f"10.1.{i // 250}.{i % 250}") for i in range(n)]


def test_many_addresses_share_the_limit_of_an_account() -> None:
    statuses = attack(ACCOUNT_LIMIT + 20)
    assert statuses == [200] * ACCOUNT_LIMIT + [429] * 20
    assert attempt(Client(), RIGHT, "10.9.9.9") == 429
    # What is refused unseen does not make it longer, and is not stored.
    assert AccessFailureLog.objects.count() == ACCOUNT_LIMIT
    AccessFailureLog.objects.update(
        attempt_time=AccessFailureLog.objects.earliest("attempt_time").attempt_time - timedelta(hours=1)
    )
    assert attempt(Client(), RIGHT, "10.9.9.9") == 302


def test_an_account_under_attack_lets_in_who_has_signed_in_before_and_other_accounts() -> None:
    get_user_model().objects.create_user("other", password=RIGHT, is_staff=True)
    mine = Client()
    assert attempt(mine, RIGHT, "10.2.0.1") == 302
    remembered = mine.cookies["confab_browser"].value
    mine_after = Client()
    mine_after.cookies["confab_browser"] = remembered
    attack(ACCOUNT_LIMIT + 5)
    assert attempt(Client(), RIGHT, "10.2.0.2") == 429
    assert attempt(mine_after, RIGHT, "10.2.0.3") == 302  # from a new address even
    assert attempt(Client(), RIGHT, "10.2.0.4", username="other") == 302
    forged = Client()
    forged.cookies["confab_browser"] = "ImFkbWluIg:1xxxxx:forged"
    assert attempt(forged, RIGHT, "10.2.0.5") == 429
    # The browser of one account is nobody to another, and its own wrong passwords are limited too.
    others = Client()
    attempt(others, RIGHT, "10.2.0.6", username="other")
    assert attempt(others, RIGHT, "10.2.0.7") == 429
    known = Client()
    known.cookies["confab_browser"] = remembered
    tries = [attempt(known, "wrong", "10.2.0.8") for _ in range(django_settings.AXES_FAILURE_LIMIT + 1)]
    assert tries[-1] == 429


def test_a_lock_is_not_made_longer_by_trying_on() -> None:
    for _ in range(django_settings.AXES_FAILURE_LIMIT + 30):
        attempt(Client(), "wrong", "10.3.0.1")
    assert AccessFailureLog.objects.count() == django_settings.AXES_FAILURE_LIMIT


@pytest.mark.parametrize("address", ["/login/", "/admin/login/", "/dashboard/"])
def test_staff_sign_in_and_out_in_confabs_own_pages(address: str) -> None:
    client = Client()
    asked = client.get(address, follow=True)
    assert asked.templates[0].name == "core/login.html"
    assert "Django" not in asked.content.decode()
    response = client.post("/login/", {"username": "admin", "password": "no"}, REMOTE_ADDR="10.0.0.5")
    assert "Please enter the correct" in response.content.decode()
    data = {"username": "admin", "password": RIGHT, "next": "/dashboard/bots/"}
    right = client.post("/login/", data, REMOTE_ADDR="10.0.0.5")
    assert right["Location"] == "/dashboard/bots/"
    assert client.get("/login/")["Location"] == "/dashboard/"
    assert client.get("/logout/").status_code == 405
    out = client.post("/logout/", follow=True)
    assert out.templates[0].name == "core/login.html"
    assert client.get("/dashboard/").status_code == 302


def test_who_is_no_staff_is_told_so() -> None:
    get_user_model().objects.create_user("guest", password=RIGHT)
    data = {"username": "guest", "password": RIGHT}
    answer = Client().post("/login/", data, REMOTE_ADDR="10.0.0.6")
    assert answer.status_code == 200
    assert "staff account" in answer.content.decode()
