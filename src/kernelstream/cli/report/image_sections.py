"""Report sections for image data: component images, images with the largest error, mean image."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kernelstream.arrays import evenly_spaced
from kernelstream.cli.report.observe import Observed
from kernelstream.cli.report.thumbnails import data_uri, grey_levels
from kernelstream.cli.report.verdict import Column
from kernelstream.estimators import StreamingKernelPCA
from kernelstream.plot.drawing import is_ink

STEPS = 12  # images along a component


def are_ink(model: StreamingKernelPCA, observed: Observed | None) -> bool:
    """Whether images are ink on paper: one answer for all pictures of a page."""
    known = model.stream_.kept_rows()
    rows = known if known is not None else None if observed is None else observed.rows
    return rows is not None and is_ink(rows)


def shown(image: np.ndarray, what: str) -> str:
    """One picture of bytes, with words for those who cannot see it."""
    return f'<img alt="{what}" title="{what}" src="{data_uri(image)}">'


def behind_components(
    model: StreamingKernelPCA, shape: tuple[int, int], ink: bool, count: int
) -> str:
    """Which pixels make the first components, and images from one end of each to the other."""
    rows = model.stream_.kept_rows()
    if rows is None:
        return ""
    scores = np.asarray(model.transform(rows), dtype=float)
    images = grey_levels(rows, ink).reshape(-1, *shape)
    lines = ""
    names = [str(i) for i in range(model.n_features_in_)]
    explained = model.explain_components(n_columns=len(names), feature_names=names)
    for j, component in enumerate(explained[:count]):
        weights = np.zeros(len(names))
        for column in component.columns:
            weights[int(column.name)] = column.share
        pixels = (255 * weights / max(float(weights.max()), 1e-300)).astype(np.uint8)
        number = component.number
        order = np.argsort(scores[:, j], kind="stable")
        at = order[evenly_spaced(len(order), STEPS)]
        strip = "".join(shown(images[i], f"pc{number} = {scores[i, j]:.3g}") for i in at)
        lines += (
            f"<tr><td>pc{number}, {component.variance_ratio:.1%}</td>"
            f"<td>{shown(pixels.reshape(shape), f'pixels behind pc{number}')}</td>"
            f"<td class=strip>{strip}</td></tr>"
        )
    return (
        "<h2>Pixels behind the components</h2><p class=quiet>Bright: pixels that move the "
        "component. Then images that were learned, from the lowest score to the highest.</p>"
        "<div class=wide><table class=pictures><tr><th>component</th><th>pixels</th>"
        f"<th>images along it</th></tr>{lines}</table></div>"
    )


def strangest(observed: Observed | None, shape: tuple[int, int], ink: bool) -> str:
    """The images of largest error."""
    if observed is None or not observed.strangest:
        return ""
    images = grey_levels(np.stack([row for _, row in observed.strangest]).astype(float), ink)
    cells = "".join(
        f"<figure>{shown(image.reshape(shape), f'row {number}')}<figcaption>{number:,}"
        "</figcaption></figure>"
        for (number, _), image in zip(observed.strangest, images, strict=True)
    )
    return (
        "<h2>Strangest images</h2><p class=quiet>Those of largest error, the strangest first, with "
        f"their numbers.</p><div class=figures>{cells}</div>"
    )


def means(
    columns: Sequence[Column], names: Sequence[str], shape: tuple[int, int], ink: bool
) -> str:
    """The mean image that was learned, that of these rows, and what is between them."""
    if not columns:
        return ""
    place = {name: i for i, name in enumerate(names)}
    ordered = sorted(columns, key=lambda column: place[column.name])
    pair = np.array([[c.learned.mean() for c in ordered], [c.these.mean() for c in ordered]])
    change = np.abs(pair[1] - pair[0])
    largest = float(change.max())
    pictures = [*zip(("learned", "these rows"), grey_levels(pair, ink), strict=True)]
    if largest > 0.0:
        pictures.append((f"difference, up to {largest:.2g}", grey_levels(change, ink=False)))
    cells = "".join(
        f"<figure>{shown(image.reshape(shape), name)}<figcaption>{name}</figcaption></figure>"
        for name, image in pictures
    )
    return (
        "<h2>Images learned and these images</h2><p class=quiet>Their means.</p>"
        f"<div class=figures>{cells}</div>"
    )
