"""Messages name the options of the command line in the place of parameters."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from kernelstream.cli.wording import of_shell
from tests.cli.conftest import run, said

# Parameters that have an option, and names of exceptions.
PYTHON = re.compile(
    r"\b(?:[A-Z]\w*Error|n_components|random_state|batch_size|n_epochs|on_bad_rows)"
)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--components 0", "--components must be an integer of at least 1, a share"),
        ("--components 1.5", "got 1.5"),
        ("--gamma -1", "gamma must be a positive number"),
        ("--gamma auto --kernel poly", "--gamma auto compares widths of a kernel of the distance"),
        ("--gamma auto --kernel 'rbf(gamma=2)'", "needs the name of a kernel that has a gamma"),
        ("--kernel 'poly(degree=-1)'", "degree must be a whole number"),
        ("--basis 0", "n_points must be an integer of at least 1, got 0"),
        ("--basis 1e3", "write a whole number, a name"),
        ("--basis 'distance(nu=-1)'", "nu must be a number above 0, got -1"),
        ("--set tracker=hebbian --components all", "give --components as an integer, got None"),
        ("--set tracker=window", "use landmarks.Landmarks, or Centroids("),
        ("--forgetting 2", "--forgetting must be a number between 0 and 1"),
        ("--set preimage=foo", "foo'; expected one of 'auto'"),
        ("--set preimage=linear", 'use preimage="auto"'),
        ("--set robust=true --components all", "judges a row"),
        ("--seed -1", "--seed must be an integer from 0 to 2**32 - 1"),
        ("--detector novelty --alpha 2", "--alpha must be a number between 0 and 1"),
        ("--detector monitor --alpha 2", "--alpha must be a number between"),
        (
            "--detector monitor --set false_events_per_day=1",
            "false_events_per_day and interval, the",
        ),
        ("paper online --nu -1", "--nu must be a number above 0"),
        ("paper adaptive --beta 2", "--beta must be a number between 0 and 1"),
        ("paper adaptive --method lms --eta -1", "--eta must be a number above 0"),
        ("paper incremental --batch-size 0", "--batch-size must be a positive integer"),
        ("paper incremental --n-points 9 --n-preimages 3", "--n-points 9 and --n-preimages 3"),
        ("paper online --max-points 0", "--max-points must be an integer of at least 1"),
        ("--read decimal=x", "--read decimal must be '.' or ','"),
    ],
)
def test_parameters_are_options(words: str, message: str, data: Path) -> None:
    command = words if words.startswith("paper") else f"fit {words}"
    heard = said(run(*shlex.split(command), "x.parquet", "-o", "m.safetensors", code=2))
    assert message in heard
    assert not PYTHON.search(heard), heard


def test_a_bad_row_is_told_once(data: Path) -> None:
    Path("bad.csv").write_text("a,b\n" + "1,2\n3,4\n" * 20 + "5,None of it\n6,7\n")
    heard = said(run("fit", "bad.csv", "-o", "m.safetensors", "--treat", "b=number", code=3))
    assert "'None of it' is not a number" in heard  # what is in the file stays as it is
    assert heard.endswith("with --on-bad-rows skip.")


def test_it_is_said_twice_as_once() -> None:
    for message in (
        "n_components must be an integer of at least 1; got None.",
        "gamma='auto' compares widths; got kernel='poly'.",
    ):
        once = of_shell(message)
        assert of_shell(once) == once != message
