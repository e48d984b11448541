"""The benchmark runs from end to end on small sizes, and its file holds what it should.

Times are not looked at: they are for an idle machine and full sizes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.decomposition import KernelPCA

from benchmarks import (
    anchored,
    applications,
    compress,
    front,
    naive,
    novelty,
    policy,
    scripts,
    two_indexes,
)
from benchmarks.data import made_up
from benchmarks.measuring import Judge, Outcome, Side, exponent, faster, interleaved, within
from benchmarks.parts import TABLES, markdown, put, tables
from benchmarks.search import Search
from benchmarks.systems import NYSTROEM_IN_MEMORY, NYSTROEM_INCREMENTAL, Problem, System
from kernelstream import StreamingKernelPCA, kernels, landmarks
from kernelstream.images.files import resized
from kernelstream.papers import schedules
from kernelstream.papers.kim_2003 import epochs
from kernelstream.papers.kim_2003.gram import KernelMatrix

ROOT = Path(__file__).resolve().parents[2]
CLAIMS = {
    "stream": 2, "transform": 1, "batch": 1, "hebbian": 4, "kernlab": 1, "products": 2,
    "single": 6, "endless": 2, "startup": 3,
}  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> tuple[dict[str, Any], str, Path]:
    """What `python -m benchmarks --quick` writes and prints."""
    folder = tmp_path_factory.mktemp("benchmark")
    command = [sys.executable, "-m", "benchmarks", "--quick", "--repeats", "1"]
    command += ["--json", str(folder / "facts.json"), "--out", str(folder)]
    command += ["--markdown", str(folder / "table.md")]
    path = os.pathsep.join(p for p in ("src", os.environ.get("PYTHONPATH")) if p)
    done = subprocess.run(
        command,
        capture_output=True,
        check=False,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert done.returncode == 0, done.stderr
    return json.loads((folder / "facts.json").read_text()), done.stdout, folder


@pytest.mark.slow
def test_every_claim_has_its_line(run):
    facts, printed, folder = run
    lines = [outcome["row"] for outcome in facts["outcomes"]]
    assert {row: lines.count(row) for row in CLAIMS} == CLAIMS
    assert "asked" in printed and "reached" in printed
    table = (folder / "table.md").read_text().splitlines()
    cores = facts["raw"]["cores"]
    assert [line["cores"] for line in cores] == [1, 2]
    assert all(float(seconds) > 0 for seconds in cores[0].values())
    goals = facts["raw"]["front-goals"]
    assert [row["reached"] in ("yes", "no") for row in goals] == [True]
    tables = lines, facts["raw"]["front"], goals, cores
    n_lines = sum(2 + len(rows) for rows in tables)
    assert len([line for line in table if line.startswith("|")]) == n_lines
    for outcome in facts["outcomes"]:
        assert outcome["work"] and outcome["asked"] > 0
        assert outcome["sense"] in ("at least", "within", "below")
        if outcome["ratio"] is None:
            assert outcome["reached"] is None and "skipped" in outcome["note"]
        elif outcome["ours"]["seconds"]:
            assert all(s > 0 for s in outcome["ours"]["seconds"] + outcome["theirs"]["seconds"])


@pytest.mark.slow
def test_where_and_with_what_it_ran_is_in_the_file(run):
    facts, _, _ = run
    assert facts["date"].startswith("20")
    assert facts["machine"]["cores"] >= 1 and facts["machine"]["processor"]
    assert {"python", "numpy", "scikit-learn", "kernelstream"} <= set(facts["versions"])
    assert all(pool["num_threads"] >= 1 for pool in facts["threads"]["pools"])
    assert facts["repeats"] == 1 and facts["seconds"] > 0


@pytest.mark.slow
def test_every_system_has_its_curves_and_pictures(run):
    facts, _, folder = run
    assert {"kernelstream", "Nystroem + PCA", "Nystroem + IncrementalPCA"} <= set(facts["curves"])
    for curve in facts["curves"].values():
        for trial in curve["trials"]:
            assert 0 < trial["captured"] <= trial["explained"] + 1e-6 < 1 + 1e-5
            assert trial["seconds"] > 0
    growth = facts["raw"]["growth"]
    assert {"KernelPCA, dense", "KernelPCA, arpack", "KernelPCA, randomized"} <= set(growth)
    assert all(np.isfinite(curve["exponent"]) for curve in growth.values())
    assert len(facts["raw"]["methods"]) == 8
    for name in ("time-captured.png", "time-rows.png"):
        assert (folder / name).read_bytes().startswith(b"\x89PNG")


def test_the_tables_of_parts_are_whole_and_go_into_their_page():
    marks = "<!-- {}: python -m benchmarks.parts -->\nold\n<!-- end -->\n"
    page = "".join(map(marks.format, TABLES))
    for name, rows in tables(few=True).items():
        assert len(rows) >= 5 and len({len(row) for row in rows}) == 1
        captured = [float(row["captured"]) for row in rows if row.get("captured", "–") != "–"]
        assert all(0.5 < share <= 1.001 for share in captured)
        page = put(page, name, markdown(rows))
    assert "old" not in page and page.count("| --- |") == len(TABLES)
    with pytest.raises(ValueError, match="expected one"):
        put(page, "no such table", "")


# -- the policy of centroids


@pytest.mark.parametrize("constant", policy.CONSTANTS, ids=lambda constant: constant.attribute)
def test_a_constant_of_the_policy_is_changed_for_a_while(constant):
    present = constant.present
    for value in constant.values:
        expected = constant.becomes(value)
        assert expected != present
        with constant.at(value):
            assert constant.present == expected
        assert constant.present == present


def test_the_tables_of_the_policy_are_whole_and_go_into_their_page(tmp_path, monkeypatch):
    digits = (255 * made_up(1700, 784).clip(0, 1)).astype(np.uint8).reshape(-1, 28, 28)
    np.savez(tmp_path / "mnist.npz", x_train=digits, y_train=np.arange(1700) % 10)
    np.savez(tmp_path / "elec2.npz", X=made_up(1300, 6))
    np.savez(tmp_path / "frey.npz", images=digits[:1100])
    chosen = [c for c in policy.CONSTANTS if c.attribute in ("start_rows", "UPDATE_FACTOR")]
    assert len(chosen) == 2
    monkeypatch.setattr(policy, "CONSTANTS", chosen)
    page = tmp_path / "page.md"
    marks = "<!-- {}: python -m benchmarks.policy -->\nold\n<!-- end -->\n"
    page.write_text("".join(map(marks.format, ("Reached", "Constants"))))
    policy.main(["--data", str(tmp_path), "--seeds", "1", "--quick", str(page)])
    text = page.read_text()
    assert "old" not in text
    lines = [line.split(" | ") for line in text.splitlines() if line.startswith("|")]
    for line in lines[2:8]:
        assert all(0.5 < float(cell.split()[0]) < 1.001 for cell in line[2:4])
    # Other start rows give other landmarks in a stream, and `fit` has none; the streams are too
    # short for an update.
    assert [line[0] for line in lines[10:]] == ["| start rows"] * 2
    assert all(line[3] == "0 / 0" for line in lines[10:])
    assert all(any(cell != "0 / 0" for cell in line[4:9]) for line in lines[10:])
    with pytest.raises(ValueError, match="no place"):
        policy.put(text, "no such table", "")


def test_the_table_of_smaller_models_is_whole():
    (few, _) = compress.table({"made up": (made_up(600, 6), 96)})
    assert few["points"] == 96 and float(few["half loses"]) < 0.1
    assert float(few["a quarter loses"]) > float(few["half loses"]) - 0.01
    assert 0.0 < float(few["file of half"].split()[1]) < 1.0


def test_a_difference_is_bold_where_it_is_large_and_certain():
    assert policy.worded(np.array([2.0, 2.1, 1.9])) == "**+2.0**"
    assert policy.worded(np.array([-6.0, 9.0, 6.0])) == "+3.0"
    assert policy.worded(np.array([-0.2, -0.2, -0.2])) == "−0.2"
    assert policy.worded(np.zeros(3)) == policy.worded(np.full(3, -0.01)) == "0"


# -- the instruments


def test_exact_scores_are_judged_to_be_exact_and_others_by_what_they_explain():
    X = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)
    judge = Judge(X, 0.2, components=4)
    exact = KernelPCA(4, kernel="rbf", gamma=0.2).fit(X.astype(float)).transform
    assert judge.captured(exact) == pytest.approx(1.0, abs=1e-6)
    assert judge.explained(exact) == pytest.approx(1.0, abs=1e-5)
    assert judge.explained(lambda rows: 7.0 * exact(rows)) == pytest.approx(1.0, abs=1e-5)
    assert judge.captured(lambda rows: exact(rows)[:, :2]) < 0.9
    assert judge.explained(lambda rows: np.array(rows[:, :2])) < 1.0


def test_components_that_are_no_unit_vectors_are_refused():
    X = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)
    judge = Judge(X, 0.2, components=4)
    exact = KernelPCA(4, kernel="rbf", gamma=0.2).fit(X.astype(float)).transform
    assert judge.captured_soundly(lambda rows: 0.9 * exact(rows)) == pytest.approx(0.81, abs=1e-6)
    with pytest.raises(ValueError, match="no unit vectors"):
        judge.captured_soundly(lambda rows: 1.01 * exact(rows))


@pytest.mark.parametrize("system", [NYSTROEM_IN_MEMORY, NYSTROEM_INCREMENTAL])
def test_a_landmark_that_is_drawn_twice_makes_no_feature_of_rounding(system):
    X = np.repeat(made_up(150, 8), 4, axis=0)
    X = X[np.random.default_rng(0).permutation(len(X))]
    scores = system.learn(X, 100, Problem(0.5, 10))
    assert 0.9 < Judge(X[::3], 0.5, 10).captured_soundly(scores) <= 1.0


def test_systems_take_turns():
    order: list[str] = []
    works: dict[str, Any] = {name: lambda name=name: order.append(name) for name in "abc"}
    seconds, _ = interleaved(works, 3)
    assert order == list("abc" + "bca" + "cab")
    assert all(len(s) == 3 for s in seconds.values())


class StubJudge(Judge):
    """The captured variance is whatever the system says."""

    def __init__(self):
        self.rows = np.zeros((1, 1))

    def captured(self, scores: Any) -> float:
        return scores(self.rows)

    explained = captured


def search_of(threshold: int) -> Search:
    """A system that reaches the target from this size on."""

    def learn(X: np.ndarray, size: int, problem: Problem) -> Any:
        return lambda rows: size / threshold

    system = System("stub", learn)
    return Search(system, np.zeros((1, 1)), Problem(1.0, 1), StubJudge(), 1.0, lambda words: None)


@pytest.mark.parametrize("threshold", [10, 55, 100, 140, 201, 395])
def test_the_search_finds_the_smallest_size_of_its_steps(threshold):
    found = search_of(threshold).smallest([50, 100, 200, 400], step=10)
    assert found == max(10, -(-threshold // 10) * 10)


def test_the_search_ends_with_the_largest_size_when_none_is_enough():
    assert search_of(1000).smallest([50, 100], step=10) == 100
    assert search_of(1000).smallest_near(50, 10, most=100) == 100


@pytest.mark.parametrize(("threshold", "found"), [(30, 30), (50, 50), (71, 80), (5, 10)])
def test_the_search_near_a_size_goes_both_ways(threshold, found):
    assert search_of(threshold).smallest_near(50, 10, most=200) == found


def test_ratios_and_verdicts():
    ours, theirs = Side("ours", [2.0, 1.0]), Side("theirs", [5.0, 6.0])
    assert faster("x", "work", ours, theirs, 5.0).reached
    assert not faster("x", "work", ours, theirs, 5.1).reached
    assert within("x", "work", theirs, ours, 5.0).ratio == 5.0
    assert not within("x", "work", theirs, ours, 4.9).reached
    assert Outcome("x", "work", ours, theirs, None, 1.0).reached is None


def test_the_exponent_is_the_slope():
    assert exponent([10, 100, 1000], [3e2, 3e4, 3e6]) == pytest.approx(2.0)


# -- equal accuracy, on one grid


@pytest.mark.parametrize("needed", [1, 20, 21, 94, 101, 333, 2400])
def test_the_smallest_size_of_the_grid_is_found(needed):
    size, share = front.smallest(lambda size: size / needed, 1.0)
    assert size == min(s for s in front.GRID if s >= needed)
    assert share == size / needed


def test_the_largest_size_of_the_grid_stands_where_none_is_enough():
    assert front.smallest(lambda size: size / 1e6, 1.0) == (front.GRID[-1], front.GRID[-1] / 1e6)


@pytest.mark.slow
def test_the_table_of_scripts_has_every_system_and_set(run):
    facts, printed, folder = run
    lines = facts["raw"]["front"]
    assert {line["system"] for line in lines} == {s.name for s in (*front.SYSTEMS, *front.SLOW)}
    assert all(float(line["captured"]) >= 0.9 and line["size"] in front.GRID for line in lines)
    for line in lines:
        assert f"| {line['system']} |" in printed
        assert f"| {line['system']} |" in (folder / "table.md").read_text()


def test_sets_that_are_there_are_compared_and_others_named(tmp_path):
    np.savez(tmp_path / "elec2.npz", X=np.random.default_rng(0).normal(3.0, 2.0, size=(6000, 6)))
    said: list[str] = []
    made_up, found = front.sets(tmp_path, said.append)
    assert made_up.rows.shape == (front.LONG_ROWS, front.LONG_COLUMNS)
    assert [Path(words.split()[0]).name for words in said] == ["mnist.npz", "adult_a9a.npz"]
    assert found.rows.shape == (1000, 6) and found.judged.shape == (front.JUDGED, 6)
    everything = np.vstack([found.rows, found.judged])
    np.testing.assert_allclose(everything.mean(axis=0), 0.0, atol=1e-4)
    np.testing.assert_allclose(everything.std(axis=0), 1.0, atol=1e-4)


def test_what_was_to_be_reached_stands_beside_what_is(monkeypatch):
    monkeypatch.setattr(front, "POINTS", 20)
    monkeypatch.setattr(front, "SPREAD_SEEDS", 2)
    X, kinds = made_up(1500, 8), np.arange(1500) % 5
    given = front.Set.of("MNIST", X, None, judged=300, kinds=kinds)
    assert given.rows.shape == (1200, 8) and given.kinds is not None and len(given.kinds) == 1200
    fast, slow = (front.Found(170, 0.98, seconds, query) for seconds, query in ((1, 1), (3, 9)))
    found = {"MNIST": dict.fromkeys(front.SYSTEMS, slow) | {front.OURS_FITTED: fast}}
    rows = front.goals([given], found, components=5)
    assert [row["reached"] for row in rows[:2]] == ["yes", "no"]
    assert rows[0]["now"] == "3.00 ×, 170 points" and rows[1]["now"] == "9.0 ×"
    assert [row["goal"] for row in rows[2:]] == ["≤ .003", "± .005", "≤ 80 MB"]
    drifts = front.goals([replace(given, kinds=None, timed=X.astype(np.float32))], found)[1:]
    assert [row["goal"] for row in drifts] == ["≥ refit of 1,000 rows, ≤ its CPU"]
    ours, _, _, _, _, refit, *_ = drifts[0]["now"].split()
    assert 0.9 < float(ours) <= 1.0 and 0.9 < float(refit) <= 1.0
    assert 0.5 < float(rows[2]["now"].split()[1][1:]) <= 1.0  # captured in random order


# -- what ours is measured against does the same work


@pytest.mark.parametrize("gamma", [0.2, 0.002])  # K(D,D) is sound, or is not
def test_a_script_has_the_components_of_given_points(gamma):
    rng = np.random.default_rng(0)
    X, D = (rng.normal(size=(n, 6)).astype(np.float32) for n in (5000, 40))
    theirs = scripts.covariance(X, D, Problem(gamma, 3))(X[:200])
    model = StreamingKernelPCA(3, gamma=gamma, basis=landmarks.Landmarks(D)).fit(X)
    ours = model.transform(X[:200])
    signs = np.sign(np.sum(theirs * ours, axis=0))
    np.testing.assert_allclose(signs * theirs, ours, atol=2e-3 * np.abs(ours).max())


def test_points_of_scripts_are_rows_or_centres_of_rows():
    X = np.random.default_rng(0).normal(size=(3000, 4)).astype(np.float32)
    drawn, centres = scripts.drawn(X, 50, seed=1), scripts.centres(X, 50, seed=1)
    assert drawn.shape == centres.shape == (50, 4)
    assert all((row == X).all(axis=1).any() for row in drawn)
    near = [((X[:, None] - D) ** 2).sum(axis=2).min(axis=1).mean() for D in (drawn, centres)]
    assert near[1] < 0.9 * near[0]


def test_the_naive_epoch_is_the_blocked_one():
    X = np.random.default_rng(0).normal(size=(120, 5))
    data = KernelMatrix(kernels.RBF(0.1), X, n_components=3)
    start, means = epochs.begin(data, 3, seed=0)
    rows = np.random.default_rng(1).permutation(len(X))[:80]
    fast, _ = epochs.sample_epoch(data, means, start, schedules.ConstantRate(0.05), rows)
    slow = naive.kernel_hebbian_rows(start.A, X, 0.1, 0.05, rows, means.column)
    np.testing.assert_allclose(slow, fast.A, atol=1e-12)


def test_the_naive_moments_are_those_of_the_tracker():
    rng = np.random.default_rng(0)
    points, X = rng.normal(size=(20, 4)), rng.normal(size=(500, 4))
    twin = naive.Covariance(points, 0.1, 3)
    for x in X:
        twin.learn(x)
    mean = twin.total / twin.n
    slow = np.linalg.eigvalsh(twin.S / twin.n - np.outer(mean, mean))[::-1][:3]
    model = StreamingKernelPCA(3, gamma=0.1, basis=landmarks.Landmarks(points)).partial_fit(X)
    np.testing.assert_allclose(model.explained_variance_, slow, rtol=1e-6)


@pytest.mark.parametrize("rule", [naive.Hebbian, naive.RLS])
def test_the_naive_rules_find_the_leading_components(rule):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 3)) * [1.0, 0.5, 0.1]
    twin = rule(X[:15], 0.3, 2)
    Z = np.array([twin.coordinates(x) for x in X])
    for x in X:
        twin.learn(x)
    exact = np.linalg.eigvalsh(np.cov(Z.T))[::-1][:2].sum()
    V, _ = np.linalg.qr(twin.V)
    assert np.trace(V.T @ np.cov(Z.T) @ V) > 0.95 * exact


# --- applications


def test_detectors_are_compared_on_what_is_there():
    found = novelty.measure(None, quick=True)
    assert list(found[novelty.OURS]) == ["breast cancer", "wine", "digits"]
    assert found[novelty.OURS]["breast cancer"][0] > 0.9
    lines = novelty.table(found).splitlines()
    assert len(lines) == 2 + len(found) and lines[2].startswith(f"| {novelty.OURS} | 0.9")


def test_atoms_of_the_peer_explain_patches():
    rng = np.random.default_rng(0)
    atoms = np.linalg.qr(rng.normal(size=(8, 8)))[0][:6] + 0.2 * rng.normal(size=(6, 8))
    atoms /= np.linalg.norm(atoms, axis=1, keepdims=True)
    X = rng.normal(size=(40, 8))
    support, weights = anchored.pursuit(X, atoms)
    for x, own, w in zip(X, support, weights, strict=True):
        assert len(set(own)) == anchored.SPARSITY
        best = np.linalg.lstsq(atoms[own].T, x, rcond=None)[0]
        np.testing.assert_allclose(w, best, atol=1e-8)
    found = anchored.ksvd(np.concatenate([X, 2 * X]), 6, rng)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1.0)

    def missed(atoms):
        support, weights = anchored.pursuit(X, atoms)
        return np.mean((X - np.einsum("nk,nkd->nd", weights, atoms[support])) ** 2)

    assert missed(found) < missed(atoms)


def test_the_peer_of_super_resolution_beats_bicubic(monkeypatch):
    for name, value in dict(ATOMS=20, NEIGHBOURS=300, ROUNDS=3, SIZES=2).items():
        monkeypatch.setattr(anchored, name, value)
    y, x = np.mgrid[:96, :96] / 96
    photographs = [0.5 + 0.4 * np.sign(np.sin(20 * x + k * y**2)) for k in (5, 9, 13)]
    model = anchored.Anchored(2, samples=3000).fit(photographs[:2])
    low = resized(photographs[2], (48, 48))
    errors = [
        np.mean((found - photographs[2])[4:-4, 4:-4] ** 2)
        for found in (model.predict(low), resized(low, (96, 96)))
    ]
    assert errors[0] < 0.9 * errors[1]


def test_two_indexes_are_judged_at_one_level():
    usual = np.arange(1000.0)
    assert two_indexes.found(usual, np.array([0.0, 995.0, 2000.0, 5.0])) == 50.0
    np.testing.assert_allclose(
        two_indexes.strangeness(usual, np.array([0.0, 999.0, 2e3])), [-1, -0.001, 0]
    )
    for make, off in two_indexes.CASES.values():
        rng = np.random.default_rng(0)
        assert np.isfinite(make(20, rng, off)).all()


def test_rows_of_applications_say_where_data_are_missing(capsys):
    assert applications.main(["--only", "enlarge", "inpaint"]) == 0
    printed = capsys.readouterr().out
    assert printed.count("needs --data") == 3
