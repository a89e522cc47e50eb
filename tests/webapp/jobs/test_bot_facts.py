"""What is known of bots beside their ratings, and the groups that a hybrid fit is held against."""

from __future__ import annotations

import json
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command

from chatbots.registry import bot_get
from tests.builders import make_conversation, make_study
from webapp.jobs.engine import run_job
from webapp.jobs.selectors.analysis_tables import bot_groups, bot_versions, factors_of, measured_of
from webapp.jobs.services.fits import metric_run_create
from webapp.studies.bot_columns import BotColumns, bot_columns_read
from webapp.studies.models import Study
from webapp.studies.services import bot_columns_store

pytestmark = pytest.mark.django_db


def test_shipped_checkpoints_tell_how_they_were_made() -> None:
    study = make_study(bots=["hred-demo", "vhcr-ei-demo", "eliza"])
    for _ in range(12):  # every bot is drawn
        make_conversation(study)
    versions = bot_versions(study)
    assert {v.bot_id for v in versions} == {"hred-demo", "vhcr-ei-demo", "eliza"}
    factors = factors_of(versions, BotColumns())
    assert factors["EI"] == {"hred-demo": "plain", "vhcr-ei-demo": "EI"}
    assert factors["architecture"] == {"hred-demo": "hred", "vhcr-ei-demo": "vhcr"}
    measured = measured_of(versions, BotColumns())
    figures = bot_get("hred-demo").identity.params["metrics"]
    assert measured["perplexity"]["hred-demo"] == figures["perplexity"] > 1
    assert set(measured["greedy"]) == {"hred-demo", "vhcr-ei-demo"}


def test_the_researchers_table_wins(rated_study: Callable[..., Study]) -> None:
    study = rated_study("k")
    assert bot_groups(study) == {}
    table = "bot,corpus,architecture,perplexity\nbot0,a,x,3\nbot1,a,x,4\nbot2,b,x,5\nbot3,b,x,6\n"
    bot_columns_store(study=study, columns=read(table, study))
    assert bot_groups(study) == {"bot0": "a", "bot1": "a", "bot2": "b", "bot3": "b"}
    assert measured_of([], BotColumns.from_json(study.bot_columns))["perplexity"]["bot3"] == 6
    named = table.replace("perplexity", "group").replace(",3", ",p").replace(",4", ",q")
    named = named.replace(",5", ",p").replace(",6", ",q")
    bot_columns_store(study=study, columns=read(named, study))
    assert bot_groups(study) == {"bot0": "p", "bot1": "q", "bot2": "p", "bot3": "q"}
    alone = "bot,group\nbot0,a\nbot1,b\nbot2,c\nbot3,d\n"  # groups of one say what the bots say
    bot_columns_store(study=study, columns=read(alone, study))
    assert bot_groups(study) == {}


def test_a_fit_is_held_against_the_groups(rated_study: Callable[..., Study]) -> None:
    study = rated_study("k", n_bots=6)
    job = metric_run_create(study=study, metrics=["words", "length", "question"], enqueue=False)
    run_job(job)
    table = "bot,group\nbot0,weak\nbot1,weak\nbot2,weak\nbot3,good\nbot4,good\n"
    bot_columns_store(study=study, columns=read(table, study))
    out = StringIO()
    call_command(
        "fit_hybrid", "--study", "k", "--features", "question_bot,words_user", "--json",
        stdout=out, stderr=StringIO(),
    )  # fmt: skip
    found = json.loads(out.getvalue())
    assert "group" in found["baselines"]
    assert found["within_group"]["r"] is not None
    codes = {one["code"]: one for one in found["verdict"]["findings"]}
    assert codes["within_groups"]["r"] == found["within_group"]["r"]


def read(table: str, study: Study) -> BotColumns:
    return bot_columns_read(table.encode(), study.bots, Path("bots.csv").name)
