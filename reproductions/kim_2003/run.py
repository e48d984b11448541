"""Kim, Franz, Schölkopf: the kernel Hebbian algorithm. Figures 1 to 5.

Figure 1: three components of a parabola with noise, degree-2 polynomial kernel, by batch kernel PCA
and by the kernel Hebbian algorithm (KHA). Figures 2 and 3: faces of low resolution (faces.py).
Figure 4: 40 components of 14×14 patches of natural images with a Gaussian kernel, which approach
those of linear PCA as the kernel grows wide. Figure 5: natural images of low resolution
(photographs.py, and with KHA itself textures.py).
"""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import scipy.linalg
from sklearn.decomposition import PCA, KernelPCA

from kernelstream import kernels, metrics
from kernelstream.papers import KernelHebbianPCA
from reproductions import drawing
from reproductions.frame import Data, MissingDataError, claim
from reproductions.kim_2003 import faces, photographs, second_round, textures

SIDE, R = 14, 40  # pixels of a patch, components
SIGMAS = (5.0, 40.0, 160.0)  # in units of [0, 1] pixels; the paper has 40 and does not say in what
SHOWN = 40.0
GAP = 2  # pixels between two pictures


def run(data: Data, full: bool, out: Path, tiny: bool = False) -> dict[str, Any]:
    """The figures, and the numbers behind them."""
    skipped: list[str] = []
    numbers: dict[str, Any] = {
        "toy": toy(out, tiny),
        "starts": second_round.starts(parabola(150, 0), tiny),
    }
    try:
        arrays = data.load("yale_b")
        numbers["faces"] = faces.experiment(arrays, out, tiny)
        numbers["widths"] = second_round.widths(arrays, tiny)
    except MissingDataError as error:
        skipped.append(f"Figures 2 and 3: {error}")
    try:
        images = data.load("natural_images")
    except MissingDataError as error:
        skipped.append(f"Figures 4 and 5: {error}")
    else:
        numbers["patches"] = natural(images["bsds_train"], out, full, tiny)
        numbers["photographs"] = photographs.experiment(images, out, full, tiny)
        X = patches(images["bsds_train"], 100 if tiny else 7000 if full else 2000)
        numbers["textures"] = textures.experiment(X, images["bsds_test"], out, tiny)
    return {"skipped": skipped, **numbers}


# --- figure 1 ----------------------------------------------------------------------------------


def parabola(n: int, seed: int) -> np.ndarray:
    """x uniform in [−1, 1], y = −x² + noise of deviation 0.2."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, n)
    return np.column_stack([x, -(x**2) + rng.normal(scale=0.2, size=n)])


def toy(out: Path, tiny: bool) -> dict[str, Any]:
    """Figure 1, and the cosines between the two rows of it, over seeds and for two kernels.

    "Degree-2 polynomial" may be (x·y)², which has exactly three components, or (x·y + 1)².
    """
    n, seeds = (50, range(1)) if tiny else (200, range(10))
    found: dict[str, Any] = {"n": n, "seeds": len(seeds)}
    for name, coef0 in (("homogeneous", 0.0), ("inhomogeneous", 1.0)):
        cosines = np.zeros((len(seeds), 3))
        epochs = np.zeros(len(seeds))
        for i, seed in enumerate(seeds):
            X = parabola(n, seed)
            kernel = kernels.Polynomial(degree=2, gamma=1.0, coef0=coef0)
            hebbian = KernelHebbianPCA(3, kernel=kernel, n_epochs=400, random_state=seed).fit(X)
            batch = KernelPCA(3, kernel="poly", degree=2, gamma=1.0, coef0=coef0).fit(X)
            cosines[i] = metrics.direction_cosines(hebbian, batch)
            epochs[i] = hebbian.n_epochs_
            if i == 0 and coef0 == 0.0:
                models = {"KPCA": batch, "KHA": hebbian}
                drawing.contour_rows(X, models, 3, out / "figure_1.png")
        found[name] = {
            "cosines": np.median(cosines, axis=0),
            "worst": cosines.min(axis=0),
            "epochs": float(np.median(epochs)),
        }
    return found


# --- figure 4 ----------------------------------------------------------------------------------


def patches(images: np.ndarray, n: int, seed: int = 0) -> np.ndarray:
    """Patches at random places, as rows of pixels in [0, 1]."""
    rng = np.random.default_rng(seed)
    k, height, width = images.shape
    where = zip(
        rng.integers(k, size=n),
        rng.integers(height - SIDE + 1, size=n),
        rng.integers(width - SIDE + 1, size=n),
        strict=True,
    )
    rows = [images[i, a : a + SIDE, b : b + SIDE].ravel() for i, a, b in where]
    return np.stack(rows) / 255.0


def natural(images: np.ndarray, out: Path, full: bool, tiny: bool) -> dict[str, Any]:
    """40 components for three widths, compared with batch kernel PCA and with linear PCA."""
    n, epochs = (300, 3) if tiny else (40_000, 20) if full else (10_000, 100)
    X = patches(images, n)
    linear = PCA(R).fit(X)
    of_linear = linear.transform(X)
    found: dict[str, Any] = {"n": n, "r": R, "epochs": epochs}
    pictures: dict[float, np.ndarray] = {}
    shares: dict[float, np.ndarray] = {}
    angles: dict[float, np.ndarray] = {}
    for sigma in SIGMAS:
        begin = perf_counter()
        kernel = kernels.RBF(gamma=1.0 / (2.0 * sigma**2))
        model = KernelHebbianPCA(R, kernel=kernel, n_epochs=epochs, random_state=0).fit(X)
        seconds = perf_counter() - begin
        scores = model.transform(X)
        angles[sigma] = degrees_between(scores, of_linear)
        pictures[sigma], shares[sigma] = patterns(model, X), linear_share(scores, X)
        entry = {
            "seconds": seconds,
            "to_linear": summary(angles[sigma]),
            "not_linear": not_linear(scores, X),
            "odd_one_is_squared_brightness": squared_brightness(scores, of_linear, X),
        }
        if not full:  # 40,000 rows: "a direct application of KPCA is not feasible"
            batch = KernelPCA(R, kernel="rbf", gamma=kernel.gamma, eigen_solver="arpack").fit(X)
            entry["to_batch"] = summary(degrees_between(scores, batch.eigenvectors_))
            entry["batch_to_linear"] = summary(degrees_between(batch.eigenvectors_, of_linear))
            entry["captured"] = captured(model, scores) / (float(batch.eigenvalues_.sum()) / n)
        found[f"sigma_{sigma:g}"] = entry
    draw_patterns(pictures[SHOWN], shares[SHOWN], linear.components_, out / "figure_4.png")
    draw_angles(angles, out / "figure_4_angles.png")
    return found


def linear_share(F: np.ndarray, X: np.ndarray) -> np.ndarray:
    """The share of the variance of each function that a linear function of the pixels explains."""
    F, Q = F - F.mean(axis=0), np.linalg.qr(X - X.mean(axis=0))[0]
    return np.sum((Q.T @ F) ** 2, axis=0) / np.sum(F**2, axis=0)


def not_linear(F: np.ndarray, X: np.ndarray) -> int:
    """How many directions of the span of F are further from linear functions than 45°."""
    angles = degrees_between(F, X)
    return int(np.sum(angles > 45.0))


def squared_brightness(F: np.ndarray, G: np.ndarray, X: np.ndarray) -> float:
    """Correlation of the least linear function in the span of F with the squared mean brightness.

    The Gaussian kernel is a power series in x·y/σ². Its second order is (x·y)²/σ⁴, largest where
    x·y is: along the brightness, which has 80 % of the variance of patches.
    """
    F, G = np.linalg.qr(F - F.mean(axis=0))[0], np.linalg.qr(G - G.mean(axis=0))[0]
    outside = F - G @ (G.T @ F)
    odd = outside @ np.linalg.svd(outside, full_matrices=False)[2][0]
    square = (X.mean(axis=1) - X.mean()) ** 2
    square = square - square.mean()
    square -= G @ (G.T @ square)
    return float(abs(odd @ square) / (np.linalg.norm(odd) * np.linalg.norm(square)))


def degrees_between(F: np.ndarray, G: np.ndarray) -> np.ndarray:
    """Principal angles between two sets of functions, given by their values on the patches.

    The kernels differ, so the components live in different spaces; as functions of the patch they
    can be compared, and a linear function is a linear function in all of them.
    """
    F, G = F - F.mean(axis=0), G - G.mean(axis=0)
    return np.degrees(np.sort(scipy.linalg.subspace_angles(F, G)))


def summary(angles: np.ndarray) -> dict[str, float]:
    return {
        "median": float(np.median(angles)),
        "above_10_degrees": int(np.sum(angles > 10.0)),
        "largest": float(angles.max()),
    }


def captured(model: Any, scores: np.ndarray) -> float:
    """Variance in the span of components that need not be quite orthogonal."""
    A = np.asarray(model.dual_coef_)
    G = A.T @ (scores + np.asarray(model.intercept_))  # VᵀV = Aᵀ K A
    C = np.cov(scores.T, ddof=0)
    return float(np.trace(np.linalg.solve((G + G.T) / 2, C)))


def patterns(model: Any, X: np.ndarray) -> np.ndarray:
    """Components as pictures: the gradient of each at the mean patch, of unit length."""
    mean = X.mean(axis=0)
    A, D = np.asarray(model.dual_coef_), np.asarray(model.basis_points_)
    weights = model.kernel_(mean[None, :], D)[0]
    gradients = (A * weights[:, None]).T @ (D - mean)
    return gradients / np.linalg.norm(gradients, axis=1, keepdims=True)


@drawing.styled()
def draw_patterns(ours: np.ndarray, shares: np.ndarray, linear: np.ndarray, path: Path) -> None:
    """Two blocks of 4 × 10 pictures: KHA, and linear PCA below."""
    signs = np.sign(np.sum(ours * linear, axis=1, keepdims=True))
    figure, axes = plt.subplots(2, 1, figsize=(7.0, 6.2))
    ours_name = f"KHA, Gaussian kernel, σ = {SHOWN:g} (framed: over a tenth of it is not linear)"
    names = (ours_name, "linear PCA")
    for panel, name, block in zip(axes, names, (ours * signs, linear), strict=True):
        panel.imshow(mosaic(block, 10), cmap="gray", vmin=-1, vmax=1, interpolation="nearest")
        panel.set_title(name, loc="left")
        drawing.bare(panel)
        panel.set_frame_on(False)
    for i in np.flatnonzero(shares < 0.9):
        line, column = divmod(int(i), 10)
        corner = (column * (SIDE + GAP) - 1, line * (SIDE + GAP) - 1)
        frame = plt.Rectangle(corner, SIDE + 1, SIDE + 1, fill=False, lw=2, ec=drawing.ORANGE)
        frame.set_clip_on(False)
        axes[0].add_patch(frame)
    drawing.save(figure, path)


def mosaic(rows: np.ndarray, columns: int) -> np.ma.MaskedArray:
    """Patches side by side, each scaled to its own largest value, gaps masked."""
    step = SIDE + GAP
    lines = -(-len(rows) // columns)
    whole = np.full((lines * step - GAP, columns * step - GAP), np.nan)
    for i, row in enumerate(rows):
        a, b = divmod(i, columns)
        whole[a * step : a * step + SIDE, b * step : b * step + SIDE] = (
            row / np.abs(row).max()
        ).reshape(SIDE, SIDE)
    return np.ma.masked_invalid(whole)


@drawing.styled()
def draw_angles(angles: dict[float, np.ndarray], path: Path) -> None:
    """All 40 angles to linear PCA for each width."""
    figure, axes = plt.subplots(figsize=(6.4, 3.4))
    colours = (drawing.GREEN, drawing.ORANGE, drawing.BLUE)
    for (sigma, values), colour in zip(angles.items(), colours, strict=True):
        axes.plot(np.arange(1, R + 1), values, ".-", color=colour, label=f"σ = {sigma:g}")
    axes.set(
        yscale="log",
        xlabel="principal angle, in ascending order",
        ylabel="degrees",
        title="Angles between the spans of 40 components: KHA and linear PCA",
    )
    axes.legend(loc="upper left", title="Gaussian kernel")
    drawing.save(figure, path)


def claims(results: dict[str, Any]) -> list[dict[str, Any]]:
    """The paper's sentences, beside the numbers of this run."""
    toy = results["toy"]
    worst = [min(toy[name]["worst"]) for name in ("homogeneous", "inhomogeneous")]
    epochs = [f"{toy[name]['epochs']:.0f}" for name in ("homogeneous", "inhomogeneous")]
    found = [
        claim(
            "Figure 1: the first three components of KHA look like those of KPCA",
            "pictures",
            f"lowest direction cosine of the three over {toy['seeds']} seeds: {worst[0]:.5f} for "
            f"(x·y)², {worst[1]:.5f} for (x·y + 1)², after {epochs[0]} and {epochs[1]} passes over "
            f"{toy['n']} points",
            min(worst) >= 0.99,
        ),
    ]
    if "faces" in results:
        found += claims_on_faces(results["faces"])
        found += second_round.claims_on_widths(results["widths"])
    found += second_round.claims_on_starts(results["starts"])
    if "patches" not in results:
        return found
    patches = results["patches"]
    narrow, shown, wide = (patches[f"sigma_{sigma:g}"] for sigma in SIGMAS)
    if "captured" in shown:
        found.append(
            claim(
                "Theorem 1: KHA converges to the components of KPCA",
                "a proof",
                f"{patches['n']:,} patches, {patches['epochs']} passes, variance captured relative "
                "to KPCA: "
                + ", ".join(
                    f"σ = {sigma:g}: {patches[f'sigma_{sigma:g}']['captured']:.5f}"
                    for sigma in SIGMAS
                ),
                min(entry["captured"] for entry in (narrow, shown, wide)) > 0.99,
            )
        )
    found += [
        claim(
            "Figure 4: with a wider kernel the principal components approach those of linear PCA",
            "pictures",
            "principal angles between the spans of 40, median and largest: "
            + "; ".join(
                f"σ = {sigma:g}: {in_words(patches[f'sigma_{sigma:g}']['to_linear'])}"
                for sigma in SIGMAS
            ),
            narrow["to_linear"]["median"]
            > shown["to_linear"]["median"]
            > wide["to_linear"]["median"],
            "the 40th component turns last, because the 41st has nearly its eigenvalue"
            + (
                f"; in batch KPCA the largest angle at σ = {SIGMAS[-1]:g} is "
                f"{wide['batch_to_linear']['largest']:.1f}°"
                if "batch_to_linear" in wide
                else ""
            ),
        ),
        claim(
            "Figure 4: at σ = 40 the components are those of linear PCA",
            "pictures",
            f"{R - shown['to_linear']['above_10_degrees']} of 40 angles are below 10°; "
            f"{shown['not_linear']} dimension of the span is not linear but the squared brightness "
            f"(correlation {shown['odd_one_is_squared_brightness']:.3f})",
            shown["not_linear"] == 0,
            "in [0, 1] pixels (the paper does not give its units) σ = 40 is not quite wide enough: "
            "(x·y)²/σ⁴, the second order of the kernel, brings one component of its own, which a "
            "row of pictures does not show; at σ = 160 it is gone",
        ),
    ]
    found += claims_on_photographs(results["photographs"])
    return found + textures.claims(results["textures"])


def claims_on_faces(found: dict[str, Any]) -> list[dict[str, Any]]:
    sse, psnr, third = found["mean_sse"], found["psnr"], found["figure_3"]
    few, many = third["few"], third["many"]
    draws = found["draws"]

    def moves(name: str) -> str:
        one = draws[name]
        return (
            f"{one['mean']:.2f} ± {one['deviation']:.2f} ({one['least']:.2f} to {one['most']:.2f})"
        )

    def spread(name: str) -> str:
        values = found["sse"][name]
        return f"{sse[name]:.2f} ({min(values):.2f} to {max(values):.2f})"

    return [
        claim(
            f"Figure 2: PCA is slightly better than KHA in squared error, {found['r']} components "
            "(summed over 3,600 pixels; mean of 100 faces, here of several splits)",
            "8.48 (PCA), 9.20 (KHA)",
            f"PCA {spread('pca')}; batch kernel PCA, the limit of KHA, {spread('kpca')}; on the "
            f"first split PCA {found['sse']['pca'][0]:.2f}, batch {found['sse']['kpca'][0]:.2f}, "
            f"KHA itself after 100 passes {sse['kha']:.2f}",
            sse["pca"] < sse["kpca"] < 1.2 * sse["pca"],
            "σ = 45 in [0, 1] pixels: with the paper's σ = 1 there the kernel matrix would be the "
            "identity",
        ),
        claim(
            f"The same over {draws['count']} draws of training and test faces: mean ± standard "
            "deviation (range) of the mean of 100 faces",
            "one draw",
            f"PCA {moves('pca')}; exact batch kernel PCA (scikit-learn's) {moves('kpca')}, "
            f"{draws['more_than_pca']:.2f} more than PCA",
            None,
            f"both at most 8.48 and 9.20, the paper's, in {draws['as_low_as_the_paper']} of the "
            f"draws; at most 8.10 and 8.75 in {draws['at_most_8.1_and_8.75']}: a mean of 100 faces "
            "under all lights moves about by that much",
        ),
        claim(
            "Not in the paper: bicubic interpolation of the 20×20 face",
            "–",
            f"{spread('bicubic')}, {psnr['bicubic']:.2f} dB (repeated pixels "
            f"{psnr['repeated']:.2f}, PCA {psnr['pca']:.2f}, kernel PCA {psnr['kpca']:.2f} dB)",
            None,
            "more face-like does not mean nearer to the face: bicubic has less error than both",
        ),
        claim(
            "Not in the paper: `StreamingKernelRidge`, 1,000 centroids, from the small face to "
            "what bicubic misses",
            "–",
            f"{spread('ridge')}, {psnr['ridge']:.2f} dB",
            None,
            "it needs the same persons in training, as the paper's experiment has them",
        ),
        claim(
            "Figure 3: few training faces give the face of a wrong person, more correct that",
            "(by eye)",
            f"from 30×30 pixels, squared error {few['sse']:.2f} with {few['n']} faces, "
            f"{many['sse']:.2f} with {many['n']:,}; nearest training face is another person's: "
            f"{few['nearest_is_another_person']:.0%} and {many['nearest_is_another_person']:.0%} "
            f"(of the originals {third['of_the_originals']:.0%})",
            many["nearest_is_another_person"] < few["nearest_is_another_person"] - 0.05,
            "less error, but the persons are hardly more often right: under these lights the "
            "nearest face is often another person's even for the original",
        ),
    ]


def claims_on_photographs(found: dict[str, Any]) -> list[dict[str, Any]]:
    psnr, super_resolution = found["figure_5"]["psnr"], found["super_resolution"]
    gains = {scale: super_resolution[f"scale_{scale}"] for scale in (2, 3, 4)}
    return [
        claim(
            "Figure 5: kernel PCA appears much better than PCA and bilinear interpolation, PSNR in "
            "dB of one image enlarged four times",
            "(by eye)",
            f"pixels repeated {psnr['repeated']:.2f}, bilinear {psnr['bilinear']:.2f}, PCA (40 "
            f"components) {psnr['pca_40']:.2f}, kernel PCA block by block {psnr['blocks']:.2f}, "
            f"overlapping {psnr['overlap']:.2f}, and with the brightness kept "
            f"{psnr['overlap_mean']:.2f}",
            psnr["overlap"] > max(psnr["pca_40"], psnr["bilinear"]),
            "the claim is about looks: blocks show natural patches with sharp edges, in the wrong "
            "places",
        ),
        claim(
            "Figure 5: windows that overlap are better than blocks",
            "(by eye)",
            f"{psnr['overlap'] - psnr['blocks']:+.2f} dB",
            psnr["overlap"] > psnr["blocks"],
        ),
        claim(
            "Figure 5: with more components PCA returns the image of low resolution",
            "(by eye)",
            f"150 of 196 components: {psnr['pca_150']:.2f} dB, repeated pixels "
            f"{psnr['repeated']:.2f} dB",
            abs(psnr["pca_150"] - psnr["repeated"]) < 0.1,
        ),
        claim(
            "Not in the paper: `images.SuperResolver`, 1,000 directions, 200,000 patches: decibels "
            "over bicubic interpolation, mean of 20 photographs (and the least), ×2, ×3, ×4",
            "–",
            ", ".join(f"{each['gain']:+.2f} ({each['least']:+.2f})" for each in gains.values()),
            None,
            f"the image of figure 5: {psnr['resolver']:.2f} dB, bicubic {psnr['bicubic']:.2f}",
        ),
    ]


def in_words(entry: dict[str, Any]) -> str:
    return f"{entry['median']:.2f}° and {entry['largest']:.0f}°"
