"""`import confab`: a study from files and from self-play, its tables, metrics and fit."""

import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import confab
from evaluation.analysis.raters import analyse_raters
from evaluation.analysis.rating_models import rating_models
from evaluation.hybrid.features import HybridError
from evaluation.hybrid.fit import fit_hybrid
from evaluation.number_format import figure
from tests.conftest import ROOT

CASES = ROOT / "tests" / "cases"


def lines(n_bots: int = 4, n_each: int = 6) -> list[dict]:
    """Make rated conversations: the more words a bot's people write, the better they rate it."""
    rng = np.random.default_rng(3)
    results = []
    for bot in range(n_bots):
        for number in range(n_each):
            n_words = 1 + bot + int(rng.integers(3))
            turns = [
                {"speaker": "human", "text": "word " * n_words + ("?" if number % 2 else ".")},
                {"speaker": "bot", "text": "what do you say?" if number % 3 else "I see.", "vote": 1},
                {"speaker": "human", "text": "well " * (1 + int(rng.integers(2)))},
                {"speaker": "bot", "text": "fine"},
            ]
            rating = {"rater": f"p{bot}{number}", "quality": 1 + bot + int(rng.integers(3)), "fun": 4}
            results.append(
                {
                    "dialogue_id": f"{bot}-{number}",
                    "bot": f"bot-{bot}",
                    "source": "here",
                    "turns": turns,
                    "ratings": [rating],
                }
            )
    return results


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "ratings.jsonl"
    path.write_text("\n".join([*map(json.dumps, lines()), "not json"]))
    return path


def test_a_file_becomes_tables_with_the_columns_of_exports(file: Path) -> None:
    study = confab.read(file)
    assert repr(study) == (
        "Study ratings.jsonl: 24 conversations with 4 bots, 24 ratings on quality, fun; 1 record skipped"
    )
    assert [(s.line, "not JSON" in s.reason) for s in study.skipped] == [(25, True)]
    assert list(study.conversations.columns[:2]) == ["conversation", "bot"]
    assert study.conversations["n_exchanges"].tolist() == [2] * 24
    assert list(study.ratings.columns) == ["conversation", "bot", "rater", "quality", "fun"]
    first = study.messages.iloc[1]
    assert (first["conversation"], first["turn"], first["speaker"], first["vote"]) == (*("0-0", 1, "bot", 1.0),)
    qualities = [line["ratings"][0]["quality"] for line in lines() if line["bot"] == "bot-2"]
    assert f"{np.mean(qualities):.2f}" in study.summary().splitlines()[4]
    part = study.where(bots=["bot-1"])
    assert (len(part), part.bots) == (6, ("bot-1",))
    with pytest.raises(ValueError, match="bot-9"):
        study.where(bots=["bot-9"])


def test_an_id_has_its_source_before_it_where_two_sources_number_alike(tmp_path: Path) -> None:
    one, two = lines()[:2]
    both = [one, {**two, "dialogue_id": one["dialogue_id"], "source": "there"}]
    (tmp_path / "two.jsonl").write_text("\n".join(map(json.dumps, both)))
    study = confab.read(tmp_path / "two.jsonl")
    assert study.conversations["conversation"].tolist() == ["here/0-0", "there/0-0"]


def test_conversations_of_two_bots_that_number_alike_stay_apart() -> None:
    study = confab.read(CASES / "read_ids_restart_per_bot.jsonl")
    assert (len(study), study.bots, len(study.ratings), study.skipped) == (8, ("a", "b"), 8, ())
    assert study.ratings.groupby("bot")["quality"].mean().to_dict() == {"a": 5, "b": 1}
    assert study.conversations["conversation"].tolist()[::4] == ["0/a", "0/b"]


def test_a_key_with_other_turns_is_refused_with_both_lines_and_a_file_twice_is_once(tmp_path: Path) -> None:
    one, two = lines()[:2]
    other = {**two, "dialogue_id": one["dialogue_id"]}
    more = {**one, "ratings": [{"rater": "late", "quality": 2}]}
    path = tmp_path / "x.jsonl"
    path.write_text("\n".join(map(json.dumps, [one, other, one, more])))
    study = confab.read(path)
    assert len(study) == 1
    assert study.ratings["rater"].tolist() == [one["ratings"][0]["rater"], "late"]
    text = "dialogue_id '0-0' of bot 'bot-0' from 'here' has other turns in line 1 than in line 2"
    assert [(skipped.line, skipped.reason) for skipped in study.skipped] == [(2, text)]


def test_no_two_keys_share_a_name(tmp_path: Path) -> None:
    turns = lines()[0]["turns"]
    keys = [("", "x", "a/b"), ("", "x/a", "b"), ("", "x", "c"), ("x", "a", "b")]
    path = tmp_path / "x.jsonl"
    path.write_text(
        "\n".join(
            json.dumps({"source": source, "dialogue_id": name, "bot": bot, "turns": turns})
            for source, name, bot in keys
        )
    )
    assert confab.read(path).conversations["conversation"].nunique() == 4


def test_tables_keep_conversations_of_two_bots_apart_too(tmp_path: Path) -> None:
    text = "conversation,bot,turn,speaker,text\n"
    text += "".join(f"0,{bot},0,human,hi\n0,{bot},1,bot,{bot} here\n" for bot in "ab")
    (tmp_path / "messages.csv").write_text(text + text.partition("\n")[2])
    ratings = tmp_path / "ratings.csv"
    ratings.write_text("conversation,bot,rater,quality\n0,a,x,5\n0,b,x,1\n0,,y,3\n0,c,x,2\n9,a,x,4\n")
    study = confab.read(tmp_path / "messages.csv", ratings)
    assert study.conversations["n_turns"].tolist() == [2, 2]
    assert study.ratings[["bot", "quality"]].values.tolist() == [["a", 5], ["b", 1]]
    assert [(one.line, one.reason) for one in study.skipped] == [
        (4, "a rating of conversation '0', which exists for 'a', 'b'"),
        (5, "a rating of conversation '0' of bot 'c', which exists for 'a', 'b'"),
        (6, "a rating of conversation '9' of bot 'a', which does not exist or was excluded"),
    ]
    (tmp_path / "clash.csv").write_text(text + "0,a,1,bot,something else\n")
    clash = confab.read(tmp_path / "clash.csv")
    assert clash.bots == ("b",)
    assert clash.skipped[0].reason.startswith("chat '0' has turn 1 of the bot twice, with different texts")


def test_answers_in_words_are_no_dimension() -> None:
    study = confab.read(CASES / "messages.csv", CASES / "ratings_text_answer.csv")
    assert (len(study.ratings), study.dimensions) == (8, ("quality",))
    assert study.ratings["quality"].tolist() == [1, 2, 3, 4, 5, 1, 2, 3]


@pytest.mark.parametrize("name", ["messages_turn_as_float.csv", "messages_semicolon.csv"])
def test_a_table_saved_again_by_another_program_reads_the_same(name: str) -> None:
    study = confab.read(CASES / name)
    assert len(study) == 8
    pd.testing.assert_frame_equal(study.messages, confab.read(CASES / "messages.csv").messages)


def test_a_wrong_cell_costs_itself_or_its_conversation_and_is_named(tmp_path: Path) -> None:
    commas = confab.read(CASES / "messages.csv", CASES / "ratings_decimal_comma.csv")
    assert commas.ratings["quality"].tolist() == [3.5] * 8
    assert any("3,5 is read as 3.5" in note for note in commas.notes)
    ratings = (CASES / "ratings_text_answer.csv").read_text()
    path = tmp_path / "ratings.csv"
    for word in ("", "NA", "nan", "None", "<NA>"):
        path.write_text(ratings.replace("c1,b,r1,2", f"c1,b,{word},{word}"))
        read = confab.read(CASES / "messages.csv", path)
        assert read.answers.n_raters == 7
        assert read.ratings["quality"].isna().sum() == 1
    messages = (CASES / "messages.csv").read_text()
    for old, new, told in (
        ("c1,b,0,human", "c1,b,x,human", "turn is 'x'; it must be a number"),
        ("c1,b,0,human", "c1,b,0,nobody", "speaker is 'nobody'; it must be human or bot"),
        ("hello you,1", "hello you,2", "vote is '2'; it must be -1, 0 or 1"),
        ("hello you,1", "hello, you,1", "the row has 7 cells; the header has 6; chat 'c0' is skipped"),
    ):
        (tmp_path / "messages.csv").write_text(messages.replace(old, new, 1))
        study = confab.read(tmp_path / "messages.csv")
        assert len(study) == 7
        assert told in study.skipped[0].reason
    (tmp_path / "messages.csv").write_bytes(messages.replace("hello", "grüß dich").encode("cp1252"))
    western = confab.read(tmp_path / "messages.csv")
    assert "grüß dich" in western.messages["text"][1]
    assert "Windows-1252" in western.notes[0]


def test_names_of_bots_and_texts_stay_as_they_are_written(tmp_path: Path) -> None:
    names = ["007", "7", "1.10", "1.1", "NA", "None", "null", "nan", "true"]
    rows = [
        {"conversation": f"c{i}", "bot": name, "turn": turn, "speaker": speaker, "text": "NA"}
        for i, name in enumerate(names)
        for turn, speaker in enumerate(("human", "bot"))
    ]
    frame = pd.DataFrame(rows)
    frame.to_csv(tmp_path / "m.csv", index=False)
    frame.to_csv(tmp_path / "m16.csv", index=False, encoding="utf-16", sep="\t")
    frame.to_parquet(tmp_path / "m.parquet")
    frame.to_json(tmp_path / "m.jsonl", orient="records", lines=True)
    frame.to_json(tmp_path / "m.json", orient="records", indent=2)
    for path in sorted(tmp_path.iterdir()):
        study = confab.read(path)
        assert study.bots == tuple(sorted(names)), path.name
        assert set(study.messages["text"]) == {"NA"}


@pytest.mark.parametrize("kind", ["conversations", "messages", "items", "ratings"])
@pytest.mark.parametrize("case", ["foreign_chats.jsonl", "rank_arena_words.csv", "array_of_conversations.json"])
def test_a_folder_of_foreign_files_is_no_key_error(tmp_path: Path, kind: str, case: str) -> None:
    path = tmp_path / f"{kind}{'.csv' if case.endswith('.csv') else '.jsonl'}"
    path.write_bytes((CASES / case).read_bytes())
    n_chats = {"array_of_conversations.json": 2, "foreign_chats.jsonl": 3}.get(case)
    if kind in ("conversations", "messages") and n_chats is not None:
        assert len(confab.read(tmp_path)) == n_chats
    else:
        with pytest.raises(ValueError, match=path.name):
            confab.read(tmp_path)


def test_what_holds_no_conversation_says_why(tmp_path: Path) -> None:
    (tmp_path / "none.jsonl").write_text('{"turns": []}\n')
    with pytest.raises(ValueError, match="line 1: turns"):
        confab.read(tmp_path / "none.jsonl")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"neither conversations nor messages"):
        confab.read(tmp_path / "empty")
    pd.DataFrame({"conversation": ["a"], "rater": ["b"]}).to_csv(tmp_path / "ratings.csv")
    with pytest.raises(ValueError, match="raters but no conversations"):
        confab.read(tmp_path / "ratings.csv")
    with pytest.raises(FileNotFoundError):
        confab.read(tmp_path / "missing.jsonl")


def test_a_package_is_read_whole_and_one_that_leads_outside_is_refused(file: Path, tmp_path: Path) -> None:
    packed = tmp_path / "deep" / "package.zip"
    packed.parent.mkdir()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.write(file, "study/conversations.jsonl")
    study = confab.read(packed)
    assert study.ratings.equals(confab.read(file).ratings)
    assert study.name == "package.zip"
    with zipfile.ZipFile(packed, "a") as archive:
        archive.writestr("../outside.txt", "x")
    with pytest.raises(ValueError, match=r"'../outside.txt', a path that leads out of it"):
        confab.read(packed)
    assert not list(tmp_path.rglob("outside.txt"))


def test_metrics_are_computed_once_and_say_what_they_describe(file: Path) -> None:
    study = confab.read(file)
    table = study.metrics(["question", "words"])
    assert list(table.columns[:2]) == ["conversation", "bot"]
    asked = [line["turns"][1]["text"].endswith("?") for line in lines()]
    assert (table["question_bot"] > 0).tolist() == asked
    turns = study.metrics(["question"], level="turn")
    assert list(turns.columns[:3]) == ["conversation", "bot", "turn"]
    assert len(turns) == 4 * 24
    computed = study._computed["question"]
    study.metrics(["question"])
    assert study._computed["question"] is computed
    with pytest.raises(KeyError, match="question"):
        study.metrics(["questoin"])


def test_the_hybrid_metric_of_a_study_is_that_of_its_tables(file: Path) -> None:
    study = confab.read(file)
    result = confab.hybrid(study, features=["words_user", "question_bot"])
    table = study.metrics(["words", "question", "length"])
    values = [line["ratings"][0] for line in lines()]
    table = table.assign(
        quality=[float(r["quality"]) for r in values], fun=4.0, participant=[r["rater"] for r in values]
    )
    expected = fit_hybrid(
        table, features=["words_user", "question_bot"], targets=["quality"], dimensions=["fun"], ratings=study.answers
    )
    mine, theirs = result.to_json(), expected.to_json()
    assert mine["target"] == "quality"
    assert mine["coefficients"] == theirs["coefficients"]
    assert mine["bots"] == theirs["bots"]
    assert result.plot()._repr_svg_().startswith("<svg")
    assert "bot-3" in result.summary()
    assert len(repr(result)) < 300
    reversed_too = confab.read(file, scale=(1, 7), reversed=["fun"])
    assert reversed_too.answers.values("fun").tolist() == [4.0] * 24
    assert confab.read(file, scale=(1, 9), reversed=["fun"]).answers.values("fun")[0] == 6.0
    with pytest.raises(ValueError, match="reversed names 'funny'"):
        confab.read(file, reversed=["funny"])
    with pytest.raises(HybridError, match="rated on quality, fun"):
        confab.hybrid(study, target="beauty")


def test_bots_are_compared_as_on_the_pages(file: Path) -> None:
    study = confab.read(file)
    result = confab.compare(study)
    assert result.dimension.key == "quality"
    assert result.n_pairs == 6
    means = {bot: rows["quality"].mean() for bot, rows in study.ratings.groupby("bot")}
    assert list(result.order) == sorted(means, key=lambda bot: -means[bot])
    worst = result.pair("bot-0", "bot-3")
    assert worst.difference == pytest.approx(means["bot-0"] - means["bot-3"])
    assert "bot-3" in result.summary()
    counts = "5 of 6 pairs clearly different, 0 equal for practical purposes, 1 not yet known"
    assert repr(result) == f"Comparisons of 4 bots by quality: {counts}"
    assert (result.to_json()["n_equal"], result.to_json()["n_not_yet_known"]) == (0, 1)
    svg = result.plot().svg
    assert svg.startswith("<svg")
    matches = re.findall(r'aria-label="(bot-\d) − (bot-\d)\s(\S+)', svg)
    assert len(matches) == 2 * result.n_pairs
    assert study.plot("quality").svg == svg
    assert study.plot("quality", level=0.95).svg == confab.compare(study, "quality", level=0.95).plot().svg != svg
    for a, b, number in matches:
        assert number == figure(means[a] - means[b], 2)
    with pytest.raises(ValueError, match="beauty"):
        confab.compare(study, "beauty")
    with pytest.raises(ValueError, match="has no ratings"):
        confab.compare(confab.selfplay("parrot", conversations=1, turns=2))


def test_when_to_stop_says_why_there_is_no_forecast(file: Path) -> None:
    unknown = confab.when_to_stop(confab.read(file))
    assert unknown.sentence.startswith("No two bots can be compared: the scale is unknown")
    few = confab.when_to_stop(confab.read(file, scale=(1, 7)))
    assert few.summary().endswith("once every bot has 10 raters; the fewest now are 6.")
    assert (few.to_json()["n_pairs"], few.to_json()["pairs"]) == (6, [])
    one_bot = confab.read(file, scale=(1, 7)).where(bots=["bot-0"])
    assert confab.when_to_stop(one_bot).sentence == "No two bots can be compared: there is one bot."


def test_self_play_is_a_study_and_the_same_again(file: Path) -> None:
    played = confab.selfplay(["parrot", "eliza"], conversations=3, turns=4, seed=5)
    assert repr(played) == "Study self-play of parrot, eliza: 6 conversations with 2 bots"
    assert played.conversations["n_turns"].tolist() == [4] * 6
    again = confab.selfplay("eliza", conversations=3, turns=4, seed=5)
    texts = played.messages.loc[played.messages["bot"] == "eliza", "text"]
    assert texts.tolist() == again.messages["text"].tolist()
    assert played.metrics(["question"])["question_user"].notna().any()


@pytest.mark.slow
def test_working_with_a_study_loads_no_django(file: Path) -> None:
    code = (
        "import sys, confab\n"
        f"study = confab.read({str(file)!r})\n"
        "study.metrics(['question']); study.summary(); study.conversations\n"
        "confab.hybrid(study, features=['words_user'])\n"
        "print('django' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.strip() == "False", done.stderr


def test_models_and_raters_of_a_study_are_those_of_its_ratings(file: Path) -> None:
    study = confab.read(file)
    factors = {"corpus": {bot: str(i % 2) for i, bot in enumerate(study.bots)}}
    result = confab.models(study, factors)
    assert result.to_json() == rating_models(study.answers, factors).to_json()
    assert "Analysis of variance" in result.summary()
    raters = confab.raters(study)
    assert raters.to_json(names=True) == analyse_raters(study.answers).to_json(names=True)
    key = study.dimensions[-1]
    assert (confab.models(study, target=key).dimension.key, confab.models(study, target=key).n_questions) == (key, 1)
    of_one = analyse_raters(study.answers.only(key)).to_json(names=True)
    assert confab.raters(study, target=[key]).to_json(names=True) == of_one != raters.to_json(names=True)
    with pytest.raises(ValueError, match="no dimension 'nothing'"):
        confab.raters(study, target="nothing")
    with pytest.raises(ValueError, match="has no ratings, so there is nothing to analyse"):
        confab.models(confab.selfplay(["parrot"], conversations=1, turns=2))


def test_means_are_helped_by_a_metric_of_conversations_that_nobody_rated(tmp_path: Path) -> None:
    result = lines(n_bots=2, n_each=30)
    for number, one in enumerate(result):
        if number % 3:
            one["ratings"] = []
    path = tmp_path / "some.jsonl"
    path.write_text("\n".join(json.dumps(one) for one in result))
    study = confab.read(path)
    helped = confab.powered(study, "words", "words_user", target="quality")
    assert (helped.bots["bot-0"].n, helped.bots["bot-0"].n_unrated) == (10, 20)
    assert helped.bots["bot-1"].mean is not None
    assert "words_user" in helped.sentence
    strict = confab.powered(study, "words", "words_user", target="quality", level=0.95)
    assert (helped.level, strict.level, strict.to_json()["level"]) == (0.9, 0.95, 0.95)
    assert strict.bots["bot-1"].low < helped.bots["bot-1"].low
    with pytest.raises(ValueError, match="column is None; words gives words_user, words_bot"):
        confab.powered(study, "words")
    # Predictions are another scale of the one feature, which changes nothing but the weight.
    three = path.with_name("three.jsonl")
    three.write_text(path.read_text() + "\n".join(json.dumps(line) for line in lines(3, 30)[60:]))
    study = confab.read(three)
    fit = confab.hybrid(study, features=["words_user"], target="quality")
    by_fit, by_words = (confab.powered(study, *by) for by in ((fit,), ("words", "words_user")))
    assert by_fit.bots["bot-0"].mean == pytest.approx(by_words.bots["bot-0"].mean)
    assert by_fit.by == "hybrid"
