"""Golden files are read, answer and continue as they did when they were written.

``write.py`` writes them, a model file and its answers for each case. What is copied from a file is
compared exactly. What is computed is compared exactly if ``KERNELSTREAM_EXACT=1`` is set, which is
for a change of the code alone: the processor and the libraries have to be those that the files were
written with. Otherwise rounding may differ, by as much as the condition of the model allows
(``tolerance``).
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from kernelstream import load, serialization
from kernelstream.estimators import StoredEstimator
from tests.golden import write
from tests.golden.write import CASES, COMMAND, FOLDER, Arrays, Case, Command, is_written, paths
from tests.registry import registry

EXACT = os.environ.get("KERNELSTREAM_EXACT") == "1"

# Multiples of the unit roundoff by which a result may differ, for a condition of 1: sums of some
# hundred terms, in another order, in each of some dozen steps.
STEPS = 1e3
SEARCHED = 1e-5  # relative, of pre-images: a search ends where it is near enough
BOUNDED = 1e-6  # absolute, of bounds: those on what is nearly zero consist of rounding


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """One thread, as for the files: the number of threads decides how BLAS cuts its sums."""
    with threadpool_limits(1):
        yield


def case_of(name: str) -> Case:
    """The case, if the packages that it needs are installed."""
    case = CASES[name]
    if isinstance(case, Command):
        pytest.importorskip("typer", reason="the command line is not installed")
        pytest.importorskip("pyarrow", reason="the command line is not installed")
    return case


def in_words(name: str) -> str:
    """The command that writes the files of a case."""
    return f"{COMMAND} --only {name}"


def tolerance(name: str, due: np.ndarray, condition: float, single: bool) -> tuple[float, float]:
    """How far floats may be off, relative to each entry and absolutely.

    Scores and coefficients are eigenvectors times a factor of the landmarks' Gram matrix. The
    relative error of both is the unit roundoff times ``condition``: that of the factor, and the
    largest eigenvalue over the smallest gap between those that are shown.
    """
    unit = np.finfo(np.float32 if single or due.dtype == np.float32 else np.float64).eps
    relative = min(STEPS * float(unit) * condition, 1e-3)
    size = float(np.abs(due[np.isfinite(due)]).max(initial=0.0))
    if name == "inverse_transform":
        relative = max(relative, SEARCHED)
    if name.startswith("certificate."):
        return max(relative, BOUNDED), max(relative, BOUNDED) * max(size, 1.0)
    return relative, relative * size


def assert_same(name: str, found: Any, due: np.ndarray, exact: bool, **how: Any) -> None:
    """Compare two arrays: bit for bit in exact mode and where they are no floats."""
    assert found.shape == due.shape and found.dtype.kind == due.dtype.kind, name
    if exact or due.dtype.kind != "f":
        np.testing.assert_array_equal(found, due, err_msg=name, strict=due.dtype.kind != "U")
        return
    relative, absolute = tolerance(name, due, **how)
    np.testing.assert_allclose(found, due, rtol=relative, atol=absolute, err_msg=name)


def assert_answers(name: str, found: Arrays, due: Arrays) -> None:
    """All answers of then are the answers now; there may be more of them now."""
    case = CASES[name]
    assert set(due) <= set(found), f"{sorted(set(due) - set(found))}: {in_words(name)} --anew"
    single = case.single or any(array.dtype == np.float32 for array in due.values())
    condition = float(due.get("condition", np.array(1e3)))
    for key, array in due.items():
        if key == "parameters":  # an estimator may get new ones; those of the file stay
            assert set(array.tolist()) <= set(found[key].tolist())
        elif key == "condition":
            continue
        else:
            exact = EXACT or key in case.exact
            assert_same(key, found[key], array, exact, condition=condition, single=single)


def content_of(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The tree of a file and its tensors, without what the command line adds."""
    file = serialization.ModelFile.read(path)
    extra = {"origin", "progress", "position"}
    return {key: node for key, node in file.tree.items() if key not in extra}, file.tensors


def assert_kept(old: Any, new: Any, where: str = "content") -> None:
    """All nodes of an old tree are in a new one, which may have more fields and parameters."""
    if isinstance(old, dict):
        for key in old:
            assert key in new, f"{where}.{key}"
            assert_kept(old[key], new[key], f"{where}.{key}")
    elif isinstance(old, list) and where == "content.parameters.tuple":  # pairs
        assert [pair for pair in old if pair not in new] == []
    elif isinstance(old, list):
        assert len(old) == len(new), where
        for place, (one, other) in enumerate(zip(old, new, strict=True)):
            assert_kept(one, other, f"{where}.{place}")
    else:
        assert new == old, where


# --- the files


def test_every_case_has_its_files() -> None:
    missing = [name for name in CASES if not is_written(FOLDER, name)]
    assert not missing, f"No golden files of {missing}. Run: {in_words(' '.join(missing))}"


def test_every_file_has_its_case() -> None:
    known = {path.name for name in CASES for path in paths(FOLDER, name)}
    strangers = sorted(path.name for path in FOLDER.iterdir() if path.name not in known)
    assert not strangers, f"No case in tests/golden/write.py writes {strangers}: delete them."


@pytest.mark.parametrize("name", CASES)
def test_answers(name: str) -> None:
    model, answers = paths(FOLDER, name)
    assert_answers(name, case_of(name).ask(model), write.read_answers(answers)["loaded"])


@pytest.mark.parametrize("name", CASES)
def test_continues(name: str) -> None:
    model, answers = paths(FOLDER, name)
    found = write.continued(case_of(name), model)
    assert_answers(name, found, write.read_answers(answers)["continued"])


@pytest.mark.parametrize("name", CASES)
def test_saved_again(name: str, tmp_path: Path) -> None:
    """A file that was loaded is saved with the same content, and then with the same bytes."""
    model = paths(FOLDER, name)[0]
    case_of(name)
    StoredEstimator.from_file(serialization.ModelFile.read(model), model)[0].save(tmp_path / "once")
    (tree, tensors), (now, found) = content_of(model), content_of(tmp_path / "once")
    assert_kept(tree, now)
    for key, tensor in tensors.items():
        np.testing.assert_array_equal(found[key], tensor, err_msg=key, strict=True)
    StoredEstimator.from_file(serialization.ModelFile.read(tmp_path / "once"), "once")[0].save(
        tmp_path / "twice"
    )
    assert (tmp_path / "twice").read_bytes() == (tmp_path / "once").read_bytes()


@pytest.mark.slow  # run before a release: its files have to be read later, those before need not
def test_every_state_and_estimator_is_in_a_file() -> None:
    named = {
        n for name in CASES for n in serialization.ModelFile.read(paths(FOLDER, name)[0]).names
    }
    stored = registry()
    missing = sorted((stored["states"].keys() | stored["estimators"].keys()) - named)
    assert not missing, (
        f"No golden file holds a {', '.join(missing)}. Add a case to CASES in "
        f"tests/golden/write.py, or let one of the cases hold it; then run: {COMMAND}"
    )


def test_the_files_are_small() -> None:
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 800_000


# --- the command that writes them

QUICK = ("tracker_rls", "kernel_sigmoid")


def test_the_command_writes_what_was_asked_for(tmp_path: Path) -> None:
    """As a process, from the root of the repository."""
    words = [*COMMAND.split()[1:], "--only", *QUICK, "--folder", str(tmp_path)]
    subprocess.run([sys.executable, *words], cwd=Path(__file__).parents[2], check=True)
    expected = {path.name for name in QUICK for path in paths(tmp_path, name)}
    assert {path.name for path in tmp_path.iterdir()} == expected
    for name in QUICK:
        (old, due), (new, found) = paths(FOLDER, name), paths(tmp_path, name)
        assert serialization.ModelFile.read(new).names == serialization.ModelFile.read(old).names
        for when, answers in write.read_answers(found).items():
            assert_answers(name, answers, write.read_answers(due)[when])


def test_the_command_leaves_other_files_as_they_are(tmp_path: Path) -> None:
    first, second = QUICK
    for path in (*paths(tmp_path, first), *paths(tmp_path, second)):
        path.write_text("there")
    write.main(["--only", first, "--folder", str(tmp_path)])
    assert {path.read_text() for path in tmp_path.iterdir()} == {"there"}
    paths(tmp_path, first)[1].unlink()
    write.main(["--only", *QUICK, "--folder", str(tmp_path)])
    assert load(paths(tmp_path, first)[0]).n_samples_seen_ == 58
    assert {path.read_text() for path in paths(tmp_path, second)} == {"there"}
    write.main(["--only", second, "--anew", "--folder", str(tmp_path)])
    assert load(paths(tmp_path, second)[0]).n_samples_seen_ == 58


def test_the_command_writes_all_files(tmp_path: Path) -> None:
    for name in CASES:
        case_of(name)
    write.main(["--folder", str(tmp_path)])
    for name in CASES:
        (old, due), (new, found) = paths(FOLDER, name), paths(tmp_path, name)
        assert serialization.ModelFile.read(new).names == serialization.ModelFile.read(old).names
        for when, answers in write.read_answers(found).items():
            assert_answers(name, answers, write.read_answers(due)[when])


def test_an_unknown_case_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        write.main(["--only", "tracker_of_nobody"])
    assert "tracker_of_nobody" in capsys.readouterr().err


def test_the_message_names_the_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What a failing test says to run makes it pass."""
    monkeypatch.setitem(CASES, "tracker_new", CASES["tracker_rls"])
    with pytest.raises(AssertionError) as failure:
        test_every_case_has_its_files()
    words = str(failure.value).split("Run: ")[1].split("\n")[0].split()
    assert words[:3] == COMMAND.split() and words[3:] == ["--only", "tracker_new"]
    write.main([*words[3:], "--folder", str(tmp_path)])
    monkeypatch.setattr("tests.golden.test_golden.FOLDER", tmp_path)
    assert is_written(tmp_path, "tracker_new")


def test_answers_in_json() -> None:
    arrays: list[np.ndarray] = [
        np.array([[0.1, np.nan, -np.inf]]),
        np.array([1 / 3], dtype=np.float32),
        np.zeros((0, 3)),
        np.array(["ä", "b"]),
        np.array(True),
    ]
    for array in arrays:
        entry = write.as_json(array)
        found = np.array(entry["values"], dtype=entry["type"]).reshape(entry["shape"])
        np.testing.assert_array_equal(found, array, strict=True)
