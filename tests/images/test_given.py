"""Images as users hand them over: other types, other ranges, other files, changed parameters."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from PIL import Image
from sklearn.base import clone

from kernelstream import landmarks, load
from kernelstream.images import Denoiser, SuperResolver, files
from tests.images.test_images import noisy_digits, picture


def test_sixteen_bits_are_the_same_images():
    noisy, _ = noisy_digits(clipped=True)
    fine = np.rint(noisy * 65535).astype(np.uint16)
    make = Denoiser(0.09, True, basis=30, random_state=0)
    found = clone(make).fit(fine).transform(fine)
    np.testing.assert_allclose(found, clone(make).fit(noisy).transform(noisy), atol=2e-3)

    low = np.rint(picture(1, (30, 40)) * 65535).astype(np.uint16)
    resolver = SuperResolver(2, 20, random_state=0).fit([np.rint(picture() * 255).astype(np.uint8)])
    large = resolver.predict(low)
    assert large.dtype == np.uint16
    np.testing.assert_allclose(large / 65535, resolver.predict(low / 65535), atol=1e-4)


def test_masks_are_black_and_white():
    model = SuperResolver(2, 20, random_state=0).fit([picture()])
    mask = picture(1) > 0.5
    np.testing.assert_array_equal(model.predict(mask), model.predict(mask.astype(float)))


@pytest.mark.parametrize("number", [np.int64, np.int32, np.uint32])
def test_whole_numbers_that_do_not_say_what_white_is_are_refused(number):
    whole = np.rint(picture() * 255).astype(number)
    resolver = SuperResolver(2, 20, random_state=0).fit([picture()])
    words = f"{np.dtype(number)} .* which number is white"
    for query in (resolver.predict, resolver.partial_fit):
        with pytest.raises(ValueError, match=words):
            query(whole)
    with pytest.raises(ValueError, match=words):
        files.as_bytes(whole)


def test_clipped_pixels_are_between_black_and_white():
    noisy, _ = noisy_digits(clipped=True)
    model = Denoiser(0.09, True, basis=20, random_state=0).fit(noisy)
    kept = pickle.dumps(model.stream_)
    for bad in (noisy * 255, noisy - 0.1):
        for call in (model.transform, model.partial_fit, clone(model).fit):
            with pytest.raises(ValueError, match=r"clipped=True .* in \[0, 1\]"):
                call(bad)
    assert pickle.dumps(model.stream_) == kept


def test_what_clipping_needs_is_asked_for_before_learning():
    noisy, _ = noisy_digits(clipped=True)
    for learn in ("fit", "partial_fit"):
        model = Denoiser(clipped=True, basis=20, method="project", n_components=5)
        with pytest.raises(ValueError, match="give noise_variance"):
            getattr(model, learn)(noisy)
        assert not model.__sklearn_is_fitted__()


def test_parameters_that_make_the_rows_cannot_change_under_a_model(tmp_path):
    noisy, _ = noisy_digits()
    cases: list[tuple[Any, Any, str, list[tuple[str, Any]]]] = [
        (Denoiser(0.09, basis=20), noisy, "transform", [("method", "project")]),
        (Denoiser(0.09, basis=20), noisy, "transform", [("noise_variance", 0.01)]),
        (
            Denoiser(0.09, basis=20, method="project", n_components=5),
            noisy,
            "transform",
            [("method", "stein")],
        ),
        (SuperResolver(2, 400), picture(), "predict", [("scale", 3)]),
    ]
    for model, data, query, changes in cases:
        model.partial_fit(data)  # the rows of some of them still wait
        model.save(tmp_path / "model")
        before = getattr(model, query)(data)
        for same in (model, load(tmp_path / "model")):
            for name, value in changes:
                old = getattr(same, name)
                same.set_params(**{name: value})
                for call in (same.partial_fit, getattr(same, query)):
                    with pytest.raises(ValueError, match=f"learned with {name}={old!r}.*call fit"):
                        call(data)
                with pytest.raises(ValueError, match=f"learned with {name}"):
                    same.merge(load(tmp_path / "model"))
                same.set_params(**{name: old})
            np.testing.assert_array_equal(getattr(same, query)(data), before)
            same.partial_fit(data)  # nothing of the other kind was left behind
            assert np.all(np.isfinite(getattr(same, query)(data)))
        model.set_params(**dict(changes)).fit(data if isinstance(model, Denoiser) else [data])
        assert np.all(np.isfinite(getattr(model, query)(data)))


def test_steins_moments_are_not_carried_through_a_move_of_the_points():
    # Done all the same, three quarters of the noise stayed.
    noisy, clean = noisy_digits()
    one_pass = {}
    for basis in (100, "centroids", landmarks.Centroids(100, follows=False)):
        model = Denoiser(0.09, basis=basis, random_state=0)
        for block in np.array_split(noisy, 4):
            model.partial_fit(block)
        one_pass[str(basis)] = float(np.mean((model.transform(noisy) - clean) ** 2))
    assert max(one_pass.values()) < 0.03, one_pass
    moving = Denoiser(0.09, basis=landmarks.Centroids(100), random_state=0)
    with pytest.raises(ValueError, match=r"points that move,.*follows=False"):
        moving.partial_fit(noisy)
    assert not moving.__sklearn_is_fitted__()
    found = moving.fit(noisy).transform(noisy)  # two passes: nothing is carried
    assert np.mean((found - clean) ** 2) < 0.03
    with pytest.raises(ValueError, match=r"points that move,.*follows=False"):
        moving.partial_fit(noisy)
    np.testing.assert_array_equal(moving.transform(noisy), found)
    project = Denoiser(0.09, basis=landmarks.Centroids(100), method="project", n_components=20)
    assert project.partial_fit(noisy).transform(noisy).shape == noisy.shape


def test_models_of_another_kind_are_not_merged():
    """A user's argument: also told where Python leaves assertions out."""
    patches = SuperResolver(2, 20, random_state=0).fit([picture()])
    images = Denoiser(0.09, basis=20).fit(np.random.default_rng(0).random((60, 5, 5)))
    pairs: list[tuple[Any, Any]] = [(patches, images), (images, patches), (patches, "no model")]
    for one, other in pairs:
        with pytest.raises(ValueError, match=f"the other a {type(other).__name__}"):
            one.merge(other)


def test_models_of_other_rows_are_not_merged():
    one, two = (SuperResolver(scale, 20, random_state=0).fit([picture()]) for scale in (2, 3))
    with pytest.raises(ValueError, match="scale=2 and scale=3"):
        one.merge(two)


@pytest.mark.parametrize("alpha", [-1.0, np.nan, 0.0, None])
def test_strengths_are_checked_when_they_are_used(alpha):
    noisy, _ = noisy_digits()
    resolver = SuperResolver(2, 20, random_state=0).fit([picture()])
    for model, query, data in (
        (Denoiser(0.09, basis=20).fit(noisy), "transform", noisy),
        (resolver, "predict", picture()),
    ):
        with pytest.raises(ValueError, match="alpha must be a number above 0"):
            getattr(model.set_params(alpha=alpha), query)(data)


@pytest.mark.parametrize("refinements", [-1, 1.5, None])
def test_corrections_are_counted(refinements):
    with pytest.raises(ValueError, match="refinements must be a whole number, 0 or more"):
        SuperResolver(2, 20, refinements=refinements).fit([picture()])
    model = SuperResolver(2, 20, random_state=0).fit([picture()])
    with pytest.raises(ValueError, match="refinements must be a whole number, 0 or more"):
        model.set_params(refinements=refinements).predict(picture())
    model.set_params(refinements=0).predict(picture())


def test_one_colour_image_is_one_image():
    colour = np.stack([picture(i) for i in range(3)], axis=2)
    make = SuperResolver(2, 20, random_state=0)
    alone, listed = clone(make).fit(colour), clone(make).fit([colour])
    assert alone.n_images_seen_ == 1
    np.testing.assert_array_equal(alone.predict(colour), listed.predict(colour))


def test_files_of_other_kinds_are_read_as_they_look(tmp_path):
    grey = np.linspace(0, 255, 12 * 16).reshape(12, 16).round().astype(np.uint8)
    colour = np.stack([grey, grey[::-1], 255 - grey], axis=2)
    path = tmp_path / "image.png"
    for made, expected in [
        (Image.fromarray(grey.astype(np.uint16) * 257), grey),  # 16 bits
        (Image.fromarray(np.dstack([grey, grey])), grey),  # grey and transparent
        (Image.fromarray(np.dstack([colour, grey])), colour),
        (Image.fromarray(grey > 99), 255 * (grey > 99)),
    ]:
        made.save(path)
        found = files.read(path)
        assert found.dtype == np.uint8
        np.testing.assert_array_equal(found, expected)
    Image.fromarray(grey.astype(np.uint16) * 257).save(tmp_path / "image.tif")
    np.testing.assert_array_equal(files.read(tmp_path / "image.tif"), grey)
    # a camera that was held upright says so beside the pixels
    made = Image.fromarray(colour)
    turned = made.getexif()
    turned[0x112] = 6
    made.save(path, exif=turned)
    np.testing.assert_array_equal(files.read(path), np.rot90(colour, -1))


@pytest.mark.parametrize("number", [np.float32, np.int32])
def test_files_that_do_not_say_what_white_is_are_refused(number, tmp_path):
    Image.fromarray(np.linspace(0, 1, 20).reshape(4, 5).astype(number)).save(tmp_path / "a.tif")
    with pytest.raises(ValueError, match=r"a\.tif .* which number is white"):
        files.read(tmp_path / "a.tif")


def test_files_are_written_in_all_types(tmp_path):
    fine = np.arange(12, dtype=np.uint16).reshape(3, 4) * 5000
    for image, expected in [
        (fine, np.rint(fine / 257)),
        (fine > 20000, 255 * (fine > 20000)),
        (fine / 65535, np.rint(fine / 257)),
    ]:
        files.write(tmp_path / "image.png", image)
        np.testing.assert_array_equal(files.read(tmp_path / "image.png"), expected)
    with pytest.raises(ValueError, match="NaN or infinity"):
        files.write(tmp_path / "image.png", np.full((2, 2), np.nan))


def test_noise_that_is_not_measured_is_an_attribute_that_is_not_there() -> None:
    images = np.random.default_rng(0).random((60, 4, 4))
    denoiser = Denoiser(basis=5, method="project", width=1.0, n_components=2, random_state=0)
    assert not hasattr(denoiser.fit(images), "noise_variance_")
    with pytest.raises(AttributeError, match="give noise_variance"):
        _ = denoiser.noise_variance_
