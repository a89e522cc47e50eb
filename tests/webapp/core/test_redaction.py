"""What stands in logs."""

from __future__ import annotations

import io
import logging
import logging.config

from django.conf import settings

from webapp.core.logs import LINE_MAX_CHARS


def test_a_traceback_of_any_text_is_written() -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    given = settings.LOGGING["formatters"]["line"]
    formatter = logging.config.DictConfigurator({}).configure_formatter(dict(given))
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter)
    try:
        raise ValueError("half \ud83d of a pair and \x00" + "x" * 100_000)
    except ValueError as error:
        record = logging.LogRecord(
            "webapp", logging.ERROR, __file__, 1, "it failed", None, (type(error), error, None)
        )
    handler.handle(record)
    stream.flush()
    written = stream.buffer.getvalue().decode()
    assert "ERROR webapp: it failed" in written
    assert "half \ufffd of a pair and xxx" in written
    assert "\x00" not in written
    assert len(written) <= LINE_MAX_CHARS + 1


def test_no_line_is_written_of_each_request() -> None:
    assert not logging.getLogger("uvicorn.access").isEnabledFor(logging.INFO), "addresses carry ids"
