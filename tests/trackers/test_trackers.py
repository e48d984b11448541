"""What trackers are given and what is made of their components: signs, lengths, words."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

from kernelstream import StreamingKernelPCA, landmarks, papers, trackers

# -- signs


@pytest.mark.parametrize("forgetting", [1.0, 0.99])
def test_components_keep_their_signs_along_a_stream(forgetting):
    """Scores of fixed probes never flip from query to query while a component turns slowly."""
    rng = np.random.default_rng(0)
    probes = rng.normal(size=(60, 3)) * [2.0, 1.0, 0.5]
    X = rng.normal(size=(4000, 3)) * [2.0, 1.0, 0.5]
    model = StreamingKernelPCA(
        3,
        kernel="linear",
        basis=landmarks.Everything(),
        tracker=trackers.Covariance(forgetting=forgetting),
        batch_size=32,
    )
    last, compared = None, 0
    for start in range(0, len(X), 100):
        turn = np.eye(3)
        angle = start / 4000 * np.pi  # half a turn of the first two axes, a few degrees a query
        turn[:2, :2] = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
        model.partial_fit(
            X[start : start + 100] @ turn.T if forgetting < 1 else X[start : start + 100]
        )
        scores = model.transform(probes)
        if last is not None and start >= 500:
            cosines = np.sum(scores * last, axis=0) / (
                np.linalg.norm(scores, axis=0) * np.linalg.norm(last, axis=0)
            )
            clear = np.abs(cosines) > 0.9
            assert np.all(cosines[clear] > 0)
            compared += int(np.count_nonzero(clear))
        last = scores
    assert compared > 60


def test_the_reference_for_signs_follows_the_components():
    """In a basis much larger than the number of components it is turned along, not solved anew."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6000, 5)) * [2.0, 1.5, 1.0, 0.7, 0.5]
    model = StreamingKernelPCA(3, gamma=0.1, basis=landmarks.Landmarks(X[:80]), batch_size=256)
    probe, last = X[:20], None
    for start in range(0, len(X), 500):
        model.partial_fit(X[start : start + 500])
        scores = model.transform(probe)
        if last is not None:
            assert np.all(np.sum(scores * last, axis=0) > 0)
        last = scores
    state = model.stream_.caught_up.state
    assert state is not None and state.signs is not None
    assert state.signs.shape == (80, 3 + 8)  # more than are shown, so that the last ones are good
    _, exact, _ = model.stream_.chain.tracker.components(state.tracker, state.moments, True)
    cosines = np.abs(np.sum(state.signs[:, :3] * exact[:, :3], axis=0))
    assert cosines.min() > 0.99
    np.testing.assert_allclose(np.linalg.norm(state.signs, axis=0), 1.0, rtol=1e-9)


def test_signs_are_the_same_for_every_run():
    X = np.random.default_rng(1).normal(size=(300, 3)) * [3.0, 2.0, 1.0]
    a, b = (StreamingKernelPCA(3, kernel="linear", basis="everything").partial_fit(X) for _ in "ab")
    np.testing.assert_array_equal(a.dual_coef_, b.dual_coef_)


def test_rls_that_hears_nothing_keeps_its_head():
    """Where outputs vanish, Q would grow like β^−t: it stops at 1e8 times its start."""
    tracker = papers.RLS(forgetting=0.5)
    state = tracker.begin(2, 1, np.zeros(0))
    state = tracker.update(state, np.array([[2.0, 0.0]]), None, ())
    state = tracker.update(state, np.zeros((200, 2)), None, ())  # 2^200 = 1e60
    assert 1e7 / 4 < state.Q.max() <= 2 * 1e8 / 4
    # and it hears again: the next rows turn the component at once
    state = tracker.update(state, np.tile([1e-3, 3.0], (20, 1)), None, ())
    V = tracker.components(state, trackers.Moments(1.0, np.zeros(2)), False)[1]
    assert abs(V[1, 0]) > 0.99


# -- parameters


@pytest.mark.parametrize(
    "tracker",
    [
        trackers.Covariance,
        trackers.IncrementalSVD,
        papers.Hebbian,
        papers.SubsetHebbian,
        papers.LMS,
        papers.RLS,
    ],
)
def test_forgetting_is_above_zero_and_at_most_one(tracker):
    for forgetting in (1, 1.0, 0.5, 1e-9, np.float32(0.9)):
        tracker(forgetting=forgetting).check()
    for bad in (0, 0.0, -0.5, 1.0001, 2, np.nan, "1", None):
        words = f"{tracker.__name__}: forgetting must be a number between 0 and 1, got "
        with pytest.raises(ValueError, match=words):
            tracker(forgetting=bad).check()


def test_what_a_rule_of_ones_own_has_unless_it_says_otherwise():
    assert trackers.Tracker.forgetting == 1.0
    assert trackers.Tracker.kind == "blocks"


@pytest.mark.parametrize("name", sorted(trackers.NAMES))
@pytest.mark.parametrize("forgetting", [0.0, 1.0 + 1e-9, 2.0, -0.5, np.nan])
def test_forgetting_is_a_share(name: str, forgetting: float) -> None:
    part = trackers.NAMES[name]
    if "forgetting" not in inspect.signature(part).parameters:
        return
    with pytest.raises(ValueError, match="forgetting must be"):
        part(forgetting=forgetting).check()
