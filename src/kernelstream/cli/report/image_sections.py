"""Report sections for image data: component images, images with the largest error, mean image."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelstream.arrays import evenly_spaced, to_host
from kernelstream.cli.report.fit_summary import ColumnComparison
from kernelstream.cli.report.observe import Observed
from kernelstream.cli.report.thumbnails import data_uri, grey_levels
from kernelstream.estimators import StreamingKernelPCA
from kernelstream.plot.drawing import is_ink

MOST_LANDMARKS = 120  # that are shown
STEPS = 12  # images along a component


@dataclass(frozen=True)
class Picture:
    """One image of bytes, with text for those who cannot see it."""

    image: np.ndarray
    title: str
    caption: str = ""

    @property
    def uri(self) -> str:
        """The image as a data URI."""
        return data_uri(self.image)


def are_ink(model: StreamingKernelPCA, observed: Observed | None) -> bool:
    """Whether images are ink on paper: one answer for all pictures of a page."""
    known = model.stream_.kept_rows()
    rows = known if known is not None else None if observed is None else observed.rows
    return rows is not None and is_ink(rows)


def sections(
    model: StreamingKernelPCA,
    observed: Observed | None,
    columns: Sequence[ColumnComparison],
    names: Sequence[str],
    shape: tuple[int, int],
    ink: bool,
    n_components: int,
) -> dict[str, Any]:
    """What the template of images is filled with."""
    return {
        "sections": "images.html",
        "landmarks": landmarks(model, shape, ink),
        "components": components(model, shape, ink, n_components),
        "strangest": strangest(observed, shape, ink),
        "means": means(columns, names, shape, ink),
    }


def landmarks(model: StreamingKernelPCA, shape: tuple[int, int], ink: bool) -> dict[str, Any]:
    """The landmarks as thumbnails, and how many more there are."""
    points = model.stream_.in_data_units(to_host(model.basis_points_).astype(float))
    images = grey_levels(points, ink)[:MOST_LANDMARKS]
    uris = [data_uri(image.reshape(shape)) for image in images]
    return {"images": uris, "more": len(points) - len(images)}


def components(
    model: StreamingKernelPCA, shape: tuple[int, int], ink: bool, count: int
) -> list[dict[str, Any]]:
    """Which pixels make the first components, and images from one end of each to the other."""
    rows = model.stream_.kept_rows()
    if rows is None:
        return []
    scores = np.asarray(model.transform(rows), dtype=float)
    images = grey_levels(rows, ink).reshape(-1, *shape)
    names = [str(i) for i in range(model.n_features_in_)]
    explained = model.explain_components(n_columns=len(names), feature_names=names)
    found = []
    for own, component in zip(scores.T, explained[:count], strict=False):
        weights = np.zeros(len(names))
        for column in component.columns:
            weights[int(column.name)] = column.share
        pixels = (255 * weights / max(float(weights.max()), 1e-300)).astype(np.uint8)
        name, order = f"pc{component.number}", np.argsort(own, kind="stable")
        at = order[evenly_spaced(len(order), STEPS)]
        found.append(
            {
                "title": f"{name}, {component.variance_ratio:.1%}",
                "pixels": Picture(pixels.reshape(shape), f"pixels behind {name}"),
                "images": [Picture(images[i], f"{name} = {own[i]:.3g}") for i in at],
            }
        )
    return found


def strangest(observed: Observed | None, shape: tuple[int, int], ink: bool) -> list[Picture]:
    """The images of largest error."""
    if observed is None or not observed.strangest:
        return []
    images = grey_levels(np.stack([row for _, row in observed.strangest]).astype(float), ink)
    return [
        Picture(image.reshape(shape), f"row {number}", f"{number:,}")
        for (number, _), image in zip(observed.strangest, images, strict=True)
    ]


def means(
    columns: Sequence[ColumnComparison],
    names: Sequence[str],
    shape: tuple[int, int],
    ink: bool,
) -> list[Picture]:
    """The mean image that was learned, that of these rows, and the difference of the two."""
    if not columns:
        return []
    place = {name: i for i, name in enumerate(names)}
    ordered = sorted(columns, key=lambda column: place[column.name])
    pair = np.array([[c.learned.mean() for c in ordered], [c.these.mean() for c in ordered]])
    change = np.abs(pair[1] - pair[0])
    largest = float(change.max())
    pictures = [*zip(("learned", "these rows"), grey_levels(pair, ink), strict=True)]
    if largest > 0.0:
        pictures.append((f"difference, up to {largest:.2g}", grey_levels(change, ink=False)))
    return [Picture(image.reshape(shape), name, name) for name, image in pictures]
