"""The stream: score first, then learn; events are not learned; long streams in bounded memory."""

from __future__ import annotations

import copy
import tracemalloc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kernelstream import KernelMonitor
from kernelstream.anomaly import Records
from tests import samples
from tests.anomaly.monitor.processes import assert_same, plant, process, small


@pytest.mark.parametrize("lags", [0, 2])
@pytest.mark.parametrize("smooth", [None, 0.2])
def test_cuts_do_not_matter(lags: int, smooth: float | None) -> None:
    monitor = small(lags=lags, memory=150, smooth=smooth).fit(process(200))
    X = process(260, seed=1)
    X[130:160, 1] += 4.0  # an event
    X[40, 2] = np.nan
    whole = copy.copy(monitor).update_many(X)
    assert any(r.event for r in whole)
    assert whole[-1].drift.rows > 0
    one_by_one = copy.copy(monitor)
    assert_same(whole, Records([one_by_one.update(x) for x in X]))
    pieces = copy.copy(monitor)
    cut = Records(r for part in np.array_split(X, 7) for r in pieces.update_many(part))
    assert_same(whole, cut)


def test_score_first_then_learn(fitted: KernelMonitor) -> None:
    """A row's record does not depend on the row being learned, nor on what comes after it."""
    X = process(200, seed=1)
    long, short = copy.copy(fitted), copy.copy(fitted)
    assert_same(long.update_many(X)[:120], short.update_many(X[:120]))


def test_adaptation_learns_at_block_ends(fitted: KernelMonitor) -> None:
    monitor = copy.copy(fitted)
    records = monitor.update_many(process(100, seed=1))
    # 20 rows of quarantine, then blocks of memory // 10 = 20
    assert records[39].drift.rows == 0
    learned = {r.drift.rows for r in records}
    assert learned == {0, 20, 40, 60}
    off = small(lags=2, adapt="off").fit(process(300))
    assert {r.drift.rows for r in off.update_many(process(100, seed=1))} == {0}
    assert not any(r.learned for r in off.update_many(process(20, seed=2)))


def test_an_event_is_not_learned(fitted: KernelMonitor) -> None:
    monitor = copy.copy(fitted)
    monitor.update_many(process(60, seed=1))
    before = monitor._state
    fault = process(200, seed=2) + np.array([0.0, 6.0, 0.0, 0.0])
    records = monitor.update_many(fault)
    assert all(r.alarm and r.event == records[-1].event for r in records[5:])
    assert not any(r.learned for r in records[5:])
    # what was waiting for its block came from before the fault, with at most the first rows of it
    learned = monitor._state.models.drift.rows - before.models.drift.rows
    assert learned <= len(before.buffer.quarantine) + len(before.buffer.pending)
    assert len(monitor._state.buffer.quarantine) == 0
    shifted = monitor.drift_.largest_shift
    assert shifted < 0.5
    assert monitor.event_ is not None and monitor.event_.n_rows >= 195
    name, _, size = monitor.event_contributions(monitor.event_).ranking()[0]
    assert name == "x1" and 4.5 < size < 7.5


@samples.grid("smooth, size, width", [None, 0.2], [30.0, 1e3, 1e12], [100.0, 10.0])
def test_a_single_wild_row_is_not_learned(smooth: float | None, size: float, width: float) -> None:
    """One glitch is no event, but it must not become a part of normal operation either."""
    monitor = small(memory=200, smooth=smooth, width=width, basis=60).fit(process(400))
    X = process(800, seed=1)
    X[100, 3] += size
    records = monitor.update_many(X)
    assert records[100].index > records[100].index_limit and not records[100].learned
    assert monitor.drift_.largest_scale < 1.5
    assert np.mean(records.column("alarm")[150:]) < 0.05
    fault = process(50, seed=2) + np.array([0.0, 0.0, 0.0, 6.0])
    assert np.mean(monitor.update_many(fault).column("alarm")[10:]) > 0.9


def test_learning_every_row_would_absorb_it(fitted: KernelMonitor) -> None:
    """What the gate is for: the same fault, vouched for, is normal after a while."""
    monitor = copy.copy(fitted)
    fault = process(1500, seed=2) + np.array([0.0, 6.0, 0.0, 0.0])
    monitor.partial_fit(fault[:1200])
    assert np.mean(monitor.interrupt().update_many(fault[1200:]).column("alarm")) < 0.2
    assert monitor.drift_.largest_shift > 1.0


def test_acknowledge_and_accept(fitted: KernelMonitor) -> None:
    monitor = copy.copy(fitted)
    with pytest.raises(ValueError, match="no event"):
        monitor.accept()
    with pytest.raises(ValueError, match="no event"):
        monitor.acknowledge()
    new_normal = process(1000, seed=2) + np.array([0.0, 6.0, 0.0, -3.0])
    assert not any(r.acknowledged for r in monitor.update_many(new_normal[:40]))
    assert monitor.acknowledge().acknowledged
    assert all(r.acknowledged for r in monitor.update_many(new_normal[40:60]))
    accepted = monitor.accept()
    assert accepted.accepted and monitor.event_ is None
    assert monitor.events_[-1].accepted and monitor.events_[-1].acknowledged
    # the centre has moved at once, and the spread was not blown up to cover both
    unit = fitted._state.models.standard.deviation
    assert monitor.drift_.centre[1] == pytest.approx(6.0 / unit[1], rel=0.5)
    assert monitor.drift_.largest_scale < 1.3
    assert np.mean(monitor.update_many(new_normal[60:]).column("alarm")) < 0.05
    assert monitor.drift_.centre[1] > 1.0  # against the frozen reference it stays visible


def test_a_glitch_in_an_event_is_not_accepted_with_it(fitted: KernelMonitor) -> None:
    shift = np.array([0.0, 6.0, 0.0, -3.0])
    event = process(60, seed=2) + shift
    event[50, 1] = 1e9
    monitor = copy.copy(fitted)
    monitor.update_many(event)
    monitor.accept()
    assert monitor.drift_.largest_scale < 1.3
    assert np.mean(monitor.update_many(process(400, seed=3) + shift).column("alarm")) < 0.05
    fault = process(60, seed=4) + shift + np.array([0.0, 6.0, 0.0, 0.0])
    assert np.mean(monitor.update_many(fault).column("alarm")[10:]) > 0.9


def test_interrupt_forgets_the_past_only() -> None:
    monitor = small(lags=2).fit(process(300))
    X = process(20, seed=1)
    whole = copy.copy(monitor).update_many(X)
    broken = copy.copy(monitor)
    broken.update_many(X[:10])
    after = broken.interrupt().update_many(X[10:])
    assert after[0].index != whole[10].index
    assert after[2].index == whole[12].index


def test_memory_is_bounded() -> None:
    quick: dict[str, Any] = dict(basis=20, width=100.0, ridge=0.1, whiten=True, memory=100)
    X = plant(1900, 0, True)
    X[900:1200, 2] += 20.0  # an event that is longer than anything that is kept
    monitor = KernelMonitor(random_state=0, **quick).fit(X[:300])
    sizes = []
    for start in range(300, 1900, 100):
        monitor.update_many(X[start : start + 100])
        state = monitor._state
        buffer = state.buffer
        held = (buffer.quarantine, buffer.pending, buffer.event, state.history)
        sizes.append(max(len(rows) for rows in held))
    assert max(sizes) <= 20
    assert monitor.events_[0].n_rows > 250 or len(monitor.events_) > 1
    tracemalloc.start()
    for _ in range(3):
        monitor.update_many(X[300:500])
        before = tracemalloc.get_traced_memory()[0]
    monitor.update_many(X[500:700])
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown < 100_000


def test_blocks_cost_one_pass_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """The expensive steps: one model a block of memory // 10 rows, one scoring a piece."""
    import kernelstream.anomaly.monitor.normal as module

    X = plant(2000, 0, False)
    quick: dict[str, Any] = dict(basis=60, width=30.0, ridge=0.1, whiten=True, smooth=None)
    monitor = KernelMonitor(random_state=0, alpha=0.003, **quick).fit(X[:500])
    calls = {"scaling": 0, "score": 0}
    scaling_of, score = module.Whitening.of.__func__, module.Index.score  # type: ignore[attr-defined]

    def counted_of(cls: Any, *arguments: Any) -> Any:
        calls["scaling"] += 1
        return scaling_of(cls, *arguments)

    def counted_score(self: Any, *arguments: Any) -> Any:
        calls["score"] += 1
        return score(self, *arguments)

    monkeypatch.setattr(module.Whitening, "of", classmethod(counted_of))
    monkeypatch.setattr(module.Index, "score", counted_score)
    stream = copy.copy(monitor)
    stream.update_many(X[500:1520])
    blocks = stream.drift_.rows // 100
    assert blocks >= 8 and stream.drift_.rows % 100 == 0
    assert calls["scaling"] == blocks
    # Pieces by the present model and by the frozen one; the latter for drift too.
    assert calls["score"] <= 3 * (blocks + 1) + 1020 // 256


# -- modes


def two_modes(mode: np.ndarray, seed: int) -> np.ndarray:
    X = np.random.default_rng(seed).normal(size=(len(mode), 5))
    return X + np.where(mode, -4.0, 4.0)[:, None]


@pytest.fixture(scope="module")
def of_two_modes() -> KernelMonitor:
    """Fitted to a plant that was in each mode many times, 200 rows at a time."""
    X = two_modes(np.arange(4000) // 200 % 2 == 1, 0)
    return small(basis=60, width=3.0, ridge=1e-3, lags=0, memory=400).fit(X)


def test_what_fit_knew_is_never_forgotten(of_two_modes: KernelMonitor) -> None:
    """However long a mode was away, here five times the memory, its return raises no alarm."""
    monitor = copy.copy(of_two_modes)
    away = monitor.update_many(two_modes(np.zeros(2000, dtype=bool), 1))
    assert np.mean(away.column("alarm")) < 0.02 and monitor.drift_.rows > 1000
    back = monitor.update_many(two_modes(np.ones(1000, dtype=bool), 2))
    assert np.mean(back.column("alarm")) < 0.03
    assert np.mean(back.column("learned")) > 0.7  # it is followed, not only suffered
    again = monitor.update_many(two_modes(np.zeros(1000, dtype=bool), 3))
    assert np.mean(again.column("alarm")) < 0.02
    for mode in (False, True):  # and a fault in either is seen
        fault = two_modes(np.full(60, mode), 4)
        fault[:, 2] += 4.0
        assert np.mean(copy.copy(monitor).update_many(fault).column("alarm")[15:]) > 0.9


def test_a_plant_with_two_modes_alarms_no_more_than_asked(of_two_modes: KernelMonitor) -> None:
    modes = np.random.default_rng(1).random(8000) < 1 / 400
    records = copy.copy(of_two_modes).update_many(two_modes(modes.cumsum() % 2 == 1, 1))
    assert np.mean(records.column("alarm")) < 0.02


def test_moving_between_models_does_not_depend_on_cuts(of_two_modes: KernelMonitor) -> None:
    X = two_modes(np.arange(1500) // 500 % 2 == 1, 6)
    whole, cut = copy.copy(of_two_modes), copy.copy(of_two_modes)
    records = whole.update_many(X)
    assert whole._state.models.previous is not None
    again = Records(r for part in np.array_split(X, 11) for r in cut.update_many(part))
    assert_same(records, again)


def test_accepted_as_well_or_instead(fitted: KernelMonitor) -> None:
    new = np.array([0.0, 6.0, 0.0, -3.0])
    for instead in (False, True):
        monitor = copy.copy(fitted)
        monitor.update_many(process(100, seed=2) + new)
        assert monitor.accept(instead=instead).accepted
        stays = monitor.interrupt().update_many(process(400, seed=3) + new)
        assert np.mean(stays.column("alarm")) < 0.05
        back = monitor.interrupt().update_many(process(300, seed=4))
        alarms = np.mean(back.column("alarm")[10:])
        assert alarms > 0.9 if instead else alarms < 0.05
        if not instead:  # and the other way round, again
            there = monitor.interrupt().update_many(process(300, seed=5) + new)
            assert np.mean(there.column("alarm")) < 0.05


def test_what_was_accepted_is_never_forgotten(of_two_modes: KernelMonitor) -> None:
    """However often the process moves between other modes meanwhile."""
    third = np.array([0.0, 9.0, -9.0, 9.0, 0.0])

    def there(n: int, seed: int) -> np.ndarray:
        return np.random.default_rng(seed).normal(size=(n, 5)) + third

    monitor = copy.copy(of_two_modes)
    monitor.update_many(there(60, 1))
    monitor.accept()
    assert np.mean(monitor.update_many(there(300, 2)).column("alarm")) < 0.1
    for turn in range(16):
        monitor.update_many(two_modes(np.full(300, turn % 2 == 0), 10 + turn))
    assert np.mean(monitor.update_many(there(300, 3)).column("alarm")) < 0.1
    # in the place of all before, and then another one as well
    monitor.update_many(there(60, 4) + 20.0)
    monitor.accept(instead=True)
    assert np.mean(copy.copy(monitor).update_many(there(100, 5)).column("alarm")[10:]) > 0.9
    monitor.update_many(there(60, 6) - 20.0)
    monitor.accept()
    returns = [
        monitor.update_many(there(200, seed) + shift).column("alarm")
        for shift, seed in ((20.0, 7), (-20.0, 8))
    ]
    assert np.mean(returns) < 0.05


def test_a_lasting_fault_is_not_learned() -> None:
    """A bias that never goes away is found as well with adaptation as without."""
    found = {}
    X = plant(6000, 3, False)
    X[3000:, 4] += 1.5 * X[:, 4].std()
    for adapt in ("event", "off"):
        monitor = KernelMonitor(
            basis=30, width=100.0, ridge=0.1, whiten=True, adapt=adapt, random_state=0
        )
        alarms = monitor.fit(X[:2000]).update_many(X[2000:]).column("alarm")
        assert np.mean(alarms[:1000]) < 0.03
        found[adapt] = np.mean(alarms[1000:])
    assert found["event"] > 0.9 * found["off"] > 0.5


# -- streams that are not what was learned


def test_a_stream_that_differs_from_its_first_row_on_is_foreign(fitted: KernelMonitor) -> None:
    """Not an event; it may be accepted like one, and what begins later is an event as ever."""
    elsewhere = np.array([0.0, 6.0, 0.0, -3.0])
    monitor = copy.copy(fitted)
    records = monitor.update_many(process(100, seed=2) + elsewhere)
    assert all(r.foreign and r.alarm for r in records[10:])
    assert not any(r.event for r in records) and not any(r.learned for r in records[10:])
    assert monitor.event_ is not None and monitor.event_.foreign
    assert monitor.accept().foreign and monitor.events_[-1].foreign
    follows = monitor.update_many(process(300, seed=3) + elsewhere)
    assert np.mean(follows.column("alarm")) < 0.05 and not any(follows.column("foreign"))
    fault = monitor.update_many(process(60, seed=4) + 2 * elsewhere)
    assert fault[-1].event and not fault[-1].foreign
    # a new run may be foreign again, and one that is not is none
    another = copy.copy(fitted)
    another.update_many(process(100, seed=5))
    assert another.interrupt().update_many(process(60, seed=6) + elsewhere)[-1].foreign
    usual = copy.copy(fitted).update_many(process(300, seed=7))
    assert not any(usual.column("foreign"))


def test_an_average_has_a_whole_and_a_part_for_each_sensor(fitted: KernelMonitor) -> None:
    state = fitted._fitted_state()
    sizes = {"lagged": len(state.models.present.whitening.mean)}
    state.check(sizes)
    for n in (4, 9):
        damaged = replace(state, alarms=replace(state.alarms, average=np.zeros(n)))
        with pytest.raises(ValueError, match=f"an average of {n} values for 4 sensors"):
            damaged.check(sizes)
