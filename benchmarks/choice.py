"""What a model chooses for itself, beside the best of a grid: the table of docs/auto.md.

    python -m benchmarks.choice --data FOLDER [docs/auto.md]

Eight sets with classes. Half of the rows learn (at most 2,500), the others judge (at most 2,500);
where a set is small it is halved again and again, until 2,500 rows have judged, and all numbers are
means (one row of 200 would be half a point). The grid has twelve widths, from 64 times as wide as
the median's to 32 times as narrow (in gamma), with 5, 10, 20 and 40 components and 256 points: of
these 48 models the best *on the rows that judge*. Beside it: ``suggest(X, y)`` for each probe; all
three of ``gamma``, ``n_components`` and ``basis`` at ``"auto"``, which know no classes. Probes: a
ridge classifier of the standardised scores, and the five nearest neighbours.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.linear_model import RidgeClassifierCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from benchmarks.parts import Row, markdown, put
from kernelstream import StreamingKernelPCA, kernels, suggest
from kernelstream.stream.choosing import FACTORS

MOST, POINTS, COMPONENTS = 2_500, 256, (5, 10, 20, 40)
FAULTS = (1, 2, 4, 5, 6, 7, 8, 12, 14, 18)
PROBES: dict[str, Any] = {
    "linear": lambda: make_pipeline(StandardScaler(), RidgeClassifierCV([0.01, 1.0, 10.0, 100.0])),
    "neighbours": lambda: KNeighborsClassifier(5),
}


def sets(folder: Path) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Rows and classes by name; the folder's README says what they are."""

    def smaller(file: str, rows: int, columns: int, by: int) -> np.ndarray:
        images = np.load(folder / file)["images"]
        pieces = images.reshape(len(images), rows, by, columns, by).mean(axis=(2, 4))
        return pieces.reshape(len(images), -1) / 255.0

    digits, cancer = load_digits(), load_breast_cancer()
    mnist, adult = np.load(folder / "mnist.npz"), np.load(folder / "adult_a9a.npz")
    market, plant = np.load(folder / "elec2.npz"), np.load(folder / "tennessee_eastman.npz")
    faults = np.vstack([plant[f"d{k:02d}"] for k in FAULTS]).astype(float)
    return {
        "digits": (digits.data / 16.0, digits.target),
        "breast cancer": (StandardScaler().fit_transform(cancer.data), cancer.target),
        "MNIST": (mnist["x_train"].reshape(-1, 784) / 255.0, mnist["y_train"]),
        "adult (a9a)": (adult["x_train"].astype(float), adult["y_train"]),
        "Elec2": (StandardScaler().fit_transform(market["X"]), market["y"]),
        "Tennessee Eastman": (
            StandardScaler().fit_transform(faults),
            np.repeat(np.arange(len(FAULTS)), 480),
        ),
        "Yale B": (smaller("yale_b.npz", 24, 21, 4), np.load(folder / "yale_b.npz")["subject"]),
        "Olivetti": (
            smaller("olivetti.npz", 16, 16, 4),
            np.load(folder / "olivetti.npz")["subject"],
        ),
    }


@dataclass(frozen=True)
class Halves:
    """Rows that learn and rows that judge, with their classes."""

    seen: np.ndarray
    unseen: np.ndarray
    y: np.ndarray
    judged: np.ndarray

    @classmethod
    def of(cls, X: np.ndarray, y: np.ndarray, seed: int = 0) -> Halves:
        order = np.random.default_rng(seed).permutation(len(X))[: 2 * MOST]
        one, two = np.array_split(order, 2)
        return cls(X[one], X[two], y[one], y[two])

    @classmethod
    def several(cls, X: np.ndarray, y: np.ndarray, judged: int) -> list[Halves]:
        """As many halvings as it takes for so many rows to judge: a set may be small."""
        return [cls.of(X, y, seed) for seed in range(max(1, -(-judged // ((len(X) + 1) // 2))))]

    def scores(self, model: StreamingKernelPCA) -> tuple[np.ndarray, np.ndarray]:
        return model.fit(self.seen).transform(self.seen), model.transform(self.unseen)

    def told(self, probe: str, S: np.ndarray, T: np.ndarray) -> float:
        """Per cent of the rows that judge whose class a probe of the scores tells right."""
        return 100.0 * PROBES[probe]().fit(S, self.y).score(T, self.judged)


def on_grid(halves: Halves, points: int) -> dict[str, np.ndarray]:
    """What each probe tells with each width and number of components."""
    median, found = kernels.RBF().fix(halves.seen).gamma, dict[str, list[list[float]]]()
    for factor in FACTORS:
        gamma = median * factor
        model = StreamingKernelPCA(max(COMPONENTS), gamma=gamma, basis=points, random_state=0)
        S, T = halves.scores(model)
        for probe in PROBES:
            told = [halves.told(probe, S[:, :r], T[:, :r]) for r in COMPONENTS]
            found.setdefault(probe, []).append(told)
    return {probe: np.array(told) for probe, told in found.items()}


def table(
    given: dict[str, tuple[np.ndarray, np.ndarray]], points: int = POINTS, judged: int = MOST
) -> list[Row]:
    rows: list[Row] = []
    for name, (X, y) in given.items():
        several = Halves.several(X, y, judged)
        grids = [on_grid(halves, points) for halves in several]
        alone = [
            StreamingKernelPCA("auto", gamma="auto", basis="auto", random_state=0).fit(halves.seen)
            for halves in several
        ]
        for probe in PROBES:
            found = [suggest(h.seen, h.y, probe=probe, random_state=0) for h in several]
            chosen = mean(
                h.told(probe, *h.scores(f.estimator(random_state=0)))
                for h, f in zip(several, found, strict=True)
            )
            by_itself = mean(
                h.told(probe, model.transform(h.seen), model.transform(h.unseen))
                for h, model in zip(several, alone, strict=True)
            )
            best = float(np.mean([grid[probe] for grid in grids], axis=0).max())
            median = kernels.RBF().fix(several[0].seen).gamma
            rows.append(
                {
                    "rows": name,
                    "halvings": f"{len(several)}",
                    "probe": probe,
                    "best of 48": f"{best:.1f}",
                    "`suggest(X, y)`": f"{chosen:.1f}",
                    "less": f"{best - chosen:.1f}",
                    "with": f"γ × {found[0].gamma / median:.3g}, r = {found[0].n_components}, "
                    f"m = {found[0].n_points}",
                    'all `"auto"`': f"{by_itself:.1f}",
                    "with ": f"γ × {alone[0].kernel_.gamma / median:.3g}, "
                    f"r = {alone[0].n_components_}, m = {len(alone[0].basis_points_)}",
                }
            )
            print(rows[-1], flush=True)
    return rows


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.choice", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "--data",
        type=Path,
        required=True,
        help="folder with mnist, adult_a9a, elec2, tennessee_eastman, yale_b and olivetti (.npz)",
    )
    parser.add_argument(
        "--judged", type=int, default=MOST, help="halvings go on until so many rows have judged"
    )
    parser.add_argument("page", type=Path, nargs="?", help="where the table goes")
    options = parser.parse_args(arguments)
    with threadpool_limits(1):
        rows = table(sets(options.data), judged=options.judged)
    text = markdown(rows)
    within = {row["rows"] for row in rows} - {r["rows"] for r in rows if float(r["less"]) > 1.0}
    print(f"{text}\n\nWithin 1 point with both probes: {len(within)} of {len(rows) // 2} sets.")
    if options.page is not None:
        page = put(options.page.read_text(), "Choice", text, "benchmarks.choice")
        options.page.write_text(page)


if __name__ == "__main__":
    main()
