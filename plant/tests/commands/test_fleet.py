"""``--by``: monitors of a fleet from one file, and one stream of lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from kernelstream.cli.app import app
from kernelstream.cli.failures import DATA, MODEL, USAGE
from kernelstream_plant import MonitorFleet

pytestmark = pytest.mark.usefixtures("ctrl_c_is_heard")
PLACE = {"press": 0.0, "mill": 9.0}
SKIP = ("--on-bad-rows", "skip")


def table(n: int, seed: int, broken: str = "") -> list[dict[str, Any]]:
    """Rows of two machines in turn; the second half of those of a broken one is off."""
    rng = np.random.default_rng(seed)
    rows = []
    for i in range(n):
        name = list(PLACE)[i % 2]
        x = rng.normal(size=3) + PLACE[name]
        x[1] += 8.0 if name == broken and i > n // 2 else 0.0
        rows.append({"machine": name, "heat": x[0], "flow": x[1], "load": x[2]})
    return rows


def run(*words: object, stdin: str | None = None, code: int = 0) -> Any:
    done = CliRunner().invoke(app, list(map(str, words)), input=stdin)
    assert done.exit_code == code, done.stderr or done.stdout
    return done


def ndjson(rows: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.fixture(scope="module")
def normal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("fleet") / "normal.csv"
    rows = table(400, 0)
    text = "machine,heat,flow,load\n" + "".join(
        ",".join(str(value) for value in row.values()) + "\n" for row in rows
    )
    path.write_text(text + "mill,bad,1,2\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("shared", [False, True])
def test_a_monitor_for_each_machine(normal: Path, tmp_path: Path, shared: bool) -> None:
    fleet = tmp_path / "fleet"
    options = ["--by", "machine", "--basis", "20", *SKIP, *["--shared"] * shared]
    done = run("plant", "fit", normal, "-o", fleet, "--json", *options)
    assert json.loads(done.stdout)["machines"] == ["press", "mill"]
    loaded = MonitorFleet.load(fleet)
    assert sorted(loaded) == ["mill", "press"] and (loaded.shared is None) != shared
    assert list(loaded["mill"].feature_names_in_) == ["heat", "flow", "load"]
    rows = table(120, 1, broken="mill")
    del rows[10]["heat"]  # an absent key is a missing value
    del rows[11]["machine"]
    rows[12]["machine"] = "lathe"
    saved = tmp_path / "after"
    words = ("plant", "serve", fleet, "--by", "machine", "--learn", "-o", saved)
    lines = [json.loads(x) for x in run(*words, stdin=ndjson(rows)).stdout.splitlines()]
    assert lines[10]["missing"] == ["heat"] and lines[10]["machine"] == "press"
    assert "names the machine" in lines[11]["error"]
    if shared:
        assert lines[12]["machine"] == "lathe" and "alarm" in lines[12]
    else:
        assert "no monitor of 'lathe'" in lines[12]["error"]
    ends = {line["machine"]: line for line in lines[13:]}
    assert ends["mill"]["event"] and ends["mill"]["top"][0]["variable"] == "flow"
    assert ends["press"]["event"] is None and not ends["press"]["alarm"]
    log = MonitorFleet.load(saved).events
    assert {name for name, _ in log} == {"mill"}


def test_one_monitor_for_all(normal: Path, tmp_path: Path) -> None:
    """The model in a file is shared; what is learned needs a folder."""
    model = tmp_path / "m.safetensors"
    run(
        "fit",
        normal,
        "-o",
        model,
        "--detector",
        "monitor",
        "--basis",
        "20",
        *SKIP,
        "--columns",
        "heat,flow,load",
    )
    stdin = ndjson(table(20, 2))
    lines = run("plant", "serve", model, "--by", "machine", stdin=stdin).stdout.splitlines()
    assert [json.loads(line)["machine"] for line in lines[:2]] == ["press", "mill"]
    failed = run("plant", "serve", model, "--by", "machine", "--learn", stdin=stdin, code=USAGE)
    assert "saved as a folder" in failed.stderr
    failed = run("plant", "serve", tmp_path / "x", "--by", "machine", stdin=stdin, code=MODEL)
    assert "There is no model" in failed.stderr
    empty = tmp_path / "empty"
    empty.mkdir()
    failed = run("plant", "serve", empty, "--by", "machine", stdin=stdin, code=MODEL)
    assert "no fleet was saved there" in failed.stderr


def test_a_fleet_needs_a_new_folder_and_a_known_column(normal: Path, tmp_path: Path) -> None:
    failed = run("plant", "fit", normal, "-o", tmp_path, "--by", "machine", code=USAGE)
    assert "is there already" in failed.stderr
    failed = run("plant", "fit", normal, "-o", tmp_path / "f", "--by", "place", code=DATA)
    assert "place" in failed.stderr
