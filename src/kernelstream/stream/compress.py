"""Compression of a stream to fewer landmarks.

Compression is a change of landmarks like any other, ``z ← T z``. The variance that the new
landmarks lose is entered in the ledger, so the certificate of the smaller model is as valid as that
of the larger. The landmarks are fixed afterwards, and the sample by which optimized landmarks are
updated is discarded: a file without it holds no rows.
"""

from __future__ import annotations

from dataclasses import replace

from kernelstream.arrays.draws import generator
from kernelstream.arrays.threads import cores
from kernelstream.landmarks.base import KeptCorrection
from kernelstream.landmarks.fixed import FixedState, Landmarks
from kernelstream.landmarks.nystroem import factorise, transition
from kernelstream.landmarks.optimized.fewer import fewer_points
from kernelstream.stream.components import Learned
from kernelstream.stream.stream import Stream


def compress(stream: Stream, m: int) -> Stream:
    """The stream with m points, those rows that wait folded; the stream itself is not changed."""
    whole = stream.settled
    chain, state = whole.chain, whole.begun
    span = state.basis.span
    least = chain.n_components if isinstance(chain.n_components, int) else 1
    if not least <= m < span.points.shape[0]:
        raise ValueError(
            f"compress takes a number of points from {least} (one for each component) to "
            f"{span.points.shape[0] - 1} (fewer than there are), got {m}."
        )
    sample = None
    if chain.tracker.kind != "sequential":
        sample = state.basis.correction(chain.kernel)
    with cores():
        values, vectors, _ = chain.tracker.components(
            state.tracker, state.moments, chain.center, whole.learned.correction(sample)
        )
        rng = generator(chain.seed, "compress", m)
        points = fewer_points(chain.kernel, span, values, vectors, m, least, rng)
        fewer = factorise(chain.kernel, points)
        T = transition(chain.kernel, span, fewer)
        older = None
        if sample is not None:
            origin = None if state.targets is None else state.targets.origin
            older = KeptCorrection.of(sample, state.moments.weight, T, origin)
        # Rows that judge would be larger than the points: what is lost is in the proof.
        state = chain.rebase(state, FixedState(fewer, older), T)
        if state.observer is not None:
            state = replace(state, observer=state.observer.without_sample())
    return replace(whole, learned=Learned(replace(chain, basis=Landmarks(m)), state))
