"""Markdown of bots: what is shown, what is taken away, and blocks of a reply that still grows."""

import random
from html.parser import HTMLParser

import pytest
from markdown_it import MarkdownIt

from webapp.core.markdown import MAX_CHARS, BlockStream, page_html, reply_html, without_marks

REPLY = """Three ideas:
- **bold**, *leaning*, `code` and ~~gone~~
  - nested
1. [link](https://example.org/a?b=1&c=2)

```python
a_1 = b * 2 < 3
```

| a | b |
|---|--:|
| 1 | 2 |

> quoted
> twice
"""


def shown(text: str, *, links_as_text: bool = False) -> str:
    return reply_html(text, links_as_text=links_as_text, language="en")


class _Parts(HTMLParser):
    """Collects the tags and attributes of HTML."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[tuple[str, str | None]] = set()
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes.update(attrs)


def test_a_reply_has_lists_emphasis_code_tables_and_quotes() -> None:
    html = shown(REPLY)
    assert "<li><strong>bold</strong>, <em>leaning</em>, <code>code</code> and <s>gone</s>" in html
    assert '<div class="code-block"><pre tabindex="0"><code>a_1 = b * 2 &lt; 3\n</code></pre></div>' in html
    assert '<div class="table-scroll" tabindex="0"><table>' in html
    assert '<td class="at-right">2</td>' in html
    assert "<blockquote>\n<p>quoted<br>\ntwice</p>\n</blockquote>" in html


def test_links_are_text_or_open_beside_the_study() -> None:
    link = '<a href="https://example.org/a?b=1&amp;c=2" target="_blank" rel="noopener noreferrer nofollow">link</a>'
    assert link in shown(REPLY)
    assert "<li>link (https://example.org/a?b=1&amp;c=2)</li>" in shown(REPLY, links_as_text=True)
    assert shown("<https://example.org>", links_as_text=True) == "<p>https://example.org</p>\n"


@pytest.mark.parametrize(
    "text",
    [
        "[a](javascript:alert(1))",
        "[a](JaVaScRiPt:alert(1))",
        "[a](data:text/html;base64,PHNjcmlwdD4=)",
        "[a](mailto:a@example.org)",
        "[a](/logout/)",
        "[a](//evil.example)",
        "![a](https://evil.example/a.png)",
        "![a](x.png 'b\" onerror=alert(1) x=\"')",
        "<script>alert(1)</script><img src=x onerror=alert(1)>",
        '<a href="https://evil.example" onclick="x()">a</a>',
        "<style>*{display:none}</style>",
        "[a]: https://evil.example\n\n[a]",
        "# a {#main}\n\n```html onload=x\n</code></pre><script>\n```",
        '|a|\n|:-:|\n|<b style="x">|',
        "&lt;script&gt; &#x3C;script&#x3E;",
    ],
)
@pytest.mark.parametrize("links_as_text", [False, True])
def test_nothing_acts_loads_or_leads_elsewhere(text: str, links_as_text: bool) -> None:
    parts = _Parts(shown(text, links_as_text=links_as_text))
    assert not parts.tags & {"script", "img", "style", "a", "b", "iframe"}
    assert {name for name, _value in parts.attributes} <= {"class", "tabindex"}


def test_an_image_is_its_description_and_address() -> None:
    assert shown("![two *cats*](https://a.example/b.png)") == "<p>two cats (https://a.example/b.png)</p>\n"


@pytest.mark.parametrize("formula", ["$a_1 * b_2 * c_3$", "$$x_1 *y* z_2$$", r"\(x_1 *y* z_2\)", r"\[x_1 *y* z_2\]"])
def test_mathematics_stays_as_written(formula: str) -> None:
    assert shown(f"So {formula} holds.") == f"<p>So {formula} holds.</p>\n"


def test_a_formula_of_several_lines_stays_as_written() -> None:
    assert shown("Then\n$$\na\n- b\n$$\nholds.") == ('<p>Then</p>\n<p class="math">$$\na\n- b\n$$</p>\n<p>holds.</p>\n')
    assert shown("It costs $5 or *about* $6.") == "<p>It costs $5 or <em>about</em> $6.</p>\n"


def test_words_without_marks_are_those_that_a_plain_parser_finds() -> None:
    words = "Three ideas: bold, leaning, code and gone nested link a_1 = b * 2 < 3 a b 1 2 quoted twice"
    assert " ".join(without_marks(REPLY).split()) == words
    # Of text without marks nothing is taken; of CommonMark's own parse the same words are left.
    assert without_marks("Just 3 < 4 & so on; a_b_c, 5 * 6.") == "Just 3 < 4 & so on; a_b_c, 5 * 6."
    text = "# A\n\nfoo *bar* **baz** `q`\n\n1. one\n2. two\n\n> three"
    inline = [token for token in MarkdownIt().parse(text) if token.type == "inline"]
    words = [child.content for token in inline for child in token.children or () if child.content]
    assert without_marks(text).split() == " ".join(words).split()


_LINES = [
    *("- a\n", "* b\n", "1. c\n", "2) d\n", "\n", "\n\n", "para ", "text\n", "| a | b |\n", "|---|--:|\n", "```\n"),
    *("    code\n", "> q\n", "# h\n", "---\n", "===\n", "$$\n", "  x\n", "   - n\n", "**b** ", "[l](http://a.b) "),
    *("\\[\n", "\\]\n", "~~~py\n", "<b>\n", "\t", "[x]: http://c.d\n", "\r\n", "\r", "\x0b\u2028"),
]


@pytest.mark.parametrize("seed", range(20))
def test_blocks_as_they_close_begin_the_whole_reply(seed: int) -> None:
    drawn = random.Random(seed)
    for _n in range(20):
        text = "".join(drawn.choice(_LINES) for _part in range(drawn.randint(1, 14)))
        stream = BlockStream(links_as_text=False)
        assert shown(text).startswith("".join(stream.add(text[:end]) for end in range(len(text) + 1))), repr(text)


def test_a_block_comes_when_the_next_one_has_begun() -> None:
    stream = BlockStream(links_as_text=True)
    assert stream.add("One **two") == ""
    assert stream.add("One **two**\n\nThree") == ""
    assert stream.add("One **two**\n\nThree\n") == "<p>One <strong>two</strong></p>\n"
    assert stream.add("One **two**\n\nThree\n- four\n") == "<p>Three</p>\n"


_BOMBS = ["[", "![", "*a ", "_*", ">", "- ", "> - ", "[a](", "a**b", "$", "\\(", "1. a\n", "|", "a\n\n", "&", "\t- a\n"]


@pytest.mark.parametrize("sign", _BOMBS)
def test_what_passes_the_limits_is_shown_as_written(sign: str) -> None:
    text = sign * (100_000 // len(sign))
    html = shown(text)
    assert "The rest of this reply is shown without formatting." in html
    assert html.count("<") < 10_000
    assert without_marks(text).count(sign.strip()) >= without_marks(text[MAX_CHARS:]).count(sign.strip())


def test_a_huge_table_and_deep_nesting_are_shown_as_written() -> None:
    wide = "|" + "a|" * 60 + "\n|" + "-|" * 60 + "\n" + "b\n" * 3000
    assert "<td>" not in shown(wide)
    deep = "first\n\n" + "".join("  " * n + "- a\n" for n in range(100))
    assert shown(deep).count("<ul>") < 15
    assert shown(deep).count("- a") > 80  # nothing is lost
    images = "![" * 400 + "](http://b)" * 400
    assert "<img" not in shown(images)


def test_a_sentence_about_the_rest_speaks_the_language_of_the_study() -> None:
    assert "Der Rest dieser Antwort" in reply_html("[" * 9000, links_as_text=True, language="de")


def test_a_researchers_text_may_open_a_mail_and_begins_headings_below_the_pages() -> None:
    html = page_html("# Form\n\n[Write](mailto:lab@example.org), <b>or</b> not.")
    assert "<h3>Form</h3>" in html
    assert 'href="mailto:lab@example.org"' in html
    assert "&lt;b&gt;or&lt;/b&gt;" in html
    assert page_html("  ") == ""
