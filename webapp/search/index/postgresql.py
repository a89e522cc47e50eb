"""Index in PostgreSQL: a `tsvector` and number rows for each conversation.

Triggers run once per statement. One vector holds all words of a conversation, so that words in different turns match
together, and a common word reads one row per conversation rather than per turn. A separator word between turns prevents
phrases from spanning them. Punctuation becomes spaces first: otherwise the parser would take an address as one word and
drop anything that looks like a tag. Updates lock the conversation's row, so that two simultaneous ratings are both
counted.
"""

from __future__ import annotations

BETWEEN = "xturnoverx"
"""Separator between the words of two turns."""
MOST_CHARACTERS = 250_000
"""Maximum number of searched characters of a conversation; a vector must stay below a megabyte."""

_TALLIED = """INSERT INTO runs_resulttally (study_id, metric, language, n)
        SELECT c.study_id, m.metric_id, m.language, {sign}count(*)
        FROM {source} m JOIN conversations_conversation c ON c.id = m.conversation_id
        WHERE c.state = 'completed' AND c.study_id IS NOT NULL
        GROUP BY c.study_id, m.metric_id, m.language"""

_ANSWERS = """
SELECT r.conversation_id, a.key, (a.value #>> '{}')::float8 AS value
FROM ratings_rating r CROSS JOIN LATERAL jsonb_each(r.answers) AS a
WHERE r.conversation_id = ANY(ids) AND jsonb_typeof(a.value) = 'number'
UNION ALL
SELECT r.conversation_id, 'mean_of_all', avg(
    CASE WHEN d.reversed THEN coalesce(d.low, b.low) + coalesce(d.high, b.high) - v.answer ELSE v.answer END
)
FROM ratings_rating r
JOIN studies_rubric b ON b.id = r.rubric_id
JOIN studies_dimension d ON d.rubric_id = b.id
CROSS JOIN LATERAL (
    SELECT CASE WHEN jsonb_typeof(r.answers -> d.key) = 'number' THEN (r.answers ->> d.key)::float8 END AS answer
) AS v
WHERE r.conversation_id = ANY(ids)
GROUP BY r.id, r.conversation_id HAVING count(*) > 1 AND count(*) = count(v.answer)"""
"""A row for each answer, and one for the mean of a rating's answers, higher values better, if none is missing."""
_SPREADS = f"""
SELECT ranked.conversation_id, ranked.key,
    2 * sum((2 * ranked.place - ranked.n - 1) * ranked.value) / (ranked.n::float8 * (ranked.n - 1)) AS value
FROM (
    SELECT answer.*, count(*) OVER (PARTITION BY answer.conversation_id, answer.key) AS n,
        row_number() OVER (PARTITION BY answer.conversation_id, answer.key ORDER BY answer.value) AS place
    FROM ({_ANSWERS}) AS answer
) AS ranked
WHERE ranked.n > 1 GROUP BY ranked.conversation_id, ranked.key, ranked.n"""
"""Mean absolute difference between two raters of a conversation, from the ordered answers."""

TABLES = (
    r"""
CREATE OR REPLACE FUNCTION reading_words(said text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT regexp_replace(said, '[!-/:-@\[-`{-~]+', ' ', 'g')
$$
""",
    f"""
CREATE OR REPLACE FUNCTION reading_words_renew(ids uuid[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM reading_conversationwords AS w WHERE w.conversation_id = ANY(ids)
        AND NOT EXISTS (SELECT 1 FROM conversations_turn t WHERE t.conversation_id = w.conversation_id)
        AND NOT EXISTS (SELECT 1 FROM ratings_rating r WHERE r.conversation_id = w.conversation_id AND r.comment <> '');
    INSERT INTO reading_conversationwords (conversation_id, document)
    SELECT one.id, to_tsvector('simple', left(
        concat_ws(' {BETWEEN} ', one.said, one.written), {MOST_CHARACTERS}
    ))
    FROM (
        SELECT c.id,
            (SELECT string_agg(reading_words(t.text), ' {BETWEEN} ' ORDER BY t.index)
             FROM conversations_turn t WHERE t.conversation_id = c.id) AS said,
            (SELECT string_agg(reading_words(r.comment), ' {BETWEEN} ' ORDER BY r.id)
             FROM ratings_rating r WHERE r.conversation_id = c.id AND r.comment <> '') AS written
        FROM conversations_conversation c WHERE c.id = ANY(ids)
    ) AS one
    WHERE one.said IS NOT NULL OR one.written IS NOT NULL
    ON CONFLICT (conversation_id) DO UPDATE SET document = EXCLUDED.document;
END $$
""",
    """
CREATE OR REPLACE FUNCTION reading_votes_renew(ids uuid[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF COALESCE(cardinality(ids), 0) = 0 THEN RETURN; END IF;
    PERFORM 1 FROM conversations_conversation WHERE id = ANY(ids) ORDER BY id FOR NO KEY UPDATE;
    INSERT INTO reading_series (kind, name, metric)
    SELECT 'count', one.name, 0 FROM (VALUES ('turns'), ('replies'), ('up'), ('down')) AS one (name)
    WHERE NOT EXISTS (SELECT 1 FROM reading_series s WHERE s.kind = 'count' AND s.name = one.name)
    ON CONFLICT DO NOTHING;
    DELETE FROM reading_figure f USING reading_series s
    WHERE s.id = f.series_id AND s.kind = 'count' AND s.name IN ('turns', 'replies', 'up', 'down')
        AND f.conversation_id = ANY(ids)
        AND NOT EXISTS (SELECT 1 FROM conversations_turn t WHERE t.conversation_id = f.conversation_id);
    INSERT INTO reading_figure (conversation_id, series_id, study_id, value)
    SELECT counted.id, s.id, counted.study_id,
        CASE s.name WHEN 'turns' THEN counted.turns WHEN 'replies' THEN counted.replies
            WHEN 'up' THEN counted.up ELSE counted.down END
    FROM (
        SELECT c.id, c.study_id, count(*) AS turns, count(*) FILTER (WHERE t.speaker = 'bot') AS replies,
            count(*) FILTER (WHERE t.vote = 1) AS up, count(*) FILTER (WHERE t.vote = -1) AS down
        FROM conversations_conversation c JOIN conversations_turn t ON t.conversation_id = c.id
        WHERE c.id = ANY(ids) GROUP BY c.id, c.study_id
    ) AS counted
    JOIN reading_series s ON s.kind = 'count' AND s.name IN ('turns', 'replies', 'up', 'down')
    ON CONFLICT (conversation_id, series_id) DO UPDATE SET value = EXCLUDED.value;
END $$
""",
    """
CREATE OR REPLACE FUNCTION reading_turns_renew(ids uuid[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF COALESCE(cardinality(ids), 0) = 0 THEN RETURN; END IF;
    PERFORM reading_votes_renew(ids);
    PERFORM reading_words_renew(ids);
END $$
""",
    # A new turn is appended to the vector without reading earlier turns.
    f"""
CREATE OR REPLACE FUNCTION reading_turn_append(id uuid, place int, spoken text, who text) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM conversations_conversation c WHERE c.id = reading_turn_append.id FOR NO KEY UPDATE;
    IF EXISTS (SELECT 1 FROM conversations_turn t WHERE t.conversation_id = reading_turn_append.id AND t.index > place)
        OR EXISTS (SELECT 1 FROM ratings_rating r WHERE r.conversation_id = reading_turn_append.id AND r.comment <> '')
    THEN RETURN false; END IF;
    UPDATE reading_conversationwords w
    SET document = w.document || to_tsvector('simple', ' {BETWEEN} ' || reading_words(spoken))
    WHERE w.conversation_id = reading_turn_append.id AND pg_column_size(w.document) < {MOST_CHARACTERS // 2};
    IF NOT FOUND THEN RETURN false; END IF;
    UPDATE reading_figure f SET value = f.value + 1 FROM reading_series s
    WHERE s.id = f.series_id AND f.conversation_id = reading_turn_append.id AND s.kind = 'count'
        AND (s.name = 'turns' OR s.name = 'replies' AND who = 'bot');
    RETURN FOUND;
END $$
""",
    f"""
CREATE OR REPLACE FUNCTION reading_ratings_renew(ids uuid[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF COALESCE(cardinality(ids), 0) = 0 THEN RETURN; END IF;
    PERFORM 1 FROM conversations_conversation WHERE id = ANY(ids) ORDER BY id FOR NO KEY UPDATE;
    INSERT INTO reading_series (kind, name, metric)
    SELECT DISTINCT 'rating', a.key, 0 FROM ({_ANSWERS}) AS a
    WHERE NOT EXISTS (SELECT 1 FROM reading_series s WHERE s.kind = 'rating' AND s.name = a.key)
    UNION SELECT DISTINCT 'spread', a.key, 0 FROM ({_SPREADS}) AS a
    WHERE NOT EXISTS (SELECT 1 FROM reading_series s WHERE s.kind = 'spread' AND s.name = a.key)
    UNION SELECT 'count', 'ratings', 0
    WHERE NOT EXISTS (SELECT 1 FROM reading_series s WHERE s.kind = 'count' AND s.name = 'ratings')
    UNION SELECT 'time', 'rated', 0
    WHERE NOT EXISTS (SELECT 1 FROM reading_series s WHERE s.kind = 'time' AND s.name = 'rated')
    ON CONFLICT DO NOTHING;
    DELETE FROM reading_figure f USING reading_series s
    WHERE s.id = f.series_id AND f.conversation_id = ANY(ids)
        AND (s.kind IN ('rating', 'spread', 'time') OR (s.kind = 'count' AND s.name = 'ratings'));
    INSERT INTO reading_figure (conversation_id, series_id, study_id, value)
    SELECT a.conversation_id, s.id, c.study_id, avg(a.value)
    FROM ({_ANSWERS}) AS a
    JOIN conversations_conversation c ON c.id = a.conversation_id
    JOIN reading_series s ON s.kind = 'rating' AND s.name = a.key AND s.metric = 0
    GROUP BY a.conversation_id, s.id, c.study_id
    UNION ALL
    SELECT a.conversation_id, s.id, c.study_id, a.value
    FROM ({_SPREADS}) AS a
    JOIN conversations_conversation c ON c.id = a.conversation_id
    JOIN reading_series s ON s.kind = 'spread' AND s.name = a.key AND s.metric = 0
    UNION ALL
    SELECT r.conversation_id, s.id, c.study_id,
        CASE s.kind WHEN 'count' THEN count(*) ELSE max(extract(epoch FROM r.updated_at))::float8 END
    FROM ratings_rating r
    JOIN conversations_conversation c ON c.id = r.conversation_id
    JOIN reading_series s ON (s.kind = 'count' AND s.name = 'ratings') OR s.kind = 'time'
    WHERE r.conversation_id = ANY(ids)
    GROUP BY r.conversation_id, s.id, s.kind, c.study_id
    ON CONFLICT (conversation_id, series_id) DO UPDATE SET value = EXCLUDED.value;
END $$
""",
    """
CREATE OR REPLACE FUNCTION reading_dimension_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM reading_ratings_renew((
        SELECT array_agg(DISTINCT conversation_id) FROM ratings_rating
        WHERE rubric_id = NEW.rubric_id AND conversation_id IS NOT NULL
    ));
    RETURN NULL;
END $$
""",
    """
CREATE OR REPLACE FUNCTION reading_costs_renew(ids uuid[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF COALESCE(cardinality(ids), 0) = 0 THEN RETURN; END IF;
    PERFORM 1 FROM conversations_conversation WHERE id = ANY(ids) ORDER BY id FOR NO KEY UPDATE;
    INSERT INTO reading_series (kind, name, metric) SELECT 'count', 'cost', 0
    WHERE NOT EXISTS (SELECT 1 FROM reading_series s WHERE s.kind = 'count' AND s.name = 'cost')
    ON CONFLICT DO NOTHING;
    DELETE FROM reading_figure f USING reading_series s
    WHERE s.id = f.series_id AND s.kind = 'count' AND s.name = 'cost' AND f.conversation_id = ANY(ids);
    INSERT INTO reading_figure (conversation_id, series_id, study_id, value)
    SELECT c.id, s.id, c.study_id, sum(t.cost)
    FROM conversations_conversation c
    JOIN conversations_turn t ON t.conversation_id = c.id AND t.cost IS NOT NULL
    JOIN reading_series s ON s.kind = 'count' AND s.name = 'cost'
    WHERE c.id = ANY(ids) GROUP BY c.id, s.id, c.study_id
    ON CONFLICT (conversation_id, series_id) DO UPDATE SET value = EXCLUDED.value;
END $$
""",
    """
CREATE OR REPLACE FUNCTION reading_cost_changed() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE ids uuid[];
BEGIN
    IF TG_OP = 'INSERT' THEN
        SELECT array_agg(DISTINCT conversation_id) INTO ids FROM fresh WHERE cost IS NOT NULL;
    ELSIF TG_OP = 'DELETE' THEN
        SELECT array_agg(DISTINCT conversation_id) INTO ids FROM gone WHERE cost IS NOT NULL;
    ELSE
        SELECT array_agg(DISTINCT n.conversation_id) INTO ids
        FROM fresh n JOIN gone o ON o.id = n.id WHERE n.cost IS DISTINCT FROM o.cost;
    END IF;
    PERFORM reading_costs_renew(ids);
    RETURN NULL;
END $$
""",
    """
CREATE OR REPLACE FUNCTION reading_fit_renew(fit bigint, residuals jsonb) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM reading_figure f USING reading_series s
    WHERE s.id = f.series_id AND s.kind = 'fit' AND s.metric = fit;
    INSERT INTO reading_series (kind, name, metric) SELECT 'fit', 'residual', fit
    WHERE jsonb_typeof(residuals) = 'object'
        AND NOT EXISTS (SELECT 1 FROM reading_series s WHERE s.kind = 'fit' AND s.metric = fit)
    ON CONFLICT DO NOTHING;
    INSERT INTO reading_figure (conversation_id, series_id, study_id, value)
    SELECT c.id, s.id, c.study_id, abs((v.value #>> '{}')::float8)
    FROM jsonb_each(CASE WHEN jsonb_typeof(residuals) = 'object' THEN residuals ELSE '{}' END) AS v
    JOIN conversations_conversation c ON c.id = v.key::uuid
    JOIN reading_series s ON s.kind = 'fit' AND s.name = 'residual' AND s.metric = fit
    ON CONFLICT (conversation_id, series_id) DO UPDATE SET value = EXCLUDED.value;
END $$
""",
    """
CREATE OR REPLACE FUNCTION reading_fit_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM reading_fit_renew(NEW.id, NEW.predictions -> 'residual');
    RETURN NULL;
END $$
""",
    """
CREATE OR REPLACE FUNCTION reading_results_renew(ids uuid[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF COALESCE(cardinality(ids), 0) = 0 THEN RETURN; END IF;
    PERFORM 1 FROM conversations_conversation WHERE id = ANY(ids) ORDER BY id FOR NO KEY UPDATE;
    INSERT INTO reading_series (kind, name, metric) SELECT 'count', 'results', 0
    WHERE NOT EXISTS (SELECT 1 FROM reading_series s WHERE s.kind = 'count' AND s.name = 'results')
    ON CONFLICT DO NOTHING;
    DELETE FROM reading_figure f USING reading_series s
    WHERE s.id = f.series_id AND s.kind = 'count' AND s.name = 'results' AND f.conversation_id = ANY(ids)
        AND NOT EXISTS (SELECT 1 FROM runs_metricresult m WHERE m.conversation_id = f.conversation_id);
    INSERT INTO reading_figure (conversation_id, series_id, study_id, value)
    SELECT m.conversation_id, s.id, c.study_id, count(*)
    FROM runs_metricresult m
    JOIN conversations_conversation c ON c.id = m.conversation_id
    JOIN reading_series s ON s.kind = 'count' AND s.name = 'results'
    WHERE m.conversation_id = ANY(ids)
    GROUP BY m.conversation_id, s.id, c.study_id
    ON CONFLICT (conversation_id, series_id) DO UPDATE SET value = EXCLUDED.value;
END $$
""",
    """
CREATE OR REPLACE FUNCTION reading_turn_changed() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE ids uuid[]; voted uuid[]; next_one record; n bigint;
BEGIN
    IF TG_OP = 'UPDATE' THEN
        SELECT array_agg(DISTINCT n.conversation_id)
            FILTER (WHERE n.text IS DISTINCT FROM o.text OR n.index <> o.index),
            array_agg(DISTINCT n.conversation_id) FILTER (WHERE n.vote <> o.vote)
        INTO ids, voted FROM fresh n JOIN gone o ON o.id = n.id;
        PERFORM reading_votes_renew(voted);
    ELSIF TG_OP = 'DELETE' THEN
        SELECT array_agg(DISTINCT conversation_id) INTO ids FROM gone;
    ELSE
        SELECT count(*) INTO n FROM fresh;
        IF n = 1 THEN
            SELECT * INTO next_one FROM fresh;
            IF next_one.index > 0 AND next_one.vote = 0
                AND reading_turn_append(next_one.conversation_id, next_one.index, next_one.text, next_one.speaker)
            THEN RETURN NULL; END IF;
        END IF;
        SELECT array_agg(DISTINCT conversation_id) INTO ids FROM fresh;
    END IF;
    PERFORM reading_turns_renew(ids);
    RETURN NULL;
END $$
""",
    """
CREATE OR REPLACE FUNCTION reading_rating_changed() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE ids uuid[]; spoken uuid[];
BEGIN
    IF TG_OP = 'UPDATE' THEN
        SELECT array_agg(DISTINCT n.conversation_id)
            FILTER (WHERE n.answers IS DISTINCT FROM o.answers OR n.updated_at <> o.updated_at
                OR n.rubric_id <> o.rubric_id),
            array_agg(DISTINCT n.conversation_id) FILTER (WHERE n.comment <> o.comment)
        INTO ids, spoken
        FROM fresh n JOIN gone o ON o.id = n.id WHERE n.conversation_id IS NOT NULL;
    ELSIF TG_OP = 'DELETE' THEN
        SELECT array_agg(DISTINCT conversation_id),
            array_agg(DISTINCT conversation_id) FILTER (WHERE comment <> '')
        INTO ids, spoken FROM gone WHERE conversation_id IS NOT NULL;
    ELSE
        SELECT array_agg(DISTINCT conversation_id),
            array_agg(DISTINCT conversation_id) FILTER (WHERE comment <> '')
        INTO ids, spoken FROM fresh WHERE conversation_id IS NOT NULL;
    END IF;
    PERFORM reading_ratings_renew(ids);
    IF COALESCE(cardinality(spoken), 0) > 0 THEN
        PERFORM 1 FROM conversations_conversation WHERE id = ANY(spoken) ORDER BY id FOR NO KEY UPDATE;
        PERFORM reading_words_renew(spoken);
    END IF;
    RETURN NULL;
END $$
""",
    """
CREATE OR REPLACE FUNCTION reading_state_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO runs_resulttally (study_id, metric, language, n)
    SELECT NEW.study_id, m.metric_id, m.language, CASE NEW.state WHEN 'completed' THEN count(*) ELSE -count(*) END
    FROM runs_metricresult m WHERE m.conversation_id = NEW.id GROUP BY m.metric_id, m.language;
    RETURN NULL;
END $$
""",
    f"""
CREATE OR REPLACE FUNCTION reading_metric_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        PERFORM reading_results_renew((SELECT array_agg(DISTINCT conversation_id) FROM fresh));
    ELSIF TG_OP = 'DELETE' THEN
        PERFORM reading_results_renew((SELECT array_agg(DISTINCT conversation_id) FROM gone));
    END IF;
    IF TG_OP <> 'INSERT' THEN
        {_TALLIED.format(sign="-", source="gone")};
    END IF;
    IF TG_OP <> 'DELETE' THEN
        {_TALLIED.format(sign="", source="fresh")};
    END IF;
    IF TG_OP <> 'INSERT' THEN
        DELETE FROM reading_figure f USING gone o, reading_series s
        WHERE f.conversation_id = o.conversation_id AND s.id = f.series_id
            AND s.kind = 'metric' AND s.metric = o.metric_id;
    END IF;
    IF TG_OP <> 'DELETE' THEN
        INSERT INTO reading_series (kind, name, metric)
        SELECT DISTINCT 'metric', v.key, n.metric_id FROM fresh n CROSS JOIN LATERAL jsonb_each(n.values) AS v
        WHERE jsonb_typeof(v.value) = 'number' AND NOT EXISTS (
            SELECT 1 FROM reading_series s WHERE s.kind = 'metric' AND s.name = v.key AND s.metric = n.metric_id
        )
        ON CONFLICT DO NOTHING;
        INSERT INTO reading_figure (conversation_id, series_id, study_id, value)
        SELECT n.conversation_id, s.id, c.study_id, (v.value #>> '{{}}')::float8
        FROM fresh n
        JOIN conversations_conversation c ON c.id = n.conversation_id
        CROSS JOIN LATERAL jsonb_each(n.values) AS v
        JOIN reading_series s ON s.kind = 'metric' AND s.name = v.key AND s.metric = n.metric_id
        WHERE jsonb_typeof(v.value) = 'number'
        ON CONFLICT (conversation_id, series_id) DO UPDATE SET value = EXCLUDED.value;
    END IF;
    RETURN NULL;
END $$
""",
)

_SEEN = {
    "INSERT": "NEW TABLE AS fresh",
    "UPDATE": "OLD TABLE AS gone NEW TABLE AS fresh",
    "DELETE": "OLD TABLE AS gone",
}
TRIGGERS = {
    f"reading_index_{subject}_{event.lower()}": (
        f"CREATE TRIGGER {{name}} AFTER {event} ON {table} REFERENCING {_SEEN[event]}"
        f" FOR EACH STATEMENT EXECUTE FUNCTION reading_{subject}_changed()"
    )
    for subject, table in (
        ("turn", "conversations_turn"),
        ("rating", "ratings_rating"),
        ("metric", "runs_metricresult"),
        ("cost", "conversations_turn"),
    )
    for event in ("INSERT", "UPDATE", "DELETE")
}
TRIGGERS["reading_index_state_update"] = (
    "CREATE TRIGGER {name} AFTER UPDATE OF state ON conversations_conversation FOR EACH ROW"
    " WHEN (NEW.study_id IS NOT NULL AND (OLD.state = 'completed') <> (NEW.state = 'completed'))"
    " EXECUTE FUNCTION reading_state_changed()"
)
TRIGGERS["reading_index_dimension_update"] = (
    "CREATE TRIGGER {name} AFTER UPDATE OF reversed, low, high ON studies_dimension FOR EACH ROW"
    " WHEN (OLD.reversed IS DISTINCT FROM NEW.reversed OR OLD.low IS DISTINCT FROM NEW.low"
    " OR OLD.high IS DISTINCT FROM NEW.high) EXECUTE FUNCTION reading_dimension_changed()"
)
TRIGGERS["reading_index_fit_update"] = (
    "CREATE TRIGGER {name} AFTER INSERT OR UPDATE OF predictions ON runs_hybridfit FOR EACH ROW"
    " EXECUTE FUNCTION reading_fit_changed()"
)
TRIGGERS_THERE = """
SELECT t.tgname, c.relname FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
WHERE t.tgname LIKE %s AND NOT t.tgisinternal AND pg_table_is_visible(c.oid)
"""
RENEW = (
    "DELETE FROM reading_figure",
    "DELETE FROM reading_conversationwords",
    "DELETE FROM runs_resulttally",
    _TALLIED.format(sign="", source="runs_metricresult"),
    """
SELECT reading_turns_renew(part.ids), reading_ratings_renew(part.ids), reading_results_renew(part.ids),
    reading_costs_renew(part.with_cost) FROM (
    SELECT array_agg(id) AS ids, array_agg(id) FILTER (WHERE has_cost) AS with_cost FROM (
        SELECT id, row_number() OVER (ORDER BY id) / 1000 AS number, EXISTS (
            SELECT 1 FROM conversations_turn t WHERE t.conversation_id = c.id AND t.cost IS NOT NULL
        ) AS has_cost
        FROM conversations_conversation c
    ) AS numbered GROUP BY number
) AS part
""",
    "SELECT reading_fit_renew(id, predictions -> 'residual') FROM runs_hybridfit",
    """
INSERT INTO reading_series (kind, name, metric)
SELECT DISTINCT 'metric', v.key, m.metric_id FROM runs_metricresult m CROSS JOIN LATERAL jsonb_each(m.values) AS v
WHERE jsonb_typeof(v.value) = 'number'
ON CONFLICT DO NOTHING
""",
    """
INSERT INTO reading_figure (conversation_id, series_id, study_id, value)
SELECT m.conversation_id, s.id, c.study_id, (v.value #>> '{}')::float8
FROM runs_metricresult m
JOIN conversations_conversation c ON c.id = m.conversation_id
CROSS JOIN LATERAL jsonb_each(m.values) AS v
JOIN reading_series s ON s.kind = 'metric' AND s.name = v.key AND s.metric = m.metric_id
WHERE jsonb_typeof(v.value) = 'number'
ON CONFLICT DO NOTHING
""",
)
AFTER_ERASURE: tuple[str, ...] = ()
