"""The same rows give the same model, however they are cut, queried, stored or laid out in memory.

"The same" is meant to the bit: the bytes of the model file are compared.
"""

from __future__ import annotations

import functools
import warnings

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from kernelstream import StreamingKernelPCA, bases, schedules, storage, trackers
from kernelstream.bases.centroids import Centroids
from kernelstream.stream import settled
from tests import naive
from tests.conftest import CHAINS, Chain


def to_bytes(model):
    """The model file, less the parameters as the user wrote them."""
    return storage.to_bytes({"model": model._model})


# -- cutting


@st.composite
def cuttings(draw, n):
    """Ways to bring n rows: pieces, each with how it is brought and what happens after it."""
    size = st.one_of(st.just(1), st.integers(1, 9), st.integers(1, 130), st.integers(1, n))
    pieces, start = [], 0
    while start < n:
        stop = min(n, start + draw(size)) if len(pieces) < 12 else n
        how = draw(st.sampled_from(["call", "call", "row by row", "fortran", "strided"]))
        then = draw(st.sampled_from(["", "", "query", "reload", "copy"]))
        pieces.append((start, stop, how, then))
        start = stop
    return pieces


def bring(model, X, weights, pieces):
    """Bring the rows as the cutting says."""
    probe = X[:3]
    for start, stop, how, then in pieces:
        rows = X[start:stop]
        w = None if weights is None else weights[start:stop]
        dense = isinstance(X, np.ndarray)
        if how == "row by row" and w is None:
            for i in range(rows.shape[0]):
                model.learn_one(rows[i] if dense else rows[[i]])
        elif how == "row by row":
            for i in range(rows.shape[0]):
                model.partial_fit(rows[i : i + 1], sample_weight=w[i : i + 1])
        elif how == "fortran" and dense:
            model.partial_fit(np.asfortranarray(rows), sample_weight=w)
        elif how == "strided" and dense:
            model.partial_fit(np.repeat(rows, 2, axis=1)[:, ::2], sample_weight=w)
        else:
            model.partial_fit(rows, sample_weight=w)
        if then == "query":
            model.transform(probe)
            assert len(model.explained_variance_ratio_) == model.n_components_
        elif then == "reload":
            model._model = storage.from_bytes(to_bytes(model))["model"]
        elif then == "copy":
            rows = rows + 0.0 if dense else rows.copy()
            del rows
    return model


VARIANTS = {
    "plain": {},
    "float32": {},
    "csr": {},
    "weights": {},
    "forgetting": dict(forgetting=0.99),
    "forgetting, weights": dict(forgetting=0.95),
    "decided by the start": dict(gamma=None, scale="standard"),
    "uncentred, blocks of one": dict(center=False, batch_size=1),
    "blocks of 300": dict(batch_size=300, n_components=1),
}


@functools.cache
def given_rows(chain: Chain, variant: str):
    """Rows and weights of a variant. A few rows are repeated, a few are zero."""
    n = chain.n_rows
    if variant == "uncentred, blocks of one":  # slow: as far as the start and a little beyond
        n = min(n, 620)
    X = chain.rows(n_rows=n)
    X[5:8] = X[4]
    X[20] = 0.0
    rng = np.random.default_rng(5)
    weights = None
    if "weights" in variant:
        weights = rng.uniform(0.2, 3.0, size=n)
        weights[30:90] = 1.0
    if variant == "float32":
        X = X.astype(np.float32)
    if variant == "csr":
        X = scipy.sparse.csr_matrix(X * (rng.random(X.shape) < 0.7))
    return X, weights


def new_model(chain: Chain, variant: str) -> StreamingKernelPCA:
    return chain.estimator(**VARIANTS[variant])


@functools.cache
def in_one_call(chain: Chain, variant: str) -> bytes:
    X, weights = given_rows(chain, variant)
    return to_bytes(new_model(chain, variant).partial_fit(X, sample_weight=weights))


@pytest.mark.filterwarnings("ignore:Hebbian. the step was too long:RuntimeWarning")
@pytest.mark.parametrize("variant", VARIANTS)
@given(data=st.data())
def test_any_cutting_gives_the_same_bytes(chain, variant, data):
    if variant == "decided by the start" and isinstance(chain.basis(), bases.Everything):
        pytest.skip("500 rows before the start: the same code as for Distance, but slow")
    X, weights = given_rows(chain, variant)
    pieces = data.draw(cuttings(X.shape[0]))
    model = bring(new_model(chain, variant), X, weights, pieces)
    assert to_bytes(model) == in_one_call(chain, variant)
