"""W&B: what the offline file holds, and what happens without a login."""

import csv
import json
import math
import struct
import sys
from collections import defaultdict

import numpy as np
import pytest
from conftest import TINY

from jaxmarl_lite.training import runner


def offline_records(folder):
    """The records of the one offline run in a folder, by their type, read from W&B's own file.

    The file is a LevelDB log: a header of 7 bytes, then blocks of 32 KiB holding chunks of
    checksum (4 bytes), length (2), kind (1: whole, 2: first, 3: middle, 4: last) and data.
    """
    from wandb.proto import wandb_internal_pb2

    (path,) = folder.glob("wandb/offline-run-*/run-*.wandb")
    content, position, data = path.read_bytes(), 7, b""
    assert content[:4] == b":W&B"
    records = defaultdict(list)
    while position + 7 <= len(content):
        left_in_block = 32768 - position % 32768
        if left_in_block < 7:
            position += left_in_block
            continue
        _, length, kind = struct.unpack("<IHB", content[position : position + 7])
        data += content[position + 7 : position + 7 + length]
        position += 7 + length
        if kind in (1, 4):
            record = wandb_internal_pb2.Record()
            record.ParseFromString(data)
            records[record.WhichOneof("record_type")].append(getattr(record, record.WhichOneof("record_type")))
            data = b""
    return records


def items(entries):
    return {entry.key or "/".join(entry.nested_key): json.loads(entry.value_json) for entry in entries}


def history_of(records):
    return [items(history.item) for history in records["history"]]


def csv_rows(folder):
    with (folder / "metrics.csv").open(newline="") as file:
        return list(csv.DictReader(file))


CONFIG = TINY | {
    "NUM_STEPS": 20,  # an episode ends in only some of the updates
    "TOTAL_TIMESTEPS": 4 * 20 * 4,
    "NUM_SEEDS": 3,
    "WANDB_MODE": "offline",
    "WANDB_PROJECT": "some_project",
    "WANDB_GROUP": "some_group",
    "WANDB_NAME": "some_name",
    "WANDB_TAGS": ["a", "b"],
    "WANDB_LOG_ALL_SEEDS": True,
}


def test_the_offline_file_equals_the_metrics(baseline, tmp_path):
    folder = tmp_path / "run"
    summary = runner.run(baseline.make_train, CONFIG, "ippo_ff_mpe", folder)
    records = offline_records(folder)
    history = history_of(records)
    (run,) = records["run"]
    config = items(run.config.update)
    assert config["NUM_ENVS"] == 4
    assert config["BASELINE"] == "ippo_ff_mpe"
    assert (run.project, run.run_group, run.display_name) == ("some_project", "some_group", "some_name")
    assert list(run.tags) == ["a", "b"]
    assert any(metric.step_metric == "env_step" for metric in records["metric"])
    stored = {}
    for part in records["summary"]:
        stored |= items(part.update)
    assert stored["return"] == pytest.approx(summary["return"])
    assert stored["steps_per_second"] == pytest.approx(summary["steps_per_second"])

    rows = csv_rows(folder)
    assert len(history) == 4
    empty = 0
    for update, logged in enumerate(history, start=1):
        mine = [row for row in rows if row["update"] == str(update)]
        assert len(mine) == 3
        assert logged["env_step"] == update * 80 == int(mine[0]["env_step"])
        for name in set(mine[0]) - {"update", "seed", "env_step"}:
            values = [float(row[name]) if row[name] else math.nan for row in mine]
            if all(map(math.isnan, values)):
                empty += 1
                assert name not in logged
                continue
            np.testing.assert_allclose(logged[name], np.nanmean(values), rtol=1e-6)
            for seed, value in enumerate(values):
                np.testing.assert_allclose(logged[f"seed_{seed}/{name}"], value, rtol=1e-6)
    assert empty > 0


def test_without_all_seeds_only_the_mean_is_logged(baseline, tmp_path):
    folder = tmp_path / "run"
    runner.run(baseline.make_train, CONFIG | {"WANDB_LOG_ALL_SEEDS": False}, "ippo_ff_mpe", folder)
    history = history_of(offline_records(folder))
    assert len(history) == 4
    assert not any(key.startswith("seed_") for row in history for key in row)


def test_online_without_a_login_goes_on_offline(baseline, tmp_path, capsys):
    folder = tmp_path / "run"
    runner.run(baseline.make_train, CONFIG | {"WANDB_MODE": "online"}, "ippo_ff_mpe", folder)
    assert "W&B: no login found (run `wandb login`), logging offline instead." in capsys.readouterr().out
    history = history_of(offline_records(folder))
    assert len(history) == 4
    assert (folder / "summary.json").exists()


def test_an_online_login_that_fails_goes_on_offline(baseline, tmp_path, capsys, monkeypatch):
    import wandb

    real = wandb.init

    def init(mode, **kwargs):
        if mode == "online":
            raise wandb.errors.CommError("the server said no\nand more")
        return real(mode=mode, **kwargs)

    monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
    monkeypatch.setattr(wandb, "init", init)
    runner.run(baseline.make_train, CONFIG | {"WANDB_MODE": "online"}, "ippo_ff_mpe", tmp_path / "run")
    expected = "W&B: online logging failed (the server said no and more), logging offline instead."
    assert expected in capsys.readouterr().out
    assert (tmp_path / "run" / "summary.json").exists()


def test_disabled_does_not_import_wandb(baseline, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)  # importing it would fail
    runner.run(baseline.make_train, TINY, "ippo_ff_mpe", tmp_path / "run")
    assert not (tmp_path / "run" / "wandb").exists()
