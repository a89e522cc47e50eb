"""The import arrows of the house, as one function from a module to its breaches."""

from collections.abc import Iterator

from tests.architecture.source import Module

# Each package may import itself and those named.
PACKAGE_ARROWS: dict[str, set[str]] = {
    "chatbots": set(),
    "evaluation": {"chatbots"},
    "webapp": {"chatbots", "evaluation"},
}
# What the two lower packages must not know.
WEB_LIBRARIES = {"django", "channels", "celery", "kombu", "environ", "csp", "axes", "asgiref"}
# An app imports only apps before it.
APPS = (
    *("core", "audit", "bots", "studies", "conversations", "ratings", "jobs", "search", "results", "transfer"),
    *("pay", "operating", "insights", "participant", "dashboard", "api"),
)
# The three front ends do not know each other.
STRANGERS = ({"participant", "dashboard"}, {"participant", "api"}, {"dashboard", "api"})
# Modules that only wire the rest together: they import any app, and no app imports them.
WIRING = {
    "webapp.asgi",
    "webapp.celery",
    "webapp.command_line",
    "webapp.extension_points",
    "webapp.settings",
    "webapp.urls",
}
# `insights` says what results mean, for every front end; pages, forms and requests are theirs.
PAGES = ("django.forms", "django.http", "django.shortcuts", "django.template", "django.utils.html", "django.views")
# An app's doors are its own.
DOORS = {"views", "consumers", "tasks", "admin", "urls", "routing"}


def is_wiring(name: str) -> bool:
    """Tell whether this is `webapp/asgi.py` or another module that wires the parts together."""
    return any(name == wiring or name.startswith(f"{wiring}.") for wiring in WIRING)


def breaches(module: Module) -> Iterator[str]:
    """Yield a line for every import of the module that points the wrong way."""
    package, _, rest = module.name.partition(".")
    app = rest.partition(".")[0] if package == "webapp" else ""
    for imported in module.imports:
        at = f"{module.where}:{imported.line}"
        target, *path = imported.name.split(".")
        if target in PACKAGE_ARROWS and target not in {package, *PACKAGE_ARROWS[package]}:
            yield f"{at}: {package} must not import {imported.name}"
        if target == "tests":
            yield f"{at}: the product must not import its tests ({imported.name})"
        if package != "webapp" and target in WEB_LIBRARIES:
            yield f"{at}: {package} must not know {target}"
        if app == "insights" and any(f"{imported.name}.".startswith(f"{page}.") for page in PAGES):
            yield f"{at}: insights makes no pages and must not import {imported.name}"
        # Tasks and what sends them have to know Confab's Celery, or a web process would send elsewhere.
        is_door = module.name.endswith((".tasks", ".queue"))
        binds_task = is_door and imported.name == "webapp.celery.app"
        if target == "webapp" and path and not binds_task and not is_wiring(module.name):
            yield from _app_breaches(at, app, imported.name, path)


def _app_breaches(at: str, app: str, name: str, path: list[str]) -> Iterator[str]:
    if is_wiring(name):
        yield f"{at}: {name} is wiring; no app imports it"
        return
    other = path[0]
    if app not in APPS or other not in APPS or other == app:
        return
    if APPS.index(other) > APPS.index(app):
        yield f"{at}: {app} comes before {other} and must not import {name}"
    elif {app, other} in STRANGERS:
        yield f"{at}: the front ends do not know each other ({name})"
    elif DOORS.intersection(path[1:3]):
        yield f"{at}: {name} is a door of {other}; call its services, selectors or models"
