"""What bad rows do to a plain and to a robust model: the tables of docs/robust.md.

    python -m benchmarks.robust --data FOLDER [docs/robust.md]

Made-up rows of which a tenth is replaced by gross outliers: scattered over the stream in all
directions, in one cluster, or all of them at its start. The angle is the largest between the
components of a model and those of the good rows alone. Clean rows are real ones: the share of the
variance that exact kernel PCA of rows not seen would capture, and what is lost of it by
``robust=True``. Given a page, the tables are put between its marks, else they are printed.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from threadpoolctl import threadpool_limits

from benchmarks.parts import Row, markdown, put
from kernelstream import StreamingKernelPCA, kernels, metrics

ROWS, SHARE, HELD_OUT = 4_000, 0.1, 2_000
KINDS = ("scattered", "clustered", "at the start")


def gaussian(rng: np.random.Generator) -> np.ndarray:
    """Three directions of much variance among ten."""
    scales = [5.0, 4.0, 3.0, 1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4]
    return rng.normal(size=(ROWS, 10)) * scales


def curved(rng: np.random.Generator) -> np.ndarray:
    """A surface in four dimensions."""
    t = rng.uniform(-2.0, 2.0, size=(ROWS, 2))
    surface = np.c_[t[:, 0], t[:, 1], t[:, 0] ** 2 / 2.0, np.sin(2.0 * t[:, 1])]
    return surface + 0.1 * rng.normal(size=surface.shape)


CASES: dict[str, tuple[Any, Any]] = {
    "Gaussian, linear": (gaussian, kernels.Linear()),
    "Gaussian, polynomial of degree 2": (
        gaussian,
        kernels.Polynomial(degree=2, gamma=0.02, coef0=1.0),
    ),
    "surface, polynomial of degree 3": (
        curved,
        kernels.Polynomial(degree=3, gamma=0.5, coef0=1.0),
    ),
    "Gaussian, wide RBF": (gaussian, kernels.RBF(0.002)),
    "Gaussian, narrow RBF": (gaussian, kernels.RBF(0.02)),
}


def spoiled(X: np.ndarray, kind: str, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Rows of which a share is far out, and which these are."""
    n, d = X.shape
    count = int(SHARE * n)
    bad = np.arange(count) if kind == KINDS[2] else rng.choice(n, count, replace=False)
    far = 5.0 * float(np.abs(X).max())
    if kind == "clustered":
        away = far * np.eye(d)[-1] + 0.1 * rng.normal(size=(count, d))
    else:
        away = rng.normal(size=(count, d))
        away *= far / np.linalg.norm(away, axis=1)[:, None]
    X = X.copy()
    X[bad] = away
    return X, np.isin(np.arange(n), bad)


def turned() -> list[Row]:
    """Angles, for ``fit`` and for one pass."""
    rows: list[Row] = []
    for name, (made, kernel) in CASES.items():
        for kind in KINDS:
            rng = np.random.default_rng(1)
            X, bad = spoiled(made(rng), kind, rng)
            row: dict[str, Any] = {"rows and kernel": name, "outliers": kind}
            for verb in ("fit", "partial_fit"):
                good, plain, robust = (
                    getattr(
                        StreamingKernelPCA(
                            3, kernel=kernel, basis=60, robust=robust, random_state=0
                        ),
                        verb,
                    )(each)
                    for each, robust in ((X[~bad], False), (X, False), (X, True))
                )
                for title, model in (("plain", plain), ("robust", robust)):
                    angle = np.rad2deg(metrics.principal_angles(good, model).max())
                    row[f"`{verb}`, {title}"] = f"{angle:.1f}°"
            rows.append(row)
    return rows


def sets(folder: Path) -> dict[str, np.ndarray]:
    """Real rows by name; the folder's README says what they are."""

    def images(file: str, name: str) -> np.ndarray:
        found = np.load(folder / file)[name]
        return (found.reshape(len(found), -1) / np.float32(255)).astype(np.float32)

    return {
        "MNIST": images("mnist.npz", "x_train")[:10_000],
        "adult (a9a)": np.load(folder / "adult_a9a.npz")["x_train"][:10_000].astype(np.float32),
        "Elec2": np.load(folder / "elec2.npz")["X"],
        "Frey faces": images("frey.npz", "images"),
        "digits": load_digits().data / 16.0,
    }


def lost(given: dict[str, np.ndarray], points: int = 128) -> list[Row]:
    """What clean rows lose."""
    rows: list[Row] = []
    for name, X in given.items():
        order = np.random.default_rng(0).permutation(len(X))
        held_out = min(HELD_OUT, len(X) // 4)
        unseen, seen = X[order[:held_out]], X[order[held_out:]]
        for r in (2, 10):
            row: dict[str, Any] = {"rows": name, "r": r}
            for kernel in ("rbf", "linear", "poly"):
                for verb in ("fit", "partial_fit"):
                    plain, robust = (
                        getattr(
                            StreamingKernelPCA(
                                r, kernel=kernel, basis=points, robust=robust, random_state=0
                            ),
                            verb,
                        )(seen)
                        for robust in (False, True)
                    )
                    shares = [metrics.captured_variance(model, unseen) for model in (plain, robust)]
                    row[f"{kernel}, `{verb}`"] = f"{shares[0] - shares[1]:+.4f}".replace("-", "−")
            rows.append(row)
    return rows


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.robust", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "--data",
        type=Path,
        required=True,
        help="folder with mnist.npz, adult_a9a.npz, elec2.npz, frey.npz",
    )
    parser.add_argument("page", type=Path, nargs="?", help="where the tables go")
    options = parser.parse_args(arguments)
    with threadpool_limits(1):
        tables = {"Turned": turned(), "Lost": lost(sets(options.data))}
    for name, rows in tables.items():
        text = markdown(rows)
        print(f"{name}\n\n{text}\n")
        if options.page is not None:
            page = put(options.page.read_text(), name, text, "benchmarks.robust")
            options.page.write_text(page)


if __name__ == "__main__":
    main()
