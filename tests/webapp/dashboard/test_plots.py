"""What pages write: plots and tables, plurals, and markup in names as text; labels keep apart."""

import base64
import html
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.template.loader import render_to_string
from django.test import Client
from django.urls import reverse
from django.utils.html import strip_tags
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluation.analysis.comparisons import Comparisons
from evaluation.data.ratings import RatingDimension
from evaluation.data.result_tables import Cell, Header, PageTable, count_cell, declared_table, number_cell, span_cell
from evaluation.metrics.registry import metric_list
from evaluation.plots.charts import ScatterPoint, Weight
from evaluation.plots.marks import bot_icon, bot_number, bot_shape, slots_of
from evaluation.plots.text_layout import shorten
from evaluation.stats.comparisons import Comparison
from evaluation.stats.correlation import Correlation
from evaluation.stats.means import Interval
from evaluation.stats.trajectories import Course
from tests.builders import make_conversation, make_rating, make_study
from tests.webapp.dashboard.test_pages import addresses
from webapp.conversations.models import Turn
from webapp.dashboard.render import LaidOutPart, latex_text, table_latex, table_markdown
from webapp.dashboard.urls import urlpatterns
from webapp.dashboard.views.why import why_parts
from webapp.insights.charts.bots import bots_figure
from webapp.insights.charts.distributions import AnswerDistribution, spread_figure
from webapp.insights.charts.figure import PageFigure
from webapp.insights.charts.lines import LineGroup, LinePanel, lines_figure, with_shared_axes
from webapp.insights.charts.matrix import differences_figure, heatmap_figure
from webapp.insights.charts.scatter import items_figure, predictions_figure, scatter_figure, weights_figure
from webapp.insights.narrative.phrases import Section
from webapp.insights.report_document import chapter_of
from webapp.insights.report_files import report_ask
from webapp.jobs.engine import run_job
from webapp.ratings.selectors import BotInfo
from webapp.results.bot_means import BotSummary, StudySummary
from webapp.studies.models import Study

pytestmark = pytest.mark.django_db


ROOT = Path(__file__).resolve().parents[3]
HOSTILE = '"><script>alert(1)</script>\x07 & \u202e'
QUALITY = RatingDimension("quality", "Quality", 1, 7)
FLUENCY = RatingDimension("fluency", "Fluency", 1, 7)


def summary(titles: list[str], n_dimensions: int = 2) -> StudySummary:
    dimensions = [QUALITY, FLUENCY][:n_dimensions]
    bots = [
        BotSummary(
            BotInfo(f"b{i}", title, i + 1, is_control=i == 1),
            n_conversations=10,
            n_ratings=10,
            intervals={d.key: Interval(6 - i, 5.5 - i, 6.5 - i, 10) for d in dimensions},
            n_replies=30,
            votes_up=5,
            votes_down=2 + i,
        )
        for i, title in enumerate(titles)
    ]
    pair = Comparison("b0", "b1", 1.0, -0.5, 2.5, 0.4, 0.4, False)
    compared = Comparisons(dimensions[0], 0.1, ("b0", "b1"), (), (pair,), 10, 20)
    return StudySummary(dimensions, bots, 0, compared=compared)


def drawings(result: PageFigure) -> list[str]:
    return [result.wide, *(variant.svg for variant in result.narrow)]


def all_figures(name: str) -> list[PageFigure]:
    info = BotInfo("b", name, 1, False)
    return [
        bots_figure(summary([name, name]), lambda bot, dimension: f"/x?bot={bot.bot.bot_id}"),
        scatter_figure(
            [ScatterPoint(name, 1, False, 3.0, (2, 4), 3.5, None, 4, "/x")],
            id="s",
            title=name,
            method="",
            x_title=name,
            y_title=name,
            note=name,
        ),
        weights_figure([Weight(name, 0.1, -0.1, 0.3)], unit=name, id="weights", title=name, method=""),
        spread_figure([AnswerDistribution(info, [1, 2, 0], 2.0)], RatingDimension("q", name, 1, 3), [1, 2, 3]),
        heatmap_figure([name, name], {(0, 1): Correlation(0.5, 0.1, 0.2, 0.7, 9)}, title="", method=""),
    ]


@pytest.mark.parametrize("result", all_figures(HOSTILE), ids=lambda f: f.id)
def test_every_drawing_is_well_formed_and_escaped(result: PageFigure) -> None:
    for svg in drawings(result):
        root = ElementTree.fromstring(svg)  # raises if a quote or a control character got through
        assert root.tag.endswith("svg")
        assert "<script" not in svg
        names = [part.tag for part in root.iter()]
        assert not [name for name in names if name.endswith("script")]
        assert all("style" not in part.attrib for part in root.iter())


def test_marks_stand_where_the_scale_puts_them() -> None:
    svg = bots_figure(summary(["Alpha"], 1), lambda bot, dimension: "/x").narrow[0].svg
    ticks = re.findall(r'<text x="([\d.]+)%" y="16" class="tick middle">([\d.]+)</text>', svg)
    (x0, first), (x1, last) = ([float(value) for value in tick] for tick in (ticks[0], ticks[-1]))
    unit = (x1 - x0) / (last - first)
    [mean] = re.findall(r'<rect x="([\d.]+)%"[^>]*class="mean-tick"', svg)
    assert float(mean) == pytest.approx(x0 + (6 - first) * unit, abs=0.02)
    [(left, width)] = re.findall(r'<rect x="([\d.]+)%" width="([\d.]+)%"[^>]*class="interval"', svg)
    assert float(width) == pytest.approx(unit, abs=0.02)  # from 5.5 to 6.5
    assert float(left) == pytest.approx(x0 + (5.5 - first) * unit, abs=0.02)


def test_marks_of_many_bots_are_all_numbers() -> None:
    assert list(slots_of(8)) == [1, 2, 3, 4, 5, 6, 7, 8]
    assert [bot_number(slot) for slot in slots_of(9)] == [1, 2, 3, 4, 5, 6, 7, 8, 9]
    for slot in slots_of(120):
        tile = ElementTree.fromstring(bot_shape(9, 9, slot))
        assert [e.text for e in tile if e.tag == "text"] == [str(bot_number(slot))]
    assert "bot-16" in bot_shape(9, 9, 116)
    assert "bot-many" in bot_shape(9, 9, 117)
    assert 'viewBox="0 0 18 18"' in bot_icon(101)
    styles = (ROOT / "webapp/dashboard/static/dashboard/dashboard.css").read_text()
    assert all(f".bot-{slot} {{" in styles for slot in range(1, 17))


def test_wide_drawings_cut_no_name_of_24_letters() -> None:
    name = "language_model_persona_2"
    assert len(name) == 24
    spread = AnswerDistribution(BotInfo("b", name, 1, False), [1, 2, 0, 0, 0, 0, 0], 1.6)
    figures = [
        bots_figure(summary([name, "other"]), lambda bot, dimension: "/x"),
        spread_figure([spread], QUALITY, [float(value) for value in range(1, 8)]),
    ]
    for figure in figures:
        assert f">{name}</text>" in figure.wide, figure.id


@pytest.mark.parametrize("n_bots", [3, 9, 16])
def test_every_difference_prints_its_number(n_bots: int) -> None:
    bots = [BotInfo(f"b{i}", f"Bot number {i} of many", i + 1, False) for i in range(n_bots)]
    pairs = {
        (a.bot_id, b.bot_id): Comparison(a.bot_id, b.bot_id, -1.25, -2.0, -0.5, 0.01, 0.02, ordered=True)
        for i, a in enumerate(bots)
        for b in bots[i + 1 :]
    }
    result = differences_figure(bots, pairs, {}, digits=2, title="Differences", method="", level=0.95)

    def numbers(svg: str) -> list[str]:
        result = ElementTree.fromstring(svg)
        return [t.text or "" for t in result.iter() if "step-text" in t.attrib.get("class", "")]

    assert sorted(numbers(result.wide)) == sorted(["−1.25", "1.25"] * (n_bots * (n_bots - 1) // 2))
    in_narrow = [text for variant in result.narrow for text in numbers(variant.svg)]
    assert sorted(in_narrow) == sorted(numbers(result.wide))
    assert all('viewBox="0 0 298 ' in variant.svg for variant in result.narrow)


def test_answer_shares_add_up_in_the_drawing_as_in_the_table() -> None:
    info = BotInfo("b", "Bot", 1, False)
    result = spread_figure([AnswerDistribution(info, [1, 1, 2], 2.25)], RatingDimension("q", "Q", 1, 3), [1, 2, 3])
    assert [cell.text for cell in result.table.rows[0]] == ["Bot", "25 %", "25 %", "50 %", "2.25", "4"]
    widths = [float(w) for w in re.findall(r'width="([\d.]+)%" y="3"', result.wide)]
    assert sum(widths) == pytest.approx(100, abs=0.1)
    assert widths[2] / widths[0] == pytest.approx(2, rel=0.02)


def test_names_of_metrics_stay_apart_where_a_plot_cuts_them() -> None:
    columns = [column for metric in metric_list() for column in metric.columns]
    titles = [column.title for column in columns if column.level == "conversation"]
    coherences = [title for title in titles if "word coherence" in title and "2019" not in title]
    cut = [shorten(title, 110) for title in coherences if " by " not in title]
    assert len(cut) == len(set(cut)) == 3
    one_way = next(title for title in titles if title.startswith("One-way greedy"))
    assert shorten(one_way, 110) not in cut


TABLE = PageTable(
    [Header("Bot_1 & co"), Header("r", numeric=True), Header("95 %", numeric=True)],
    [
        [Cell("50 % #1 | \\x{y}\n$z$~^"), number_cell(-1 / 3), span_cell(-0.25, 0.5)],
        [Cell("*b*"), number_cell(None, reason="constant"), span_cell(None, None, reason="constant")],
    ],
)


def test_latex_is_escaped_and_complete() -> None:
    assert table_latex(TABLE, caption="Mean ± 90 %", label="my_study-r 1") == (
        r"""% \usepackage{booktabs}
\begin{table}
\centering
\caption{Mean $\pm$ 90 \%}
\label{tab:my-study-r-1}
\begin{tabular}{lrr}
\toprule
Bot\_1 \& co & r & 95 \% \\
\midrule
50 \% \#1 \textbar{} \textbackslash{}x\{y\} \$z\$\textasciitilde{}\textasciicircum{} & $-$0.33 & {[}$-$0.25, 0.50] \\
{*}b{*} & -- & -- \\
\bottomrule
\end{tabular}
\par\footnotesize {*}b{*}, r; {*}b{*}, 95 \%: constant
\end{table}
"""
    )
    # A backslash is replaced once, not again with what replaced it.
    assert latex_text("\\{") == r"\textbackslash{}\{"


def test_markdown_is_escaped_and_complete() -> None:
    assert table_markdown(TABLE, caption="a|b") == (
        r"""**a\|b**

| Bot\_1 & co | r | 95 % |
| :--- | ---: | ---: |
| 50 % \#1 \| \\x\{y\} $z$\~^ | −0.33 | \[−0.25, 0.50\] |
| \*b\* | – | – |

- \*b\*, r; \*b\*, 95 %: constant
"""
    )


COUNTED = (
    "answers|bots|chats|columns|conversations|dimensions|exchanges|messages|metrics|pairs|people|persons"
    "|participants|questions|raters|ratings|replies|runs|turns|users|votes|words"
)
WRONG = re.compile(rf"(?<![\d.,:−+-])\b1 (?:(?:rated|completed|scripted|open) )?(?:{COUNTED})\b")


def wrong_in(page: str) -> list[str]:
    """Return the places that tell one thing in the plural, in texts and in attributes."""
    text = html.unescape(re.sub(r"\s+", " ", strip_tags(page)))
    places = [*WRONG.finditer(text), *WRONG.finditer(html.unescape(page))]
    return [f"…{place.string[max(0, place.start() - 40) : place.end()]}" for place in places]


def test_the_search_finds_what_is_wrong() -> None:
    assert wrong_in("<p>by <b>1</b> people</p>") == ["…by 1 people"]
    assert wrong_in('<i title="1 rated bots">') == ['…<i title="1 rated bots']
    assert not wrong_in("11 people, 2.1 words, 1 person, −1 votes, 1 metric")


@pytest.mark.parametrize(("bots", "n_exchanges"), [(["eliza"], 1), (["eliza", "parrot"], 2)])
def test_no_page_tells_one_thing_in_the_plural(staff: Client, bots: list[str], n_exchanges: int) -> None:
    study = make_study("one", bots=bots, min_exchanges=1)
    conversation = make_conversation(study, n_exchanges=n_exchanges)
    Turn.objects.filter(conversation=conversation, index=1).update(vote=1)
    make_rating(conversation)
    scripted = make_conversation(study, n_exchanges=1, is_synthetic=True)
    make_rating(scripted)
    pages = [*addresses(study), *statistics_pages(study)]
    pages += [reverse("participant:entry", args=[study.key]), f"{addresses(study)[0]}?synthetic=1"]
    wrong = {page: result for page in pages if (result := wrong_in(read(staff, page)))}
    assert not wrong


def part_pages(study: Study) -> list[str]:
    """Return the pages of the parts that the study has; the conclusions of the others are on the page of all."""
    return [f"{reverse('dashboard:study_why', args=[study.key])}?part={part}&only" for part in why_parts(study)]


def statistics_pages(study: Study) -> list[str]:
    parts = part_pages(study)
    run_job(report_ask(study=study))
    return [*parts, reverse("dashboard:study_report_file", args=[study.key])]


def read(client: Client, address: str) -> str:
    answer = client.get(address, follow=True)
    assert answer.status_code == 200, address
    return answer.content.decode()


MARKUP = "<b>bold</b>"
NOT_HERE = ("study_people_now", "study_report_file", "study_spread")
"""Parts of pages, and a file that nobody has asked for yet: 404 for this study."""
OF_A_STUDY = [
    pattern.name
    for pattern in urlpatterns
    if pattern.name
    and list(pattern.pattern.converters) == ["key"]
    and "GET" in pattern.callback.rights
    and pattern.name not in NOT_HERE
]


@pytest.fixture
def reader_of_all(tmp_path: Path) -> Client:
    """Return an administrator's browser; the study `m` has a bot and a rater whose names hold markup."""
    lines = [
        {
            "dialogue_id": f"{bot}{number}",
            "bot": bot,
            "source": "made",
            "turns": [{"speaker": "human", "text": f"hello {MARKUP}"}, {"speaker": "bot", "text": f"hi {MARKUP}"}],
            "ratings": [{"rater": f"{MARKUP}{number}", "quality": 1 + number % 5}],
        }
        for bot in (MARKUP, "plain", "third")
        for number in range(6)
    ]
    file = tmp_path / "marked.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)))
    call_command("import_conversations", str(file), "--study", "m")
    client = Client()
    client.force_login(get_user_model().objects.create_superuser(MARKUP, password="a-long-password"))
    return client


def test_names_with_markup_are_text_on_every_page_of_a_study(reader_of_all: Client) -> None:
    n_pages = n_names = 0
    for name in OF_A_STUDY:
        answer = reader_of_all.get(reverse(f"dashboard:{name}", args=["m"]))
        if answer.status_code in (302, 405) or "html" not in answer["Content-Type"]:
            continue
        assert answer.status_code == 200, name
        html = answer.content.decode()
        assert MARKUP not in html, name
        n_pages += 1
        n_names += "&lt;b&gt;bold&lt;/b&gt;" in html
    assert n_pages > 7
    assert n_names > 4, "the names stand on pages, as text"


TEXTS: dict[str, Any] = {"id": "x", "title": "x", "method": "x"}


def axis_ticks(svg: str) -> list[str]:
    return re.findall(r'class="tick(?: end| middle)?">([-\u2212\d.]+)</text>', svg)


def course(*means: float) -> Course:
    line = np.array(means)
    return Course(n=np.full(len(means), 20), mean=line, low=line - 0.1, high=line + 0.1)


def test_figures_of_the_same_measures_share_their_axes() -> None:
    short = [LinePanel("Words", [LineGroup("best", course(1.0, 2.0))])]
    long = [LinePanel("Words", [LineGroup("plain", course(1.0, 5.0, 9.0))]), LinePanel("Votes", [])]
    alone = [axis_ticks(lines_figure(figure, x_title="exchange", **TEXTS).wide) for figure in (short, long[:1])]
    assert alone[0] != alone[1]
    shared = with_shared_axes(short, long)
    results = [axis_ticks(lines_figure(figure[:1], x_title="exchange", **TEXTS).wide) for figure in shared]
    assert results[0] == results[1] == alone[1]


def test_predictions_of_one_page_have_one_range() -> None:
    near = [ScatterPoint("a", 1, False, 3.0, (2.9, 3.1), 3.1, None, 4)]
    far = [ScatterPoint("b", 2, False, None, None, 6.5, (6.0, 7.0), 4)]
    texts = {**TEXTS, "x_title": "people", "y_title": "predicted"}
    alone = axis_ticks(scatter_figure(near, **texts).wide)
    others = [value for point in (*near, *far) for value in point.values]
    scatter = axis_ticks(scatter_figure(near, other_values=others, **texts).wide)
    rows = axis_ticks(predictions_figure(far, (3.0, 3.0), other_values=others, **TEXTS).wide)
    assert set(scatter) != set(alone)
    assert set(scatter) == set(rows) == {"3", "4", "5", "6", "7"}


def test_all_questions_show_the_whole_scale_with_the_leaderboard() -> None:
    near = summary(["Alpha"], 1)
    zoomed, whole = (
        axis_ticks(bots_figure(near, lambda bot, dimension: "/x", is_whole=is_whole).narrow[0].svg)
        for is_whole in (False, True)
    )
    assert whole == [f"{step}" for step in range(1, 8)]
    assert set(zoomed) != set(whole)


def number(label: str) -> float:
    return float(label.replace("−", "-"))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.floats(-1e3, 1e3), st.integers(0, 60)), min_size=1, max_size=12), st.floats(0, 50))
def test_lines_stay_within_their_axes_and_stop_below_twenty(points: list[tuple[float, int]], half: float) -> None:
    mean, n = np.array([point[0] for point in points]), np.array([point[1] for point in points])
    group = LineGroup("all", Course(n=n, mean=mean, low=mean - half, high=mean + half))
    result = lines_figure([LinePanel("Words", [group])], x_title="exchange", **TEXTS)
    assert "at least 20 conversations" in result.marks
    root = ElementTree.fromstring(result.wide)
    ends = [end for part in root.iter() if "grid" in part.get("class", "") for end in (part.get("y1"),)]
    marks = [part for part in root.iter() if part.get("class") == "line-point line-1" and part.get("cx")]
    n_drawn = int((n >= 20).sum())
    drawn = [part for part in marks if float(part.get("r", "0")) and part.get("cy") != "9"]
    legend_marks = 1 if n_drawn else 0
    assert len(drawn) == n_drawn + legend_marks
    assert bool(ends) == bool(n_drawn)
    bands = [part.get("points", "") for part in root.iter() if part.tag.endswith(("polygon", "polyline"))]
    heights = [float(pair.split(",")[1]) for band in bands for pair in band.split()]
    assert all(50 - 1e-6 <= height <= 26 + 214 - 26 - 14 + 1e-6 for height in heights)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.floats(-1e4, 1e4), st.floats(1, 5)), min_size=1, max_size=30))
def test_replies_are_drawn_within_their_axes(points: list[tuple[float, float]]) -> None:
    result = items_figure(points, x="score", y="people", **TEXTS)
    for svg, width in ((result.wide, 620), (result.narrow[0].svg, 298)):
        dots = [part for part in ElementTree.fromstring(svg).iter() if part.get("class") == "item-point"]
        assert len(dots) == len(points)
        assert all(46 <= float(dot.get("cx", "")) <= width - 12 for dot in dots)


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from([(1.0, 5.0), (0.0, 100.0), (-3.0, 3.0)]),
    st.lists(st.tuples(st.floats(0, 1), st.floats(0, 0.5)), min_size=1, max_size=8),
    st.booleans(),
)
def test_bots_stand_at_their_means(
    scale: tuple[float, float], shares: list[tuple[float, float]], is_whole: bool
) -> None:
    low, high = scale
    means = [low + share * (high - low) for share, _half in shares]
    dimension = RatingDimension("q", "Q", low, high)
    bots = [
        BotSummary(
            BotInfo(f"b{i}", "b", i + 1, is_control=False),
            n_conversations=9,
            n_ratings=9,
            intervals={"q": Interval(mean, max(mean - half, low), min(mean + half, high), 9)},
            n_replies=9,
            votes_up=0,
            votes_down=0,
        )
        for i, (mean, (_share, half)) in enumerate(zip(means, shares, strict=True))
    ]
    result = bots_figure(StudySummary([dimension], bots, 0), lambda bot, dimension: "", is_whole=is_whole)
    for svg in drawings(result):
        root = ElementTree.fromstring(svg)
        labels = [part for part in root.iter() if part.get("class") == "tick middle"]
        ticks = [(float(part.get("x", "").rstrip("%")), number(part.text or "")) for part in labels]
        (x0, first), (x1, last) = ticks[0], ticks[-1]
        places = [float(part.get("x", "").rstrip("%")) for part in root.iter() if part.get("class") == "mean-tick"]
        assert len(places) == len(means)
        assert all(0 <= place <= 100 for place in places)
        if x1 > x0:
            read = [first + (place - x0) / (x1 - x0) * (last - first) for place in places]
            assert read == pytest.approx(means, abs=0.01 * (high - low))


def test_captions_of_tables_do_not_speak_of_colours() -> None:
    part = chapter_of(Section("s", "S", figures=[all_figures("x")[0]])).parts[0]
    marked = replace(part, title="How far apart are they?", method="Means with 90 % interval.", marks="Coloured: x.")
    laid_out = LaidOutPart(marked, "study")
    assert laid_out.caption == "How far apart are they? Means with 90 % interval."
    for text in laid_out.texts:
        assert "Coloured" not in base64.b64decode(text.href.partition("base64,")[2]).decode()


def test_a_table_that_scrolls_says_how_many_rows_it_has() -> None:
    def page(n: int) -> str:
        named = declared_table("t", "T", range(n), ("Row", lambda row: count_cell(row)))
        return render_to_string("dashboard/_table.html", {"table": named.table, "caption": "T"})

    assert "90 rows. Scroll within the table to see all of them." in page(90)
    assert "Scroll" not in page(5)
