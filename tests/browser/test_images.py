"""An image in a chat: chosen by keyboard or finger, taken back, described, sent, and read again on the form."""

import io
from collections.abc import Callable
from typing import Any

import pytest
from PIL import Image
from playwright.sync_api import expect

from tests.browser.conftest import accessible
from tests.browser.test_participant import begin, replies, study
from tests.conftest import ConfabServer

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def test_an_image_is_sent_with_a_message(new_page: Callable[..., Any], test_bots_server: ConfabServer) -> None:
    file = io.BytesIO()
    Image.new("RGB", (900, 600), "teal").save(file, "PNG")
    image = {"name": "field.png", "mimeType": "image/png", "buffer": file.getvalue()}
    page = new_page(360, 800, color_scheme="light")
    begin(page, test_bots_server, study(test_bots_server, "img", ["test-quick"], images=True))
    choose = page.get_by_label("Add an image")
    choose.focus()
    expect(choose).to_be_focused()
    choose.set_input_files({"name": "page.png", "mimeType": "image/png", "buffer": b"<html>"})
    expect(page.get_by_role("alert").filter(has_text="could not be read as an image")).to_be_visible()
    described = page.get_by_label("Describe the image (optional)")
    for is_removed in (True, False):  # it can be chosen again
        choose.set_input_files(image)
        expect(described).to_be_visible()
        accessible(page)
        if is_removed:
            page.get_by_role("button", name="Remove").press("Enter")
            expect(described).to_be_hidden()
            expect(choose).to_be_focused()
    described.fill("A teal field")
    page.get_by_role("button", name="Send").click()
    by_role = page.get_by_role("img", name="A teal field")
    expect(by_role).to_be_visible()
    expect(replies(page)).to_contain_text("Reply 1 to:")
    expect(described).to_be_hidden()
    page.reload()
    expect(by_role).to_be_visible()
    assert by_role.evaluate("node => node.naturalWidth") == 900
    for width, scheme in ((360, "light"), (1366, "dark")):
        page.set_viewport_size({"width": width, "height": 800})
        page.emulate_media(color_scheme=scheme)
        assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
        accessible(page)
