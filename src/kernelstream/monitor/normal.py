"""The model of normal operation as a value: whitening, points, moments; how it is learned."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from kernelstream.bases import Basis
from kernelstream.files import stored
from kernelstream.kernels import RBF
from kernelstream.monitor.index import Index, Scores
from kernelstream.monitor.products import rows_times
from kernelstream.monitor.scaling import TRACKER, Gathered, Product, Scaling
from kernelstream.stream.state import Model, Parts
from kernelstream.stream.stream import learn_all

BLOCK = 1024  # rows of the pass that learns the points


@stored
@dataclass(frozen=True)
class Setting:
    """What is chosen before normal operation is learned."""

    whiten: bool
    width: float  # c in exp(−|u − v|²/(c·D))
    ridge: float  # e in ε = e · tr S / D
    floor: float
    basis: Basis
    seed: int


@stored
@dataclass(frozen=True)
class Normal:
    """Normal operation: moments of lagged rows, moments of coordinates, and what follows."""

    setting: Setting
    rows: Gathered
    coordinates: Gathered
    scaling: Scaling
    index: Index

    def score(self, R: np.ndarray, product: Product = rows_times) -> Scores:
        """M, T² and SPE of lagged rows."""
        return self.index.score(self.scaling.apply(R, product), product)

    @property
    def points(self) -> np.ndarray:
        """The points of the model as lagged rows, (m, D)."""
        return (
            self.scaling.mean + np.linalg.solve(self.scaling.whitener.T, self.index.span.points.T).T
        )

    def adapted(self, R: np.ndarray, forgetting: float) -> Normal:
        """Normal operation after more rows.

        They are seen as they were scored, before the whitening learns from them.
        """
        Z = self.index.coordinates(self.scaling.apply(R, np.matmul), np.matmul)
        return self._with(self.rows.learn(R, forgetting), self.coordinates.learn(Z, forgetting))

    def recentred(self, R: np.ndarray) -> Normal:
        """Normal operation about the mean of the given rows."""
        return self._with(self.rows.moved_to(R.mean(axis=0)), self.coordinates)

    def _with(self, rows: Gathered, coordinates: Gathered) -> Normal:
        s = self.setting
        return replace(
            self,
            rows=rows,
            coordinates=coordinates,
            scaling=Scaling.of(rows, s.whiten, s.floor),
            index=Index.of(self.index.kernel, self.index.span, coordinates, s.ridge),
        )


@dataclass(frozen=True)
class Whitened:
    """Rows before the kernel is chosen: what settings that differ in width and ridge share."""

    rows: Gathered
    scaling: Scaling
    U: np.ndarray

    @classmethod
    def of(cls, R: np.ndarray, whiten: bool, floor: float) -> Whitened:
        """Whiten lagged rows by their own moments."""
        rows = Gathered.of(R)
        scaling = Scaling.of(rows, whiten, floor)
        return cls(rows, scaling, scaling.apply(R, np.matmul))


def learn_normal(R: np.ndarray, setting: Setting) -> Normal:
    """Learn normal operation from lagged rows in reference units."""
    return learn_whitened(Whitened.of(R, setting.whiten, setting.floor), setting)


def learn_whitened(whitened: Whitened, setting: Setting) -> Normal:
    """Learn points and moments from whitened rows."""
    U = whitened.U
    kernel = RBF(gamma=1.0 / (setting.width * U.shape[1]))
    parts = Parts(kernel, setting.basis, TRACKER, True, None, setting.seed, certify=False)
    model = learn_all(Model(parts, BLOCK, U.shape[1], "float64"), U, None)
    assert model.state is not None
    span = setting.basis.span(model.state.basis)
    assert span is not None  # the estimator refuses a basis without points
    n = model.state.moments.weight
    coordinates = Gathered(model.state.moments, model.state.tracker, n)
    index = Index.of(kernel, span, coordinates, setting.ridge)
    return Normal(setting, whitened.rows, coordinates, whitened.scaling, index)
