"""Section 5 as the paper has it, n′ pre-images a vector, beside our compression; ten persons."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.datasets import make_swiss_roll

from kernelstream import kernels
from kernelstream.images.files import resized
from kernelstream.papers import IncrementalKernelPCA
from reproductions.chin_suter_2006 import eigenfaces
from reproductions.frame import claim

R = 5
PREIMAGES = (2, 8)
PERSONS = 10  # those of the first release of Yale B, the paper's


def experiment(X: np.ndarray, tiny: bool) -> dict[str, Any]:
    """Variance in R components, as a share of batch kernel PCA's, at equal numbers of points."""
    n = 150 if tiny else 400
    roll = make_swiss_roll(n, random_state=0)[0]
    data = {"parabola": (X[:n], 2.0), "swiss roll": (roll / roll.std(axis=0), 1.0)}
    return {name: shares(rows, gamma, tiny) for name, (rows, gamma) in data.items()}


def shares(X: np.ndarray, gamma: float, tiny: bool) -> dict[str, Any]:
    kernel = kernels.RBF(gamma=gamma)
    centring = np.eye(len(X)) - 1.0 / len(X)
    best = np.linalg.eigvalsh(centring @ kernel(X) @ centring)[::-1][:R].sum()
    found: dict[str, Any] = {}
    for n in PREIMAGES[:1] if tiny else PREIMAGES:
        points = (R + 1) * n
        models = {
            "paper": IncrementalKernelPCA(R, kernel=kernel, n_preimages=n),
            "ours": IncrementalKernelPCA(R, kernel=kernel, n_points=points),
        }
        for sharing in ("separate", "shared"):
            models[sharing] = IncrementalKernelPCA(R, kernel=kernel, n_preimages=n, sharing=sharing)
        found[str(points)] = {
            name: float(np.sum(model.fit_transform(X).var(axis=0)) * len(X) / best)
            for name, model in models.items()
        }
    return found


def ten_persons(arrays: dict[str, np.ndarray], tiny: bool) -> dict[str, Any]:
    """Table 2 on the paper's ten persons: few and many training faces, both compressions."""
    subject = arrays["subject"].astype(int)
    chosen = np.flatnonzero(np.isin(subject, np.unique(subject)[:PERSONS]))
    shape = (eigenfaces.SIDE, eigenfaces.SIDE)
    faces = np.stack([resized(arrays["images"][i] / 255.0, shape).ravel() for i in chosen])
    standard = (faces - faces.mean(axis=1, keepdims=True)) / faces.std(axis=1, keepdims=True)
    subject = subject[chosen]
    order = np.random.default_rng(0).permutation(len(faces))
    few, many = (30, 60) if tiny else (110, 540)
    r, points = (4, 10) if tiny else (eigenfaces.R, 74)
    test = order[many:]
    found: dict[str, Any] = {"faces": len(faces), "few": few, "many": many, "points": points}
    for pixels, rows in (("raw", faces), ("standardised", standard)):
        for name, kernel in eigenfaces.KERNELS.items():
            if pixels == "standardised" and name == "rbf":
                kernel = kernels.RBF(gamma=0.5 / 20.0**2)  # rows are 20 apart in these units
            for size, n in (("few", few), ("many", many)):
                train = order[:n]
                models: dict[str, Any] = {
                    "batch": eigenfaces.batch(kernel, r),
                    "ours": IncrementalKernelPCA(r, kernel=kernel, n_points=points),
                    "paper": IncrementalKernelPCA(r, kernel=kernel, n_preimages=2),
                }
                for method, model in models.items():
                    error = eigenfaces.neighbours(
                        model, rows[train], subject[train], rows[test], subject[test]
                    )
                    found[f"{pixels}.{name}.{size}.{method}".replace(".", "_")] = error
    return found


def claims(found: dict[str, Any] | None, persons: dict[str, Any] | None) -> list[dict[str, Any]]:
    """Both compressions, at equal points, and table 2 on ten persons."""
    rows = []
    if found is not None:
        listed = "; ".join(
            f"{name}, "
            + ", ".join(
                f"{points} points {s['separate']:.2f} / {s['shared']:.2f} / {s['paper']:.2f} / "
                f"{s['ours']:.3f}"
                for points, s in each.items()
            )
            for name, each in found.items()
        )
        last = [list(each.values())[-1] for each in found.values()]
        rows.append(
            claim(
                "Section 5 with the paper's own compression, n′ pre-images a vector (separate / "
                "shared / second pass), beside ours at equal points: variance in 5 components, "
                "batch = 1",
                "no critical difference to KPCA",
                listed,
                all(s["paper"] > 0.95 for s in last),
                "on the roll every compression to so few points loses a part. Ours is a little "
                "ahead here; on 800 rows of the roll, with 12 and 24 points, the paper's was. "
                "Figures 2 to 4 and table 2 above are with our compression (`n_points`)",
            )
        )
    if persons is not None:
        few, many = persons["few"], persons["many"]

        def row(pixels: str, name: str) -> str:
            kinds = ("batch", "ours", "paper")
            return f"{pixels} pixels, {name}: " + ", ".join(
                f"{kind} {persons[f'{pixels}_{name}_few_{kind}']:.0f} → "
                f"{persons[f'{pixels}_{name}_many_{kind}']:.0f}"
                for kind in kinds
            )

        rows.append(
            claim(
                f"Table 2 on the paper's ten persons, {few} → {many} training faces (it has 1,000 →"
                " 5,000), error in per cent",
                "rbf 66.84 → 46.58, poly 50.26 → 26.97",
                "; ".join(row(p, k) for p in ("raw", "standardised") for k in ("rbf", "poly")),
                None,
                f"{persons['faces']} images of one pose are to be had, the paper has nine poses; "
                "standardising each image is ours. With 36 components `ours` has "
                f"{persons['points']} points, `paper` 2 pre-images a vector, as many",
            )
        )
    return rows
