"""A+ (Timofte, De Smet and Van Gool 2014), the peer of super-resolution by patches.

Adjusted anchored neighbourhood regression with the paper's settings: first and second gradients of
the image enlarged by bicubic interpolation, 3×3 low-resolution pixels a patch, reduced by PCA to
99.9 % of their energy; a dictionary of 1,024 atoms by K-SVD with three atoms a patch; for each atom
a ridge regression (λ = 0.1) on the 2,048 nearest of up to five million patches of unit length,
which come from twelve sizes of each photograph; each patch is enlarged by the regression of the
atom it correlates with most, and blocks that overlap are averaged.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Self

import numpy as np

from kernelstream.images.files import resized
from kernelstream.images.patches import overlapped, windows

ATOMS, NEIGHBOURS, RIDGE = 1024, 2048, 0.1
SIZES, SHRINK = 12, 0.98
SAMPLES, DICTIONARY_SAMPLES = 5_000_000, 100_000
SPARSITY, ROUNDS = 3, 40
ENERGY = 0.999
BLOCK = 20_000
TINY = 1e-12


class Anchored:
    """A+: learns from high-resolution photographs (floats), enlarges low-resolution ones."""

    def __init__(self, scale: int = 2, samples: int = SAMPLES, seed: int = 0):
        self.scale = scale
        self.samples = samples
        self.seed = seed

    def fit(self, photographs: Iterable[np.ndarray]) -> Self:
        """Find the atoms, and the regression of each from the patches nearest to it."""
        rng = np.random.default_rng(self.seed)
        images = [
            resized(image, tuple(round(length * SHRINK**k) for length in image.shape))
            for image in photographs
            for k in range(SIZES)
        ]
        share = -(-self.samples // len(images))
        pairs = [self._pairs(image, share, rng) for image in images]
        raw, detail = (np.concatenate(part) for part in zip(*pairs, strict=True))
        some = raw[:: max(1, len(raw) // 200_000)]
        values, vectors = np.linalg.eigh(some.T @ some)
        kept = int(np.sum(np.cumsum(values) > (1.0 - ENERGY) * np.sum(values)))
        self.directions_ = vectors[:, -kept:].astype(np.float32)
        features = raw @ self.directions_
        length = np.linalg.norm(features, axis=1, keepdims=True)
        told = length[:, 0] > TINY
        features, detail = features[told] / length[told], detail[told] / length[told]
        some = rng.choice(len(features), min(DICTIONARY_SAMPLES, len(features)), replace=False)
        self.atoms_ = ksvd(features[some] * length[told][some], ATOMS, rng)
        self.regressions_ = np.stack([regression(atom, features, detail) for atom in self.atoms_])
        return self

    def predict(self, low: np.ndarray) -> np.ndarray:
        """Enlarge a photograph."""
        s = self.scale
        rows, columns = low.shape
        start = resized(low, (rows * s, columns * s))
        frame = np.pad(start, s, mode="edge").astype(np.float32)
        features = (described(frame, s) @ self.directions_).astype(np.float32)
        blocks = np.empty((len(features), (3 * s) ** 2), dtype=np.float32)
        nearest = np.concatenate(
            [
                np.argmax(np.abs(features[i : i + BLOCK] @ self.atoms_.T), axis=1)
                for i in range(0, len(features), BLOCK)
            ]
        )
        order = np.argsort(nearest, kind="stable")
        bounds = np.searchsorted(nearest[order], np.arange(len(self.atoms_) + 1))
        for atom, (first, last) in enumerate(pairwise(bounds)):
            mine = order[first:last]
            blocks[mine] = features[mine] @ self.regressions_[atom]
        around = blocks.reshape(rows, columns, 3 * s, 3 * s)
        total, count = overlapped(around, s), overlapped(np.ones_like(around), s)
        return start + (total / count)[s:-s, s:-s]

    def _pairs(
        self, image: np.ndarray, share: int, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Gradients of some patches of the image that was shrunk and enlarged, and the detail."""
        s = self.scale
        rows, columns = (length // s for length in image.shape)
        high = image[: rows * s, : columns * s]
        start = resized(resized(high, (rows, columns)), high.shape)
        detail = windows((high - start).astype(np.float32), 3 * s, s).reshape(-1, (3 * s) ** 2)
        chosen = rng.permutation(len(detail))[:share]
        return described(start.astype(np.float32), s)[chosen], detail[chosen]


def described(image: np.ndarray, scale: int) -> np.ndarray:
    """First and second gradients on 3×3 coarse pixels, a row for each coarse pixel inside."""
    wide = np.pad(image, 2, mode="edge")
    height, width = image.shape
    planes = []
    for down, across in ((1, 0), (0, 1)):
        back2, back, here, on, on2 = (
            wide[2 + k * down :, 2 + k * across :][:height, :width] for k in range(-2, 3)
        )
        planes += [on - back, 0.5 * back2 - here + 0.5 * on2]
    parts = [windows(plane, 3 * scale, scale).reshape(-1, (3 * scale) ** 2) for plane in planes]
    return np.concatenate(parts, axis=1)


def regression(atom: np.ndarray, features: np.ndarray, detail: np.ndarray) -> np.ndarray:
    """The ridge regression of the patches nearest to an atom."""
    near = np.argpartition(features @ -atom, min(NEIGHBOURS, len(features) - 1))[:NEIGHBOURS]
    X, Y = features[near], detail[near]
    return np.linalg.solve(X.T @ X + RIDGE * np.eye(X.shape[1], dtype=X.dtype), X.T @ Y)


def ksvd(X: np.ndarray, n_atoms: int, rng: np.random.Generator) -> np.ndarray:
    """Approximate K-SVD (Rubinstein, Zibulevsky and Elad 2008): atoms of unit length."""
    atoms = X[rng.choice(len(X), n_atoms, replace=False)]
    atoms = atoms / np.maximum(np.linalg.norm(atoms, axis=1, keepdims=True), TINY)
    for _ in range(ROUNDS):
        support, weights = pursuit(X, atoms)
        rest = X - np.einsum("nk,nkd->nd", weights, atoms[support])
        order = np.argsort(support.ravel(), kind="stable")
        bounds = np.searchsorted(support.ravel()[order], np.arange(n_atoms + 1))
        for atom in range(n_atoms):
            places = order[bounds[atom] : bounds[atom + 1]]
            users, turn = np.divmod(places, SPARSITY)
            mine = weights[users, turn]
            if not np.any(mine):  # nobody needs it: the patch that is explained worst instead
                worst = int(np.argmax(np.einsum("ij,ij->i", rest, rest)))
                atoms[atom] = X[worst] / max(float(np.linalg.norm(X[worst])), TINY)
                rest[worst] = 0.0
                continue
            target = rest[users] + mine[:, None] * atoms[atom]
            new = mine @ target
            atoms[atom] = new / max(float(np.linalg.norm(new)), TINY)
            weights[users, turn] = target @ atoms[atom]
            rest[users] = target - weights[users, turn][:, None] * atoms[atom]
    return atoms


def pursuit(X: np.ndarray, atoms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Orthogonal matching pursuit: for each row the atoms, and their weights."""
    support = np.empty((len(X), SPARSITY), dtype=np.intp)
    weights = np.empty((len(X), SPARSITY), dtype=X.dtype)
    gram = atoms @ atoms.T
    for i in range(0, len(X), BLOCK):
        rows = X[i : i + BLOCK]
        seen = rows @ atoms.T
        left, chosen = seen.copy(), support[i : i + BLOCK]
        for k in range(SPARSITY):
            chosen[:, k] = np.argmax(np.abs(left), axis=1)
            using = chosen[:, : k + 1]
            inner = gram[using[:, :, None], using[:, None, :]] + TINY * np.eye(k + 1)
            right = np.take_along_axis(seen, using, axis=1)
            found = np.linalg.solve(inner, right[:, :, None])[:, :, 0].astype(X.dtype)
            if k + 1 < SPARSITY:
                left = seen.copy()
                for a in range(k + 1):
                    left -= found[:, a, None] * gram[using[:, a]]
                np.put_along_axis(left, using, 0.0, axis=1)
        weights[i : i + BLOCK] = found
    return support, weights
