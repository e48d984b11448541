"""Denoising, super-resolution and patches against their naive twins, and the laws of the stream."""

from __future__ import annotations

import copy
import pickle
import tracemalloc
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits, load_sample_image
from sklearn.decomposition import PCA

from kernelstream import StreamingKernelPCA, images, landmarks, load
from kernelstream.arrays import generator
from kernelstream.images import Denoiser, SuperResolver, files, noise, patches
from kernelstream.images.features import PatchFeatures
from kernelstream.images.superresolution import TO_YCBCR, counts, enlarge, luma
from tests.naive import images as naive_images


def noisy_digits(variance: float = 0.09, clipped: bool = False) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    clean = rng.permutation(load_digits().images / 16.0)
    noisy = clean + rng.normal(scale=np.sqrt(variance), size=clean.shape)
    return (np.clip(noisy, 0, 1) if clipped else noisy), clean


def turned(blocks: np.ndarray, turn: int) -> np.ndarray:
    """Square blocks (n, side, side) in one of eight positions: four turns, mirrored or not."""
    blocks = np.rot90(blocks, turn % 4, axes=(1, 2))
    return blocks[:, :, ::-1] if turn >= 4 else blocks


def error(found: np.ndarray, clean: np.ndarray) -> float:
    return float(np.mean((found - clean) ** 2))


def picture(seed: int = 0, shape: tuple[int, int] = (90, 100)) -> np.ndarray:
    """Edges and curves in [0, 1]."""
    y, x = np.mgrid[: shape[0], : shape[1]] / 40.0
    phase = np.random.default_rng(seed).uniform(0, 6, size=3)
    return 0.5 + 0.4 * np.tanh(6 * np.sin(3 * x + phase[0]) * np.cos(2 * y * x + phase[1]))


# --- noise


@pytest.mark.parametrize("variance", [0.01, 0.1, 0.5])
def test_expected_clipped_pixels(variance):
    clean = np.linspace(0, 1, 9)
    expected = [naive_images.expected_clipped(c, variance) for c in clean]
    found = noise.expected_clipped(clean, variance)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    np.testing.assert_allclose(noise.undo_clipping(found, variance), clean, atol=1e-6)
    assert noise.undo_clipping(np.array([-1, 2], dtype=np.float32), variance).tolist() == [0, 1]
    assert noise.undo_clipping(np.array([0.4], dtype=np.float32), variance).dtype == np.float32


@pytest.mark.parametrize("variance", [0.0, 5e-324, 1e-300])
def test_hardly_any_noise_clips_nothing(variance):
    pixels = np.array([-0.5, 0.0, 0.3, 1.0, 1.5])
    np.testing.assert_allclose(noise.undo_clipping(pixels, variance), np.clip(pixels, 0, 1))


@pytest.mark.parametrize(
    ("variance", "words"),
    [(-1.0, "0 or more"), (np.nan, "0 or more"), (np.inf, "0 or more"), (1e300, "nothing can be")],
)
def test_noise_that_cannot_be_undone(variance, words):
    with pytest.raises(ValueError, match=f"noise_variance.*{words}"):
        noise.undo_clipping(np.array([0.5]), variance)


def test_a_pixel_that_is_no_number_stays_none():
    found = noise.undo_clipping(np.array([0.5, np.nan, 2.0]), 0.1)
    np.testing.assert_allclose(found, [0.5, np.nan, 1.0], atol=1e-6)


def test_variance_left_on_a_black_pixel():
    n = np.random.default_rng(0).normal(scale=0.2, size=1_000_000)
    assert np.maximum(n, 0).var() == pytest.approx(0.04 * noise.LEFT_ON_BLACK, rel=0.01)


# --- the denoiser


@pytest.mark.parametrize("mode", ["fit", "partial_fit"])
def test_denoiser_is_the_formula(mode):
    noisy, _ = noisy_digits()
    rows = noisy.reshape(-1, 64)[:1024]
    model = Denoiser(0.09, basis=12, width=1.5, n_directions=20, alpha=1e-3, random_state=0)
    found = getattr(model, mode)(rows).transform(rows[:5])
    whole: Any = model.stream_.settled
    standard, span = whole.scaler, whole.state.basis.span
    expected = naive_images.stein_ridge(
        rows, rows[:5], span.points, standard.matrix, standard.mean, 0.09, 0.5 / 1.5**2, 1e-3
    )
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)


def test_moments_of_the_noise_are_those_of_the_noise():
    # With the clean images known, the identity can be checked: E[k cᵀ] is what it says.
    clean = np.tile(load_digits().images / 16.0, (8, 1, 1))
    noisy = clean + np.random.default_rng(0).normal(scale=0.3, size=clean.shape)
    model = Denoiser(0.09, basis=30, width=1.5, random_state=0).fit(noisy)
    whole: Any = model.stream_.settled
    a = whole.scaler.apply(noisy.reshape(-1, 64))
    Z = whole.chain.basis.coordinates(whole.chain.kernel, whole.state.basis, a)
    truth = Z.T @ (noisy - clean).reshape(-1, 64) / len(Z)
    found = images.denoise.noise_moments(whole, whole.scaler)
    # the sampling error of a mean over these rows with noise of deviation 0.3, and little besides
    sampling = 0.3 * np.sqrt(np.mean(Z**2, axis=0) / len(Z))
    assert np.abs((found - truth) / sampling[:, None]).max() < 5
    assert np.linalg.norm(found - truth) < 0.3 * np.linalg.norm(truth)


@pytest.mark.parametrize("clipped", [False, True])
def test_denoiser_beats_linear_pca_without_clean_images(clipped):
    noisy, clean = noisy_digits(clipped=clipped)
    rows, test = noisy[:1400], noisy[1400:]
    found = Denoiser(0.09, clipped, basis=200, random_state=0).fit(rows).transform(test)
    best = np.inf
    for r in range(4, 40, 3):
        pca = PCA(r).fit(rows.reshape(-1, 64))
        linear = pca.inverse_transform(pca.transform(test.reshape(-1, 64))).reshape(-1, 8, 8)
        linear = noise.undo_clipping(linear, 0.09) if clipped else linear
        best = min(best, error(linear, clean[1400:]))
    assert error(found, clean[1400:]) < 0.95 * best
    if clipped:
        assert found.min() >= 0 and found.max() <= 1


def test_the_noise_is_measured_when_it_is_not_given():
    noisy, clean = noisy_digits(0.04)
    model = Denoiser(basis=100, random_state=0).fit(noisy)
    assert model.noise_variance_ == pytest.approx(0.04, rel=0.25)
    assert error(model.transform(noisy), clean) < 0.5 * error(noisy, clean)
    classical = Denoiser(basis=50, method="project", n_components=20).fit(noisy)
    with pytest.raises(ValueError, match="give noise_variance"):
        classical.set_params(clipped=True).transform(np.clip(noisy, 0, 1))


def test_the_classical_way_is_projection_and_preimage():
    noisy, clean = noisy_digits()
    rows = noisy.reshape(-1, 64)
    model = Denoiser(
        0.09, basis=100, method="project", width=2.0, n_components=20, random_state=0
    ).fit(rows)
    means = landmarks.Landmarks(model.stream_.components.points)
    pca = StreamingKernelPCA(20, gamma=0.125, basis=means, certify=False, random_state=0).fit(rows)
    np.testing.assert_allclose(
        model.transform(rows), pca.inverse_transform(pca.transform(rows)), atol=1e-8
    )
    assert error(model.transform(noisy), clean) < 0.5 * error(noisy, clean)
    optimized = clone(model).set_params(basis=landmarks.Centroids(100)).fit(rows)
    assert error(model.transform(noisy), clean) < 0.995 * error(optimized.transform(noisy), clean)


def test_landmarks_for_preimages_are_means_of_all_images_near_them():
    rows = noisy_digits()[0].reshape(-1, 64)
    model = Denoiser(0.09, basis=60, method="project", width=2.0, n_components=5, random_state=0)
    points = model.fit(rows).stream_.components.points
    means = landmarks.kmeans(rows, 60, 10, generator(0, "means"))
    np.testing.assert_array_equal(points, means)


@pytest.mark.parametrize("method", ["stein", "project"])
def test_denoiser_obeys_the_laws(method, tmp_path):
    noisy, _ = noisy_digits()
    make = Denoiser(0.09, basis=20, method=method, n_components=5, random_state=0)
    whole, parts = clone(make).partial_fit(noisy), clone(make)
    for piece in np.split(noisy, [3, 600, 601, 1300]):
        parts.partial_fit(piece)
        parts.transform(noisy[:2])
    np.testing.assert_array_equal(parts.transform(noisy[:9]), whole.transform(noisy[:9]))
    early = clone(make).partial_fit(noisy[:700])
    early.save(tmp_path / "denoiser")
    loaded = load(tmp_path / "denoiser")
    assert isinstance(loaded, Denoiser)
    loaded.partial_fit(noisy[700:])
    np.testing.assert_array_equal(loaded.transform(noisy[:9]), whole.transform(noisy[:9]))
    kept = pickle.dumps(whole.stream_)
    for bad, words in [
        (noisy[:, :4], "images of 64 pixels, these have 32"),
        (noisy * np.nan, "NaN or infinity"),
        (noisy[0, 0], "Expected images of shape"),
        (noisy * 1j, "Complex"),
    ]:
        with pytest.raises(ValueError, match=words):
            whole.partial_fit(bad)
    assert pickle.dumps(whole.stream_) == kept


def test_shapes_and_types_of_denoised_images():
    noisy, _ = noisy_digits(clipped=True)
    model = Denoiser(0.09, True, basis=20, random_state=0).fit((noisy * 255).astype(np.uint8))
    assert model.transform((noisy[:3] * 255).astype(np.uint8)).shape == (3, 8, 8)
    assert model.transform(noisy[:3].reshape(3, 64)).shape == (3, 64)
    assert model.transform(noisy[:3].astype(np.float32)).dtype == np.float32


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"method": "magic"}, "method must be one of 'stein', 'project'"),
        ({"alpha": 0.0}, "alpha must be a number above 0"),
        ({"noise_variance": -1.0}, "noise_variance must be a number above 0"),
        ({"width": "wide"}, "width must be a number above 0"),
        ({"n_directions": 0}, "n_directions must be an integer"),
        ({"n_components": 0}, "n_components must be an integer"),
        ({"method": "project", "preimage": "linear"}, "linear kernel only"),
    ],
)
def test_denoiser_refuses_parameters_in_words(parameters, words):
    with pytest.raises(ValueError, match=words):
        Denoiser(**parameters).fit(noisy_digits()[0])


def test_a_wide_kernel_and_single_precision():
    noisy = noisy_digits()[0].astype(np.float32)
    model = Denoiser(0.09, basis=60, width=60.0, alpha=1e-12, random_state=0).fit(noisy)
    expected = model.transform(noisy.astype(float))
    np.testing.assert_allclose(model.transform(noisy), expected, atol=2e-3)


def test_memory_of_the_denoiser_is_that_of_its_images():
    rows = np.random.default_rng(0).random((12_000, 12, 12)).astype(np.float32)
    model = Denoiser(0.1, basis=20, random_state=0)
    for call in (model.fit, model.transform):
        tracemalloc.start()
        call(rows)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        # In double precision they would be twice as much; those to learn are copied from those
        # that are held back.
        assert peak < 3.5 * rows.nbytes


# --- patches


def test_windows_are_views():
    image = picture()
    found = patches.windows(image, 7, 3)
    assert np.shares_memory(found, image)
    assert found.shape == (28, 32, 7, 7)
    np.testing.assert_array_equal(found[2, 5], image[6:13, 15:22])
    with pytest.raises(ValueError, match="no windows of side 91"):
        patches.windows(image, 91)
    with pytest.raises(ValueError, match="Expected an image"):
        patches.windows(image[0], 2)


@pytest.mark.parametrize("scale", [1, 2, 3])
def test_overlapped_blocks(scale):
    rng = np.random.default_rng(0)
    blocks = rng.normal(size=(4, 5, 3 * scale, 3 * scale))
    canvas = np.zeros((6 * scale, 7 * scale))
    number = np.zeros_like(canvas)
    for i in range(4):
        for j in range(5):
            where = np.s_[i * scale : (i + 3) * scale, j * scale : (j + 3) * scale]
            canvas[where] += blocks[i, j]
            number[where] += 1
    np.testing.assert_allclose(patches.overlapped(blocks, scale), canvas)
    inside = np.s_[scale:-scale, scale:-scale]
    np.testing.assert_array_equal(counts(4, 5, scale), number[inside])


def test_eight_positions():
    block = np.arange(9.0).reshape(1, 3, 3)
    found = {turned(block, t).tobytes() for t in range(8)}
    assert len(found) == 8


def test_sixteen_positions_of_a_patch_are_one():
    x = np.random.default_rng(0).normal(size=(1, 5, 5))
    x -= x.mean()
    all_of_them = np.concatenate([s * turned(x, t) for t in range(8) for s in (1, -1)])
    assert len(np.unique(all_of_them, axis=0)) == 16
    position = patches.Orientation.of(all_of_them)
    upright = position.upright(all_of_them)
    np.testing.assert_array_equal(upright, np.broadcast_to(upright[:1], upright.shape))
    np.testing.assert_array_equal(upright[0], naive_images.upright(x[0])[0])
    np.testing.assert_array_equal(position.as_seen(upright), all_of_them)


def test_counts_of_a_single_row_and_column():
    np.testing.assert_array_equal(counts(1, 1, 2), np.ones((2, 2)))


def test_files(tmp_path):
    colour = load_sample_image("china.jpg")[:20, :30]
    files.write(tmp_path / "colour.png", colour)
    np.testing.assert_array_equal(files.read(tmp_path / "colour.png"), colour)
    grey = luma(colour)
    files.write(tmp_path / "grey.png", grey)
    np.testing.assert_array_equal(files.read(tmp_path / "grey.png"), np.rint(grey * 255))
    np.testing.assert_array_equal(files.as_bytes(np.array([-1.0, 0.5, 2.0])), [0, 128, 255])


# --- super-resolution


def test_patch_features_are_the_formula():
    X = np.random.default_rng(0).normal(size=(300, 25)) * 0.1
    basis = PatchFeatures(15)
    state = basis.begin(None, landmarks.Start(X))
    Z = basis.coordinates(None, state, X[:20])
    for x, z in zip(X, Z, strict=False):
        expected = naive_images.patch_features(x, state.directions, 0.2, 10 / 255, 1.2)
        np.testing.assert_allclose(z, expected, rtol=1e-9, atol=1e-12)
    # homogeneous up to the floor, which matters little for a patch of high contrast
    np.testing.assert_allclose(
        basis.coordinates(None, state, 20 * X),
        2 * basis.coordinates(None, state, 10 * X),
        rtol=0.1,
        atol=0.02,
    )


def test_super_resolution_is_the_naive_one():
    model = SuperResolver(2, 10, random_state=0).fit([picture(0)])
    # Noise: two positions of a patch without a gradient are as good as each other.
    low = picture(1, (9, 12)) + 0.1 * np.random.default_rng(0).normal(size=(9, 12))
    solution = model._solution()
    directions = solution.basis_state.directions

    def features(x):
        return naive_images.patch_features(x, directions, 0.2, 10 / 255, 1.2)

    expected = naive_images.detail(low, 2, features, solution.prediction.coefficients)
    np.testing.assert_allclose(model._detail(low), expected, atol=2e-5)
    X, Y = model._patches(model.stream_, picture(0), 0, None)
    Z = np.array([features(x) for x in X[:50]])
    B = solution.prediction.coefficients
    assert np.mean((Z @ B - Y[:50]) ** 2) < np.mean(Y[:50] ** 2)


def test_every_patch_has_the_detail_that_belongs_to_it():
    model = SuperResolver(3, 10, patches_per_image=None, random_state=0)
    model.partial_fit(picture())
    image = picture(2, (60, 63))
    X, Y = model._patches(model.stream_, image, 0, None)
    low = files.resized(image, (20, 21))
    missed = image - files.resized(low, image.shape)
    # the first patch is that around pixel [2, 2], in one of its sixteen positions
    x, y = low[:5, :5] - low[:5, :5].mean(), missed[3:12, 3:12]
    matches = [
        np.allclose(sign * turned(x[None], t).ravel(), X[0])
        and np.allclose(sign * turned(y[None], t).ravel(), Y[0])
        for t in range(8)
        for sign in (1, -1)
    ]
    assert sum(matches) == 1


@pytest.mark.parametrize("scale", [2, 3])
def test_super_resolution_beats_bicubic(scale):
    model = SuperResolver(scale, 60, random_state=0).fit([picture(i) for i in range(4)])
    shares = []
    for i in range(9, 15):
        high = picture(i)[: 30 * scale, : 30 * scale]
        low = files.resized(high, (30, 30))
        found, bicubic = model.predict(low), files.resized(low, high.shape)
        shares.append(error(found, high) / error(bicubic, high))
        # and it shrinks to what was given
        again = files.resized(found, low.shape)
        assert error(again, low) < 0.2 * error(files.resized(bicubic, low.shape), low)
    assert max(shares) < 0.8
    assert np.mean(shares) < 0.6


@pytest.mark.parametrize("turn", range(8))
def test_an_image_that_is_turned_mirrored_or_negated_is_enlarged_alike(turn):
    model = SuperResolver(2, 30, random_state=0).fit([picture(0)])
    low = np.random.default_rng(1).random((14, 17))  # no two gradients are even
    found = model._detail(1.0 - turned(low[None], turn)[0])
    np.testing.assert_allclose(found, -turned(model._detail(low)[None], turn)[0], atol=1e-4)


def test_a_part_of_the_gain_needs_no_learning():
    model = SuperResolver(3, 60, random_state=0).fit([picture(i) for i in range(4)])
    high = picture(9)[:90, :90]
    low = files.resized(high, (30, 30))
    learned, alone, bicubic = (
        error(image, high)
        for image in (model.predict(low), enlarge(low, 3), files.resized(low, high.shape))
    )
    assert learned < 0.6 * alone < 0.5 * bicubic


def test_colour_images():
    china = load_sample_image("china.jpg")
    model = SuperResolver(2, 50, random_state=0).fit([china[:200, :300]])
    small = china[200:260, 300:380]
    found = model.predict(small)
    assert found.shape == (120, 160, 3) and found.dtype == np.uint8
    # grey stays grey, and the luma is what is learned
    grey = np.repeat(small[:, :, :1], 3, axis=2)
    enlarged = model.predict(grey).astype(int)
    assert np.abs(enlarged - enlarged[:, :, :1]).max() <= 1
    plain = model.predict(small[:, :, 0])
    assert np.abs(enlarged[:, :, 0] - plain).max() <= 1
    np.testing.assert_allclose(TO_YCBCR.sum(axis=1), [1, 0, 0], atol=1e-6)


def test_super_resolver_obeys_the_laws(tmp_path):
    model = SuperResolver(2, 20, patches_per_image=300, random_state=0)
    one, two = clone(model), clone(model)
    for i in range(4):
        one.partial_fit(picture(i))
        two.partial_fit(picture(i))
        two.predict(picture(7, (10, 10)))
        if i == 1:
            two.save(tmp_path / "resolver")
            two = load(tmp_path / "resolver")
    low = picture(8, (14, 11))
    np.testing.assert_array_equal(one.predict(low), two.predict(low))
    assert one.n_images_seen_ == two.n_images_seen_ == 4
    kept = pickle.dumps(two.stream_)
    for bad, words in [
        (np.zeros((10, 40)), "too small to learn"),
        (np.zeros((40, 40, 4)), r"got an array of shape \(40, 40, 4\)"),
        (np.full((40, 40), np.nan), "NaN or infinity"),
    ]:
        with pytest.raises(ValueError, match=words):
            two.partial_fit(bad)
    assert pickle.dumps(two.stream_) == kept and two.n_images_seen_ == 4


def test_enlarging_takes_no_signs_of_components():
    """Nobody sees them, and each reference is an eigenvalue problem of all features."""
    model = SuperResolver(2, 20, random_state=0).fit([picture(i) for i in range(3)])
    assert model.stream_.begun.signs is None
    assert model.partial_fit(picture(3)).stream_.begun.signs is None


def test_merging_super_resolvers():
    start = SuperResolver(2, 20, random_state=0).partial_fit(picture(0))
    assert start.stream_.state is not None
    one, two = copy.deepcopy(start), copy.deepcopy(start)
    both = one.partial_fit(picture(1)).merge(two.partial_fit(picture(2)))
    assert both.stream_.n_rows == one.stream_.n_rows + two.stream_.n_rows
    assert both.n_images_seen_ == 4
    assert both.predict(picture(3, (12, 12))).shape == (24, 24)
    other = SuperResolver(2, 20, random_state=1).partial_fit(picture(5))
    with pytest.raises(ValueError, match="different directions of patches"):
        one.merge(other)


def test_memory_of_predict_is_bounded(capsys):
    model = SuperResolver(2, 30, random_state=0, verbose=True).fit([picture(0)])
    peaks = []
    for rows in (100, 400):
        low = np.tile(picture(1, (100, 200)), (rows // 100, 1))
        tracemalloc.start()
        model.predict(low)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    # the features of all patches of the second would be 400 · 200 · 55 · 4 bytes = 17 MB more
    images_alone = 300 * 200 * (4 * 8 * 6)
    assert peaks[1] - peaks[0] < images_alone
    assert "100%" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"scale": 1}, "scale must be 2 or more"),
        ({"scale": 2.5}, "scale must be an integer"),
        ({"basis": 0}, "n_points must be an integer"),
        ({"alpha": -1.0}, "alpha must be a number"),
        ({"patches_per_image": 0}, "patches_per_image must be an integer"),
    ],
)
def test_super_resolver_refuses_parameters_in_words(parameters, words):
    with pytest.raises(ValueError, match=words):
        SuperResolver(**parameters).fit([picture()])


MODELS: list[Any] = [Denoiser(), SuperResolver()]


@pytest.mark.parametrize("model", MODELS, ids=lambda m: type(m).__name__)
def test_queries_before_learning(model):
    method = getattr(model, "predict", None) or model.transform
    with pytest.raises(ValueError, match="has not seen any rows yet"):
        method(picture())


def test_colours_are_enlarged_by_themselves() -> None:
    image = np.random.default_rng(0).random((9, 8, 3))
    found = images.enlarge(image, 2)
    assert found.shape == (18, 16, 3)
    for c in range(3):
        np.testing.assert_array_equal(found[..., c], images.enlarge(image[..., c], 2))


def test_a_photograph_in_colour_is_no_stack_of_images() -> None:
    with pytest.raises(ValueError, match="plot_denoise_photo"):
        Denoiser(0.01).fit(np.full((96, 128, 3), 0.5))
