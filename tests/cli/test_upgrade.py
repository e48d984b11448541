"""``upgrade``: files of earlier releases in the present format."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from kernelstream import load, serialization
from kernelstream.cli.failures import MODEL
from tests.cli.conftest import outcome, run, said

GOLDEN = Path(__file__).parents[1] / "golden" / "version_1"
CASES = ["distance", "monitor_in_an_event", "command_killed_in_the_second_pass", "denoiser"]


@pytest.fixture(params=[name for name in CASES if (GOLDEN / f"{name}.safetensors").exists()])
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "old.safetensors"
    path.write_bytes((GOLDEN / f"{request.param}.safetensors").read_bytes())
    return path


def test_an_old_file_becomes_a_new_one(old: Path, tmp_path: Path) -> None:
    before = outcome("info", old)
    assert (before["format_version"], before["release"]) == (1, "0.1")
    load(old).save(tmp_path / "saved")
    old.chmod(0o640)
    (fact,) = outcome("upgrade", old)["files"]
    assert (fact["before"], fact["after"]) == (1, serialization.VERSION)
    after = outcome("info", old)
    assert after["format_version"] == serialization.VERSION and after["release"] != "0.1"
    differs = {"bytes", "format_version", "release"}
    was, now = (
        json.dumps({name: fact for name, fact in facts.items() if name not in differs})
        for facts in (before, after)
    )
    assert was == now
    assert old.stat().st_mode & 0o777 == 0o640
    load(old).save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "saved").read_bytes()
    assert {path.name for path in tmp_path.iterdir()} == {"old.safetensors", "saved", "again"}


def test_nothing_to_be_done(old: Path) -> None:
    run("upgrade", old)
    data, time = old.read_bytes(), old.stat().st_mtime_ns
    result = run("upgrade", old, old)
    assert " ".join(result.stdout.split()).count("nothing to be done") == 2
    assert old.read_bytes() == data and old.stat().st_mtime_ns == time


def test_a_file_that_is_no_model_stays_as_it_is(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros(3))
    before = (tmp_path / "x.npy").read_bytes()
    assert "not a kernelstream model" in said(run("upgrade", tmp_path / "x.npy", code=MODEL))
    assert "There is no model" in said(run("upgrade", tmp_path / "nothing", code=MODEL))
    assert (tmp_path / "x.npy").read_bytes() == before


def test_people_are_told_of_old_files(old: Path) -> None:
    shown = " ".join(run("info", old).stdout.split())
    assert "format version 1, written by kernelstream 0.1" in shown and "upgrade" in shown
