"""Two-pass ``fit`` of rows in memory: landmarks first, then statistics; final signs."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from kernelstream.arrays.draws import generator
from kernelstream.arrays.threads import cores
from kernelstream.certificates.sample import NAMING_ROWS, AuditSample
from kernelstream.landmarks import Start
from kernelstream.landmarks.nystroem import transition
from kernelstream.landmarks.sample import UniformSample
from kernelstream.stream import signs
from kernelstream.stream.robust import RobustWeights
from kernelstream.stream.state import Buffer, Rows
from kernelstream.stream.step import forget

if TYPE_CHECKING:
    from kernelstream.stream.stream import Stream

DRAWING = 0.2  # of the time of two passes, where the first keeps some rows: reading CSV
PASS_NUMBERS = 2**19  # coordinates in a block of a pass: they stay in the cache of a core


def learn_all(stream: Stream, rows: Rows) -> Stream:
    """Learn rows that are all at hand.

    Points come from a sample of all rows, or from a first pass where the basis draws none. The
    pass for the statistics sees every row in the final basis, so nothing is stale. Sequential
    rules and bases that lose nothing need that one only.
    """
    with cores():
        return _learn_all(stream, rows)


def _learn_all(stream: Stream, rows: Rows) -> Stream:
    n = len(rows)
    if stream.chain.auto:  # from rows drawn from all of them; the rest is as if it had been given
        few = generator(stream.chain.seed, "order").permutation(n)[: stream.start_rows]
        decided = stream.decide(rows.take(np.sort(few)).canonical(), rows)
        stream = replace(stream, learned=decided.learned)
    chain = stream.chain
    in_order = chain.basis.kind in ("growing", "reduced")
    # A sample of all rows has gross errors in it: a robust stream weights them in a first pass.
    if stream.wants_second_pass and not (in_order or chain.robust):
        begun = with_sampled_landmarks(stream, rows)
        if begun is not None:
            return take_signs(fold_in_one_pass(begun, rows))
    order = np.arange(n) if in_order else generator(chain.seed, "order").permutation(n)
    stream = stream.start(rows.take(order[: stream.start_rows]), rows).without_signs()
    if not stream.wants_second_pass:
        return take_signs(stream.fold(rows))
    if chain.tracker.forgetting != 1.0:
        order = np.arange(n)  # the last rows are those that count
    # The first pass only looks for points: it learns no targets.
    untargeted = Rows(rows.X, rows.weights)
    first = begin_first_pass(stream.with_chain(regress_inputs=False))
    for start in range(0, n, stream.batch_size):
        first = first.fold(untargeted.take(order[start : start + stream.batch_size]))
    whole = first.with_chain(regress_inputs=stream.chain.regress_inputs)
    return take_signs(fold_in_one_pass(begin_second_pass(whole), rows))


def fold_in_one_pass(stream: Stream, rows: Rows) -> Stream:
    """Fold rows that are all at hand in a basis that stays: in blocks as long as is fast."""
    longer = 2 ** int(math.log2(max(1, PASS_NUMBERS // stream.chain.basis.size)))
    size = max(stream.batch_size, longer)
    sample, observer = sample_of_all(stream, rows), stream.begun.observer
    if sample is not None and observer is not None:
        unsampled = replace(stream.begun, observer=observer.without_sample())
        found = stream.with_state(unsampled).fold(rows, frozen=True, size=size)
        assert found.begun.observer is not None
        observer = replace(found.begun.observer, sample=sample)
        return found.with_state(replace(found.begun, observer=observer))
    return stream.fold(rows, frozen=True, size=size)


def sample_of_all(stream: Stream, rows: Rows) -> AuditSample | None:
    """The audit sample of all rows at once: the same as block by block, faster.

    None where there is none, or where blocks say more of the rows than their numbers: what fills
    gaps, what weight rows lose that do not fit, how large energies are that have no limit.
    """
    chain, state = stream.chain, stream.begun
    audit = None if state.observer is None else state.observer.sample
    limit = chain.kernel.max_squared_norm
    plain = isinstance(rows.X, np.ndarray) and stream.device is None and not stream.fills
    if audit is None or state.judge is not None or not plain or not math.isfinite(limit):
        return None
    clock = forget(chain.tracker.forgetting, rows[:1], chain.seed, 0)[0]
    audit = audit.named_by(stream.prepared(rows.X[:NAMING_ROWS, :]))
    audit = audit.offer_all((rows.X,), rows.weights, clock)
    return replace(audit, rows=(stream.prepared(audit.rows[0]),))


def with_sampled_landmarks(stream: Stream, rows: Rows) -> Stream | None:
    """The stream with landmarks for a sample of all rows, before the first of them.

    None if the sample has fewer different rows than there may be landmarks: there may be others
    among the rest, which a first pass finds.
    """
    chain, n = stream.chain, len(rows)
    clock, faded = forget(chain.tracker.forgetting, rows, chain.seed, 0)
    empty = UniformSample(chain.basis.start_rows(of_all=True))
    sample = empty.offer_all((rows.X,), faded, clock)
    begun = stream.start_from(sample, n, rows)
    return None if chain.basis.admits(begun.begun.basis) and len(sample) < n else begun


def begin_first_pass(stream: Stream) -> Stream:
    """The stream that looks for points, and gathers nothing that a second pass gathers again.

    Except for a robust stream, which evaluates its rows by what it has learned.
    """
    only_points = stream.wants_second_pass and not stream.chain.robust
    same = stream.chain.only_points == only_points
    return stream if same else stream.with_chain(only_points=only_points)


def first_pass_fraction(stream: Stream) -> float:
    """About how much of the time of two passes the first one takes."""
    chain, state = stream.chain, stream.state
    drawing = chain.only_points and chain.basis.kind == "adaptive"
    return DRAWING if drawing and not (state and chain.basis.admits(state.basis)) else 0.5


def begin_second_pass(stream: Stream) -> Stream:
    """The finished basis, with no statistics yet: what a second pass over the rows begins with."""
    with cores():
        before = stream.caught_up
        stream = with_final_landmarks(before).with_chain(only_points=False).blank()
    judged = replace(stream.begun, judge=judge_of(before, stream))
    return stream.with_state(judged).without_signs()


def judge_of(before: Stream, after: Stream) -> RobustWeights | None:
    """What rows were judged by, in the coordinates of the finished basis."""
    judge = before.begun.judge
    old, new = before.begun.basis.span, after.begun.basis.span
    if judge is None or new is old:
        return judge
    return judge.rebase(transition(before.chain.kernel, old, new))


def with_final_landmarks(stream: Stream) -> Stream:
    """The stream with landmarks for a second pass: for the sample that the first one has drawn."""
    chain, state = stream.chain, stream.begun
    if chain.basis.kind != "adaptive":
        return stream
    basis = state.basis.reprojected(chain.kernel)
    if basis.can_gain and not chain.basis.admits(basis):  # else all different rows are landmarks
        sample = basis.sample
        X, weights = sample.rows[0], sample.stands_for()
        start = Start(X, weights, chain.seed, chain.wanted, sample, state.n_rows)
        basis = chain.basis.begin(chain.kernel, start)
    return stream.with_state(replace(state, basis=basis))


def finish(stream: Stream) -> Stream:
    """The stream after the last row of a second pass, as ``learn_all`` leaves it."""
    if len(stream.waiting):
        rows = stream.waiting.join()
        stream = replace(stream.fold(rows, frozen=True), waiting=Buffer())
    return take_signs(stream)


def take_signs(stream: Stream) -> Stream:
    """Take the signs from the finished model: which rows came first no longer matters."""
    return stream.with_state(signs.final(stream.chain, stream.begun))
