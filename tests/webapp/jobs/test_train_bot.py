"""`train_bot`: a config in, a checkpoint and the paper's table out; mistakes in one line."""

import json
import math
import os
import signal
import subprocess
import sys
import time
from io import StringIO
from pathlib import Path

import pytest
import yaml
from django.core.management import CommandError, call_command

from chatbots.checkpoints import checkpoint_load
from chatbots.training import loop
from chatbots.training.run_folder import STATE_FILE as STATE
from tests.chatbots.training.builders import DATA, SIZES, corpus_write
from tests.conftest import ROOT


@pytest.fixture
def config_file(tmp_path: Path) -> Path:
    values = {
        "name": "tiny",
        "model": "hred",
        "sizes": SIZES["hred"],
        "data": DATA,
        "optimiser": {"batch_size": 8, "max_batches": 2},
        "held_out": {"max_windows": 4, "max_replies": 2},
    }
    path = corpus_write(tmp_path) / "tiny.yaml"
    path.write_text(yaml.safe_dump(values))
    return path


def train(config: Path, *args: str) -> tuple[str, str]:
    out, err = StringIO(), StringIO()
    where = ("--output", str(config.parent / "out"))
    call_command("train_bot", str(config), *where, *args, stdout=out, stderr=err)
    return out.getvalue(), err.getvalue()


def test_it_trains_prints_the_table_and_reports_the_same_again(config_file):
    out, err = train(config_file)
    assert out.splitlines()[0].split() == ["Model", "Version", "PPL", "KL", "Avg", "Ext", "Grd"]
    assert out.splitlines()[2].split()[:2] == ["HRED", "baseline"]
    assert "target tokens per second" in err
    document = json.loads(train(config_file, "--json")[0])
    assert set(document) == {"checkpoint", "epochs", "best"}
    assert document["epochs"] == 1
    assert f"{document['best']['perplexity']:.3f}" in out
    model, _, _ = checkpoint_load(document["checkpoint"])
    assert model.config.H_d == SIZES["hred"]["H_d"]


def test_a_process_killed_in_the_middle_loses_nothing(config_file, tmp_path, vector_cache):
    values = yaml.safe_load(config_file.read_text())
    values |= {
        "optimiser": {"batch_size": 2, "max_batches": 80, "epochs": 50},
        "keeping": {"log_every": 10, "save_every": 5},
    }
    config_file.write_text(yaml.safe_dump(values))
    (tmp_path / "cache").symlink_to(vector_cache)

    command = [sys.executable, "manage.py", "train_bot", str(config_file), "--output"]
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "webapp.settings.embedded", "CONFAB_DATA_DIR": str(tmp_path)}
    killed = subprocess.Popen([*command, str(tmp_path / "out")], cwd=ROOT, env=environment, stderr=subprocess.DEVNULL)
    state = tmp_path / "out" / "tiny" / STATE
    while not state.exists() and killed.poll() is None:
        time.sleep(0.005)
    killed.send_signal(signal.SIGKILL)
    assert killed.wait() == -signal.SIGKILL  # not finished before
    # Another process goes on from what is on the disk, and trains the whole beside it.
    train(config_file)
    call_command(
        "train_bot", str(config_file), "--output", str(tmp_path / "whole"), stdout=StringIO(), stderr=StringIO()
    )
    weights = [(tmp_path / output / "tiny" / "best" / "model.safetensors").read_bytes() for output in ("out", "whole")]
    assert weights[0] == weights[1]


def test_mistakes_are_one_line_before_any_work(config_file):
    values = yaml.safe_load(config_file.read_text())
    wrong = {"optimizer": {}, "sizes": {"E": 0}, "keeping": {"log_every": "often"}}
    config_file.write_text(yaml.safe_dump(values | wrong))
    with pytest.raises(CommandError) as caught:
        train(config_file)
    assert caught.value.returncode == 1
    text = str(caught.value)
    assert text.startswith(f"{config_file}: 3 mistakes: (1) sizes.E is 0; it must be")
    assert "(2) keeping.log_every is 'often'; it must be a whole number" in text
    assert "(3) optimizer is an unknown key; did you mean optimiser? Allowed: name, model" in text
    config_file.write_text(yaml.safe_dump(values))
    with pytest.raises(CommandError, match=r"path is 'small\.jsonl', but there is no .*--data"):
        train(config_file, "--data", str(config_file.parent / "elsewhere"))
    assert not (config_file.parent / "out").exists()


def test_another_config_in_the_same_folder_is_refused(config_file):
    train(config_file)
    values = yaml.safe_load(config_file.read_text())
    config_file.write_text(yaml.safe_dump(values | {"seed": 3}))
    with pytest.raises(CommandError, match=r"another config.*--restart"):
        train(config_file)
    assert "PPL" in train(config_file, "--restart")[0]


def test_what_a_config_starts_from_is_trained_first_and_the_result_shipped(config_file):
    values = yaml.safe_load(config_file.read_text())
    then = config_file.parent / "then.yaml"
    then.write_text(yaml.safe_dump(values | {"name": "then", "start": {"weights": "tiny"}}))
    shipped = config_file.parent / "shipped"
    _, err = train(then, "--ship", str(shipped))
    assert "then starts from tiny, which is trained first" in err
    assert "trained first" not in train(then)[1]
    assert checkpoint_load(shipped / "then")[2].dtype == "float16"
    card = (shipped / "then" / "CARD.md").read_text()
    assert "from the weights of `tiny`, a plain HRED" in card
    assert f"train_bot {then} --data FOLDER --ship {shipped}" in card


def test_a_base_is_laid_under_the_config(config_file):
    plain = json.loads(train(config_file, "--json")[0])["checkpoint"]
    checkpoint = json.loads(train(config_file, "--base", "compat-2019", "--json")[0])["checkpoint"]
    assert Path(checkpoint).parent.name == "tiny-compat-2019"  # beside the one without
    assert checkpoint_load(checkpoint)[0].config.compat_inert_dropout
    assert not checkpoint_load(plain)[0].config.compat_inert_dropout
    with pytest.raises(CommandError, match=r"'compat-2018', but there is no such file.*compat-2019"):
        train(config_file, "--base", "compat-2018")


def test_batches_that_were_left_out_are_told_at_the_end(config_file, monkeypatch):
    values = yaml.safe_load(config_file.read_text())
    changed = {"model": "vhred", "sizes": SIZES["vhred"]}
    config_file.write_text(yaml.safe_dump(values | changed))
    monkeypatch.setattr(loop, "kl_weight", lambda step, _: math.nan if step == 0 else 1.0)
    assert "gradient was not finite: 1 (at most 10)" in train(config_file)[1]
