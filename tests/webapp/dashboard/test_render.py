"""Tables in LaTeX and Markdown."""

from __future__ import annotations

from webapp.dashboard.charts.figure import Cell, Header, PageTable
from webapp.dashboard.narrative.phrases import number_cell, span_cell
from webapp.dashboard.render import latex_text, table_latex, table_markdown

TABLE = PageTable(
    [Header("Bot_1 & co"), Header("r", numeric=True), Header("95 %", numeric=True)],
    [
        [Cell("50 % #1 | \\x{y}\n$z$~^"), number_cell(-1 / 3), span_cell(-0.25, 0.5)],
        [Cell("*b*"), number_cell(None, why="constant"), span_cell(None, None, why="constant")],
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
