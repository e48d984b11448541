"""The step as numbers: what a block leaves in sums and signs, alone or together with others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kernelstream import StreamingKernelPCA, landmarks, papers, trackers
from kernelstream.stream.state import Rows
from kernelstream.stream.step import MOST_COMPONENTS, Chain
from tests.conftest import ledger_of

X = np.random.default_rng(0).normal(size=(400, 3))


def chain_of(**parameters: Any) -> Chain:
    model = StreamingKernelPCA(
        2, gamma=0.3, basis=landmarks.Landmarks(20), random_state=0, **parameters
    )
    stream = model.partial_fit(X[:300])._stream
    assert stream is not None
    return stream.chain


@pytest.mark.parametrize("beta", [1.0, 0.99])
@pytest.mark.parametrize("weighted", [False, True])
def test_learn_of_several_blocks_is_that_of_each_in_turn(beta: float, weighted: bool) -> None:
    chain = chain_of(tracker=trackers.Covariance(forgetting=beta))
    weights = np.random.default_rng(1).uniform(0.5, 2.0, size=400) if weighted else None
    one = together = chain.begin(X[:100], None)
    cuts = [(a, a + 50) for a in range(0, 400, 50)]
    blocks = [Rows(X[a:b], None if weights is None else weights[a:b]) for a, b in cuts]
    for block in blocks:
        one = chain.learn(one, [block])
    assert chain.add_up(together, blocks[0], False)
    together = chain.learn(together, blocks)
    own = np.ones(400) if weights is None else weights
    left = own * beta ** np.arange(399.0, -1.0, -1.0)
    Z = chain.basis.project(chain.kernel, one.basis, X).Z
    for state in (one, together):
        assert state.n_rows == 400
        assert state.moments.weight == pytest.approx(left.sum(), rel=1e-12)
        np.testing.assert_allclose(state.moments.total, left @ Z, atol=1e-10)
        np.testing.assert_allclose(state.tracker.scatter, (Z.T * left) @ Z, atol=1e-10)
        assert state.moments.squared_norm == pytest.approx(left.sum(), rel=1e-12)
        assert ledger_of(state).longest == 50 and ledger_of(state).blocks == 8
    assert together.next_signs == one.next_signs
    assert one.signs is not None and together.signs is not None
    np.testing.assert_allclose(together.signs, one.signs, atol=1e-12)


def test_what_a_file_may_say_of_a_chain() -> None:
    chain = chain_of()
    for r in (1, MOST_COMPONENTS, 0.5, 1.0, None):
        replace(chain, n_components=r).check({})
    for r in (0, MOST_COMPONENTS + 1, 0.0, 1.5):
        with pytest.raises(ValueError, match=f"{r} components"):
            replace(chain, n_components=r).check({})
    sequential = replace(chain, tracker=papers.LMS())
    sequential.check({})
    with pytest.raises(ValueError, match=r"0\.5 components for LMS"):
        replace(sequential, n_components=0.5).check({})
    for changes in ({"certify": "maybe"}, {"seed": 2**32}):
        with pytest.raises(ValueError, match=r"certify=.*seed="):
            replace(chain, **changes).check({})
    replace(chain, seed=2**32 - 1).check({})


# -- robust streams, and a basis that is frozen


def test_the_first_judge_knows_how_many_rows_it_has_seen() -> None:
    """It is renewed when a tenth more have come, not with the first block."""
    chain = replace(chain_of(), robust=True)
    state = chain.begin(X[:200], None)
    assert state.judge is not None and state.judge.renewed_at == 200
    after = chain.learn(state, [Rows(X[:200])])
    assert after.judge is not None and after.judge.renewed_at == 200
    later = chain.learn(after, [Rows(X[200:221])])
    assert later.judge is not None and later.judge.renewed_at == 221


def test_a_frozen_basis_neither_learns_nor_changes() -> None:
    chain = replace(chain_of(), basis=landmarks.Centroids(20))
    first = chain.learn(chain.begin(X[:300], None), [Rows(X[:50])])
    blocks = [Rows(X[a : a + 50]) for a in range(50, 400, 50)]
    frozen = chain.learn(first, blocks, frozen=True)
    assert frozen.basis is first.basis and frozen.n_rows == 400
    free = chain.learn(first, blocks)
    assert len(free.basis.sample) > len(first.basis.sample) and free.n_rows == 400
