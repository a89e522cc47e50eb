"""Replies in Markdown in the chat: whole blocks, code that is copied, and nothing wider than the page."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import accessible
from tests.browser.test_participant import begin, replies, say, study
from tests.conftest import ConfabServer

pytestmark = [pytest.mark.browser, pytest.mark.slow]

LONG_LINE = "print(" + ", ".join(f"'a long argument number {n}'" for n in range(12)) + ")"
WIDE = "\n".join(["|" + "|".join(f"column_{n}" for n in range(12)) + "|", "|" + "-|" * 12, "|" + "1|" * 12])
MESSAGE = f"""eggs:

- **two** eggs
- a [pan](https://pan.example/p)

```
{LONG_LINE}
```

{WIDE}

> quoted

![none](https://images.example/x.png)

Done."""


@pytest.mark.parametrize(("width", "scheme"), [(360, "light"), (1366, "dark")])
def test_a_reply_is_shown_by_blocks_and_scrolls_within_itself(
    new_page: Callable[..., Any], test_bots_server: ConfabServer, width: int, scheme: str
) -> None:
    page = new_page(width, 800, color_scheme=scheme)
    requested: list[str] = []
    page.on("request", lambda request: requested.append(request.url))
    rules = {"format": "markdown", "links": "open", "typing_chars_per_s": 400, "max_message_chars": 5000}
    begin(page, test_bots_server, study(test_bots_server, "md", ["test-quick"], **rules))
    say(page, MESSAGE)
    reply = replies(page)
    expect(reply.get_by_text("Done.")).to_be_visible()
    expect(reply.locator("strong")).to_have_text("two")
    link = reply.get_by_role("link", name="pan")
    expect(link).to_have_attribute("rel", "noopener noreferrer nofollow")
    expect(link).to_have_attribute("target", "_blank")
    assert not [url for url in requested if "images.example" in url]
    assert reply.locator("pre").evaluate("node => node.scrollWidth > node.clientWidth")
    for box in ("document.documentElement", "document.querySelector('#log')"):
        assert page.evaluate(f"{box}.scrollWidth <= {box}.clientWidth")
    copy = reply.get_by_role("button", name="Copy")
    copy.click()
    # Without the right to write to the clipboard the code is selected.
    expect(reply.locator(".code-block button")).to_have_text(re.compile("Cop"))
    accessible(page)
