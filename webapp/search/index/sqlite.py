"""Index in SQLite: FTS5 tables over texts, and numbers as rows.

Triggers run row by row. FTS5 stores the words and reads the texts from their tables, so texts are not stored twice.
"""

from __future__ import annotations

_WORDS = (("reading_turnwords", "conversations_turn", "text"), ("reading_commentwords", "ratings_rating", "comment"))
TABLES = tuple(
    f"CREATE VIRTUAL TABLE IF NOT EXISTS {words} USING fts5("
    f"{column}, content='{table}', content_rowid='id',"
    " tokenize='unicode61 remove_diacritics 0', prefix='3')"
    for words, table, column in _WORDS
)


def _series(kind: str, name: str, metric: str, source: str = "") -> str:
    """Return the statement that adds missing series.

    One name is a quoted value, the others are columns.
    """
    return f"""
INSERT INTO reading_series (kind, name, metric)
SELECT DISTINCT '{kind}', {name}, {metric} {source or "WHERE true"}
    AND NOT EXISTS (
        SELECT 1 FROM reading_series s WHERE s.kind = '{kind}' AND s.name = {name} AND s.metric = {metric}
    );"""


def _count_statements(name: str, increment: str) -> str:
    """Return the statements that update a count of `row`'s conversation.

    Conversations without turns have no counts.
    """
    return f"""{_series("count", f"'{name}'", "0")}
INSERT INTO reading_figure (conversation_id, series_id, study_id, value)
SELECT c.id, s.id, c.study_id, {increment} FROM conversations_conversation c, reading_series s
WHERE c.id = {{row}}.conversation_id AND s.kind = 'count' AND s.name = '{name}'
ON CONFLICT (conversation_id, series_id) DO UPDATE SET value = value + excluded.value;"""


def _turns(sign: str, row: str) -> str:
    statements = "".join(
        _count_statements(name, increment)
        for name, increment in (
            ("turns", f"{sign}1"),
            ("replies", f"{sign}({row}.speaker = 'bot')"),
            ("up", f"{sign}({row}.vote = 1)"),
            ("down", f"{sign}({row}.vote = -1)"),
        )
    )
    return statements.replace("{row}", row)


_NO_TURNS = """
DELETE FROM reading_figure WHERE conversation_id = OLD.conversation_id AND series_id IN (
    SELECT id FROM reading_series WHERE kind = 'count' AND name IN ('turns', 'replies', 'up', 'down')
) AND NOT EXISTS (SELECT 1 FROM conversations_turn t WHERE t.conversation_id = OLD.conversation_id);"""


def _words(words: str, column: str, row: str) -> str:
    if row == "OLD":
        return f"""
INSERT INTO {words} ({words}, rowid, {column}) VALUES ('delete', OLD.id, OLD.{column});"""
    return f"""
INSERT INTO {words} (rowid, {column}) VALUES (NEW.id, NEW.{column});"""


_ANSWERS = "FROM ratings_rating r, json_each(r.answers) AS a WHERE {which} AND a.type IN ('integer', 'real')"
_OWN_ANSWERS = f"SELECT r.conversation_id, a.key, a.value {_ANSWERS}"
_MEANS = """
SELECT r.conversation_id, 'mean_of_all' AS key, avg(
    CASE WHEN d.reversed THEN coalesce(d.low, b.low) + coalesce(d.high, b.high) ELSE 0 END
    + CASE WHEN d.reversed THEN -1 ELSE 1 END * json_extract(r.answers, '$.' || d.key)
) AS value
FROM ratings_rating r
JOIN studies_rubric b ON b.id = r.rubric_id
JOIN studies_dimension d ON d.rubric_id = b.id
WHERE {which}
GROUP BY r.id, r.conversation_id
HAVING count(*) > 1 AND count(*) = sum(json_type(r.answers, '$.' || d.key) IN ('integer', 'real'))"""
"""The mean of each rating's answers, higher values better, if none is missing."""
_SPREADS = f"""
SELECT ranked.conversation_id, ranked.key,
    2.0 * sum((2 * ranked.place - ranked.n - 1) * ranked.value) / (ranked.n * (ranked.n - 1)) AS value
FROM (
    SELECT answer.*, count(*) OVER (PARTITION BY answer.conversation_id, answer.key) AS n,
        row_number() OVER (PARTITION BY answer.conversation_id, answer.key ORDER BY answer.value) AS place
    FROM ({_OWN_ANSWERS} UNION ALL {_MEANS}) AS answer
) AS ranked
WHERE ranked.n > 1 GROUP BY ranked.conversation_id, ranked.key, ranked.n"""
"""Mean absolute difference between two raters of a conversation, from the ordered answers."""


def _figures(kind: str, source: str) -> str:
    """Return statements that store values, given as conversation, key and value, with their series."""
    return f"""{_series(kind, "a.key", "0", f"FROM ({source}) AS a WHERE true")}
INSERT INTO reading_figure (conversation_id, series_id, study_id, value)
SELECT a.conversation_id, s.id, c.study_id, avg(a.value) FROM ({source}) AS a
JOIN conversations_conversation c ON c.id = a.conversation_id
JOIN reading_series s ON s.kind = '{kind}' AND s.name = a.key AND s.metric = 0
WHERE true GROUP BY a.conversation_id, s.id, c.study_id;"""


_RATINGS_SERIES = (
    _series("rating", "a.key", "0", _ANSWERS) + _series("count", "'ratings'", "0") + _series("time", "'rated'", "0")
)
_RATINGS_FIGURES = """
INSERT INTO reading_figure (conversation_id, series_id, study_id, value)
SELECT r.conversation_id, s.id, c.study_id, avg(a.value)
FROM ratings_rating r, json_each(r.answers) AS a
JOIN conversations_conversation c ON c.id = r.conversation_id
JOIN reading_series s ON s.kind = 'rating' AND s.name = a.key AND s.metric = 0
WHERE {which} AND a.type IN ('integer', 'real')
GROUP BY r.conversation_id, s.id, c.study_id;
INSERT INTO reading_figure (conversation_id, series_id, study_id, value)
SELECT r.conversation_id, s.id, c.study_id, count(*)
FROM ratings_rating r
JOIN conversations_conversation c ON c.id = r.conversation_id
JOIN reading_series s ON s.kind = 'count' AND s.name = 'ratings'
WHERE {which}
GROUP BY r.conversation_id, s.id, c.study_id;
INSERT INTO reading_figure (conversation_id, series_id, study_id, value)
SELECT r.conversation_id, s.id, c.study_id,
    strftime('%s', substr(max(r.updated_at), 1, 19)) + CAST('0' || substr(max(r.updated_at), 20) AS REAL)
FROM ratings_rating r
JOIN conversations_conversation c ON c.id = r.conversation_id
JOIN reading_series s ON s.kind = 'time' AND s.name = 'rated'
WHERE {which}
GROUP BY r.conversation_id, s.id, c.study_id;"""
_RATINGS_FIGURES += _figures("rating", _MEANS) + _figures("spread", _SPREADS)


def _ratings(row: str) -> str:
    return _renewed_ratings(f"r.conversation_id = {row}.conversation_id", f"conversation_id = {row}.conversation_id")


def _renewed_ratings(which: str, of_figures: str) -> str:
    return f"""
DELETE FROM reading_figure WHERE {of_figures} AND series_id IN (
    SELECT id FROM reading_series
    WHERE kind IN ('rating', 'spread', 'time') OR (kind = 'count' AND name = 'ratings')
);{_RATINGS_SERIES.replace("{which}", which)}{_RATINGS_FIGURES.replace("{which}", which)}"""


_COSTS = """
SELECT t.conversation_id, 'cost' AS key, sum(t.cost) AS value FROM conversations_turn t
WHERE {which} AND t.cost IS NOT NULL GROUP BY t.conversation_id"""
_COST_GONE = """
DELETE FROM reading_figure WHERE conversation_id = {row}.conversation_id AND series_id IN (
    SELECT id FROM reading_series WHERE kind = 'count' AND name = 'cost'
)"""


def _cost_statements() -> str:
    costs = _COSTS.replace("{which}", "t.conversation_id = NEW.conversation_id")
    return f"{_COST_GONE.replace('{row}', 'NEW')};{_figures('count', costs)}"


# Only change an existing cost: a conversation's numbers may be deleted before its turns.
_COST_LOST = f"""
UPDATE reading_figure SET value = value - OLD.cost WHERE conversation_id = OLD.conversation_id AND series_id IN (
    SELECT id FROM reading_series WHERE kind = 'count' AND name = 'cost'
);{_COST_GONE.replace("{row}", "OLD")} AND NOT EXISTS (
    SELECT 1 FROM conversations_turn t WHERE t.conversation_id = OLD.conversation_id AND t.cost IS NOT NULL
);"""
_RESIDUAL_SERIES = _series(
    "fit",
    "'residual'",
    "p.id",
    "FROM runs_hybridfit p WHERE {which} AND json_type(p.predictions, '$.residual') = 'object'",
)
_RESIDUAL_FIGURES = """
INSERT INTO reading_figure (conversation_id, series_id, study_id, value)
SELECT c.id, s.id, c.study_id, abs(v.value)
FROM runs_hybridfit p, json_each(p.predictions, '$.residual') AS v
JOIN conversations_conversation c ON c.id = replace(v.key, '-', '')
JOIN reading_series s ON s.kind = 'fit' AND s.name = 'residual' AND s.metric = p.id
WHERE {which};"""
_RESIDUALS = """
DELETE FROM reading_figure
WHERE series_id IN (SELECT id FROM reading_series WHERE kind = 'fit' AND metric = NEW.id);""" + (
    _RESIDUAL_SERIES + _RESIDUAL_FIGURES
).replace("{which}", "p.id = NEW.id")
_METRIC_GONE = """
DELETE FROM reading_figure WHERE conversation_id = OLD.conversation_id AND series_id IN (
    SELECT id FROM reading_series WHERE kind = 'metric' AND metric = OLD.metric_id
);"""
_METRIC_SERIES = _series(
    "metric",
    "v.key",
    "m.metric_id",
    "FROM runs_metricresult m, json_each(m.\"values\") AS v WHERE {which} AND v.type IN ('integer', 'real')",
)
_METRIC_FIGURES = """
INSERT INTO reading_figure (conversation_id, series_id, study_id, value)
SELECT m.conversation_id, s.id, c.study_id, v.value
FROM runs_metricresult m, json_each(m."values") AS v
JOIN conversations_conversation c ON c.id = m.conversation_id
JOIN reading_series s ON s.kind = 'metric' AND s.name = v.key AND s.metric = m.metric_id
WHERE {which} AND v.type IN ('integer', 'real');"""
_METRIC = (_METRIC_SERIES + _METRIC_FIGURES).replace("{which}", "m.id = NEW.id")

_RESULT_GONE = """
UPDATE reading_figure SET value = value - 1 WHERE conversation_id = OLD.conversation_id AND series_id IN (
    SELECT id FROM reading_series WHERE kind = 'count' AND name = 'results'
);
DELETE FROM reading_figure WHERE conversation_id = OLD.conversation_id AND value = 0 AND series_id IN (
    SELECT id FROM reading_series WHERE kind = 'count' AND name = 'results'
);"""


def _tallied(row: str, sign: str) -> str:
    """Return statements that change the tally of results by one.

    They update in place, since SQLite has one writer.
    """
    chat = f"""FROM conversations_conversation c
WHERE c.id = {row}.conversation_id AND c.state = 'completed' AND c.study_id IS NOT NULL"""
    same = f"t.metric = {row}.metric_id AND t.language = {row}.language"
    return f"""
INSERT INTO runs_resulttally (study_id, metric, language, n)
SELECT c.study_id, {row}.metric_id, {row}.language, 0 {chat} AND NOT EXISTS (
    SELECT 1 FROM runs_resulttally t WHERE t.study_id = c.study_id AND {same}
);
UPDATE runs_resulttally SET n = n {sign} 1 WHERE id = (
    SELECT min(t.id) FROM runs_resulttally t WHERE t.study_id = (SELECT c.study_id {chat}) AND {same}
);"""


_STATE_CHANGED = """
INSERT INTO runs_resulttally (study_id, metric, language, n)
SELECT NEW.study_id, m.metric_id, m.language, CASE NEW.state WHEN 'completed' THEN count(*) ELSE -count(*) END
FROM runs_metricresult m
WHERE m.conversation_id = NEW.id AND NEW.study_id IS NOT NULL
    AND (OLD.state = 'completed') <> (NEW.state = 'completed')
GROUP BY m.metric_id, m.language;"""

_TURN, _COMMENT = _WORDS
_DONE = {
    ("turn", "INSERT"): _words(_TURN[0], "text", "NEW") + _turns("+", "NEW"),
    ("turn", "UPDATE OF text, vote"): _words(_TURN[0], "text", "OLD")
    + _words(_TURN[0], "text", "NEW")
    + _turns("-", "OLD")
    + _turns("+", "NEW"),
    ("turn", "DELETE"): _words(_TURN[0], "text", "OLD")
    # Decrement existing counts only: a conversation's numbers may be deleted before its turns.
    + """
UPDATE reading_figure SET value = value - (
    SELECT CASE s.name WHEN 'turns' THEN 1 WHEN 'replies' THEN OLD.speaker = 'bot'
        WHEN 'up' THEN OLD.vote = 1 ELSE OLD.vote = -1 END
    FROM reading_series s WHERE s.id = series_id
) WHERE conversation_id = OLD.conversation_id AND series_id IN (
    SELECT id FROM reading_series WHERE kind = 'count' AND name IN ('turns', 'replies', 'up', 'down')
);"""
    + _NO_TURNS,
    ("rating", "INSERT"): _words(_COMMENT[0], "comment", "NEW") + _ratings("NEW"),
    ("rating", "UPDATE OF answers, comment, updated_at, rubric_id"): _words(_COMMENT[0], "comment", "OLD")
    + _words(_COMMENT[0], "comment", "NEW")
    + _ratings("NEW"),
    ("rating", "DELETE"): _words(_COMMENT[0], "comment", "OLD") + _ratings("OLD"),
    ("metric", "INSERT"): _METRIC + _count_statements("results", "1").replace("{row}", "NEW") + _tallied("NEW", "+"),
    ("metric", 'UPDATE OF "values", language, metric_id'): _METRIC_GONE
    + _METRIC
    + _tallied("OLD", "-")
    + _tallied("NEW", "+"),
    ("metric", "DELETE"): _METRIC_GONE + _RESULT_GONE + _tallied("OLD", "-"),
    ("state", "UPDATE OF state"): _STATE_CHANGED,
    ("cost", "INSERT"): _cost_statements(),
    ("cost", "UPDATE OF cost"): _cost_statements(),
    ("cost", "DELETE"): _COST_LOST,
    ("dimension", "UPDATE OF reversed, low, high"): _renewed_ratings(
        "r.conversation_id IS NOT NULL AND r.rubric_id = NEW.rubric_id",
        "conversation_id IN (SELECT o.conversation_id FROM ratings_rating o WHERE o.rubric_id = NEW.rubric_id)",
    ),
    ("fit", "INSERT"): _RESIDUALS,
    ("fit", "UPDATE OF predictions"): _RESIDUALS,
}
_OF = {
    "turn": _TURN[1],
    "rating": _COMMENT[1],
    "metric": "runs_metricresult",
    "state": "conversations_conversation",
    "cost": _TURN[1],
    "dimension": "studies_dimension",
    "fit": "runs_hybridfit",
}
_WHEN = {
    "cost": {
        "INSERT": "WHEN NEW.cost IS NOT NULL",
        "UPDATE": "WHEN OLD.cost IS NOT NEW.cost",
        "DELETE": "WHEN OLD.cost IS NOT NULL",
    },
    "dimension": {
        "UPDATE": "WHEN OLD.reversed IS NOT NEW.reversed OR OLD.low IS NOT NEW.low OR OLD.high IS NOT NEW.high"
    },
}
TRIGGERS = {
    f"reading_index_{subject}_{event.split()[0].lower()}": (
        f"CREATE TRIGGER {{name}} AFTER {event} ON {_OF[subject]}"
        f" {_WHEN.get(subject, {}).get(event.split()[0], '')} BEGIN{done}\nEND"
    )
    for (subject, event), done in _DONE.items()
}
TRIGGERS_THERE = "SELECT name, tbl_name FROM sqlite_master WHERE type = 'trigger' AND name LIKE %s"


def _all(statements: str) -> tuple[str, ...]:
    """Return statements about all rows that match `which`."""
    split = statements.replace("{which}", "true").split(";")
    return tuple(statement for statement in split if statement.strip())


RENEW = (
    "DELETE FROM reading_figure",
    "DELETE FROM runs_resulttally",
    """
INSERT INTO runs_resulttally (study_id, metric, language, n)
SELECT c.study_id, m.metric_id, m.language, count(*)
FROM runs_metricresult m JOIN conversations_conversation c ON c.id = m.conversation_id
WHERE c.state = 'completed' AND c.study_id IS NOT NULL
GROUP BY c.study_id, m.metric_id, m.language""",
    *(f"INSERT INTO {words} ({words}) VALUES ('rebuild')" for words, _table, _column in _WORDS),
    *_all("".join(_series("count", f"'{name}'", "0") for name in ("turns", "replies", "up", "down"))),
    """
INSERT INTO reading_figure (conversation_id, series_id, study_id, value)
SELECT c.id, s.id, c.study_id,
    CASE s.name WHEN 'turns' THEN count(*) WHEN 'replies' THEN sum(t.speaker = 'bot')
        WHEN 'up' THEN sum(t.vote = 1) ELSE sum(t.vote = -1) END
FROM conversations_turn t
JOIN conversations_conversation c ON c.id = t.conversation_id
JOIN reading_series s ON s.kind = 'count' AND s.name IN ('turns', 'replies', 'up', 'down')
GROUP BY c.id, s.id, s.name, c.study_id""",
    *_all(_RATINGS_SERIES + _RATINGS_FIGURES),
    *_all(_figures("count", _COSTS)),
    *_all(_RESIDUAL_SERIES + _RESIDUAL_FIGURES),
    *_all(_METRIC_SERIES + _METRIC_FIGURES + _series("count", "'results'", "0")),
    """
INSERT INTO reading_figure (conversation_id, series_id, study_id, value)
SELECT c.id, s.id, c.study_id, count(*)
FROM runs_metricresult m
JOIN conversations_conversation c ON c.id = m.conversation_id
JOIN reading_series s ON s.kind = 'count' AND s.name = 'results'
GROUP BY c.id, s.id, c.study_id""",
)
AFTER_ERASURE = tuple(f"INSERT INTO {words} ({words}) VALUES ('optimize')" for words, _table, _column in _WORDS)
