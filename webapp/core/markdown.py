"""Markdown as HTML: CommonMark with tables, without active content.

HTML in a text is shown as written, and so is mathematics: `$…$`, `$$…$$`, and text in escaped brackets. An image
becomes its description and address. Headings start at the third level, because pages have two of their own.

Top-level blocks are independent, because references are not resolved. So the blocks of a growing text can be shown as
soon as they close.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, MutableMapping, Sequence
from functools import lru_cache
from html import unescape
from itertools import islice
from typing import Any

import nh3
from django.utils import translation
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from markdown_it.utils import OptionsDict

from webapp.core.language import locale_of

# The parser's time grows with the number of possible marks. The text after the maximum is shown as written.
MAX_CHARS = 10_000
MAX_MARKS = 2_000
MAX_CELLS = 2_000
_MARK = re.compile(r"[\[\]*_`<&\\!~|>#+$\n-]")
# Quotes and lists at the start of a line. The parser drops anything nested deeper than its own limit.
_OPENINGS = re.compile(r"^(?:[ \t>]|[-*+](?=[ \t]|$)|\d{1,9}[.)](?=[ \t]|$))+", re.MULTILINE)
_MAX_OPENING_CHARS = 24
_MAX_NESTING = 30

_MATH = re.compile(
    r"\$\$.{1,1000}?\$\$|\$(?!\s)[^$\n]{1,500}(?<!\s)\$(?!\d)|\\\(.{1,1000}?\\\)|\\\[.{1,1000}?\\\]", re.DOTALL
)
_MATH_CLOSINGS = {"$$": "$$", "\\[": "\\]"}
_HTTP = ("http://", "https://")
_TAGS = {
    *("p", "br", "hr", "h3", "h4", "h5", "h6", "ul", "ol", "li", "blockquote", "pre", "code", "em", "strong", "s", "a"),
    *("div", "table", "thead", "tbody", "tr", "th", "td"),
}
_CLEANER = nh3.Cleaner(
    tags=_TAGS,
    attributes={"a": {"href"}, "ol": {"start"}, "pre": {"tabindex"}, "div": {"tabindex"}},
    allowed_classes={
        "div": {"code-block", "table-scroll"},
        "p": {"math"},
        "th": {"at-center", "at-right"},
        "td": {"at-center", "at-right"},
    },
    set_tag_attribute_values={"a": {"target": "_blank"}},
    url_schemes={"http", "https", "mailto"},
    link_rel="noopener noreferrer nofollow",
)
_WITHOUT_TAGS = nh3.Cleaner(tags=set())


def _math_inline(state: StateInline, silent: bool) -> bool:
    """Treat an inline formula as text."""
    if state.src[state.pos] not in "$\\" or not (formula := _MATH.match(state.src, state.pos, state.posMax)):
        return False
    if not silent:
        state.push("text", "", 0).content = formula.group()
    state.pos = formula.end()
    return True


def _math_block(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Treat a formula with delimiters on separate lines as text.

    An unclosed one extends to the end.
    """
    lines = (state.src[state.bMarks[n] + state.tShift[n] : state.eMarks[n]].strip() for n in range(start, end))
    closing = _MATH_CLOSINGS.get(next(lines))
    if closing is None:
        return False
    if not silent:
        last = next((n for n, line in enumerate(lines, start + 1) if line == closing), end - 1)
        state.line = last + 1
        token = state.push("math_block", "p", 0)
        token.map = [start, state.line]
        token.content = state.getLines(start, state.line, state.blkIndent, False)
    return True


class _Renderer(RendererHTML):
    """Renderer of parsed tokens.

    `env["links_as_text"]` writes the address of a link after its text.
    """

    def math_block(self, tokens: Sequence[Token], idx: int, *_rest: Any) -> str:
        return f'<p class="math">{escape(tokens[idx].content)}</p>\n'

    def image(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: MutableMapping[str, Any]) -> str:
        alt = self.renderInlineAsText(tokens[idx].children, options, env)
        return escape(f"{alt} ({tokens[idx].attrs['src']})".strip())

    def link_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: MutableMapping[str, Any]) -> str:
        return "" if env["links_as_text"] else self.renderToken(tokens, idx, options, env)

    def link_close(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: MutableMapping[str, Any]) -> str:
        if not env["links_as_text"]:
            return "</a>"
        opened = next(n for n in range(idx, -1, -1) if tokens[n].type == "link_open")
        address = str(tokens[opened].attrs["href"])
        return "" if tokens[opened].info == "auto" else f" ({escape(address)})"

    def code_block(self, tokens: Sequence[Token], idx: int, *_rest: Any) -> str:
        return f'<div class="code-block"><pre tabindex="0"><code>{escape(tokens[idx].content)}</code></pre></div>\n'

    def fence(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: MutableMapping[str, Any]) -> str:
        return self.code_block(tokens, idx)

    def table_open(self, *_rest: Any) -> str:
        return '<div class="table-scroll" tabindex="0"><table>\n'

    def table_close(self, *_rest: Any) -> str:
        return "</table></div>\n"

    def heading_open(self, tokens: Sequence[Token], idx: int, *_rest: Any) -> str:
        return f"<{_lower_heading(tokens[idx].tag)}>"

    def heading_close(self, tokens: Sequence[Token], idx: int, *_rest: Any) -> str:
        return f"</{_lower_heading(tokens[idx].tag)}>\n"

    def td_open(self, tokens: Sequence[Token], idx: int, *_rest: Any) -> str:
        alignment = str(tokens[idx].attrs.get("style", "")).removeprefix("text-align:")
        return f'<{tokens[idx].tag} class="at-{alignment}">' if alignment else f"<{tokens[idx].tag}>"

    th_open = td_open


def _lower_heading(tag: str) -> str:
    return f"h{min(6, int(tag[1:]) + 2)}"


def _parser(*, is_link: Any) -> MarkdownIt:
    parser = MarkdownIt(
        "commonmark", {"html": False, "breaks": True, "maxNesting": _MAX_NESTING}, renderer_cls=_Renderer
    )
    parser.enable(["table", "strikethrough"]).disable(["reference", "html_block", "html_inline"])
    parser.inline.ruler.before("escape", "math", _math_inline)
    parser.block.ruler.before("fence", "math_block", _math_block, {"alt": ["paragraph", "blockquote", "list"]})
    parser.validateLink = is_link  # type: ignore[method-assign]
    return parser


_REPLIES = _parser(is_link=lambda url: url.lower().startswith(_HTTP))
_PAGES = _parser(is_link=lambda url: url.lower().startswith((*_HTTP, "mailto:")))


def page_html(text: str) -> SafeString:
    """Return the HTML of a researcher's text.

    Its links may also be mail addresses.
    """
    blocks = _blocks(_PAGES, text, links_as_text=False)
    return mark_safe("".join(html for _line, html in blocks))  # noqa: S308  cleaned


@lru_cache(maxsize=1024)
def reply_html(text: str, *, links_as_text: bool, language: str) -> SafeString:
    """Return the HTML of a bot's reply.

    A reply beyond the limits ends as written, after a sentence about this.

    Args:
        language: language of that sentence.
    """
    head, rest = _within_limits(text)
    blocks = [html for _line, html in _blocks(_REPLIES, head, links_as_text=links_as_text)]
    if rest.strip():
        with translation.override(locale_of(language)):
            notice = _("The rest of this reply is shown without formatting.")
        blocks.append(f"<p>{escape(notice)}</p>\n")
        blocks.append(f'<p class="math">{escape(rest.strip())}</p>\n')
    return mark_safe("".join(blocks))  # noqa: S308  cleaned, or escaped


def without_marks(text: str) -> str:
    """Return the words of a reply in Markdown, as metrics read them.

    Each line, item or cell is one line.
    """
    head, rest = _within_limits(text)
    html = "".join(html for _line, html in _blocks(_REPLIES, head, links_as_text=False))
    words = unescape(_WITHOUT_TAGS.clean(html))
    return re.sub(r"\s*\n\s*", "\n", f"{words}\n{rest}").strip()


class BlockStream:
    """HTML of a growing reply.

    Each block is returned once, when a later line shows that it has closed.
    """

    def __init__(self, *, links_as_text: bool) -> None:
        self._links_as_text = links_as_text
        self._n_read = self._n_done = self._n_head = 0

    def add(self, text: str) -> str:
        """Return the HTML of newly closed blocks.

        `text` is the whole reply so far.
        """
        n_lines_end = text.rfind("\n") + 1
        # Do not parse a growing block again for each line: that would take quadratic time.
        if n_lines_end <= self._n_read + (self._n_read - self._n_done) // 10:
            return ""
        self._n_read = n_lines_end
        head, _rest = _within_limits(text[:n_lines_end])
        if len(head) == self._n_head:  # beyond the limits
            return ""
        self._n_head = len(head)
        open_text = head[self._n_done :]
        blocks = list(_blocks(_REPLIES, open_text, links_as_text=self._links_as_text))
        if len(blocks) < 2:
            return ""
        last_line = blocks[-1][0]
        self._n_done += sum(len(line) + 1 for line in open_text.split("\n")[:last_line])
        return "".join(html for _line, html in blocks[:-1])


def _within_limits(text: str) -> tuple[str, str]:
    """Return the text in two parts: parsed, and beyond the limits."""
    text = re.sub(r"\r\n?", "\n", text)  # lines as the parser counts them
    ends = [MAX_CHARS]
    ends += [mark.start() for mark in islice(_MARK.finditer(text, 0, MAX_CHARS), MAX_MARKS, MAX_MARKS + 1)]
    for opening in _OPENINGS.finditer(text, 0, MAX_CHARS):
        if len(opening.group()) >= _MAX_OPENING_CHARS and opening.group().strip():
            ends.append(opening.start())
            break
    lines = text[: min(ends)].split("\n")
    widths = [line.count("|") for line in lines]
    if max(widths) * len(lines) > MAX_CELLS:
        ends.append(sum(len(line) + 1 for line in lines[: widths.index(max(widths))]))
    end = min(ends)
    return text[:end], text[end:]


def _blocks(parser: MarkdownIt, text: str, *, links_as_text: bool) -> Iterator[tuple[int, str]]:
    """Yield the top-level blocks: first line number and HTML."""
    env = {"links_as_text": links_as_text}
    tokens, begin, depth = parser.parse(text, env), 0, 0
    for n, token in enumerate(tokens, start=1):
        depth += token.nesting
        if depth == 0 and token.level == 0:
            lines = tokens[begin].map
            assert lines is not None, "top-level tokens know their lines"
            html = parser.renderer.render(tokens[begin:n], parser.options, env)
            yield lines[0], _CLEANER.clean(html)
            begin = n
