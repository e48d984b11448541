"""Inline SVG drawings for table cells: curves and histograms."""

from __future__ import annotations

import numpy as np
from markupsafe import Markup

WIDTH, HEIGHT = 140, 32
BARS = 24


def curve(values: np.ndarray, scores: np.ndarray) -> Markup:
    """A line through some points.

    Examples
    --------
    >>> import numpy as np
    >>> print(curve(np.array([0.0, 1.0]), np.array([2.0, 3.0]))[:4])
    <svg
    """
    x, y = within(values, WIDTH - 4), within(scores, HEIGHT - 4)
    places = " ".join(f"{2 + a:.1f},{HEIGHT - 2 - b:.1f}" for a, b in zip(x, y, strict=True))
    zero = ""
    if scores.min() < 0.0 < scores.max():
        at = HEIGHT - 2 - float(np.interp(0.0, [scores.min(), scores.max()], [0, HEIGHT - 4]))
        zero = f'<line class=zero x1="0" x2="{WIDTH}" y1="{at:.1f}" y2="{at:.1f}"/>'
    return svg(f'{zero}<polyline class=curve points="{places}"/>')


def histograms(learned: np.ndarray, these: np.ndarray) -> Markup:
    """Two distributions of one column: that of the rows learned as a line, of these as bars."""
    both = np.concatenate([learned, these])
    low, high = np.percentile(both, [0.5, 99.5])
    if not high > low:
        low, high = float(both.min()), float(both.max()) or 1.0
    edges = np.linspace(low, high if high > low else low + 1.0, BARS + 1)
    heights = [
        np.histogram(np.clip(x, edges[0], edges[-1]), edges)[0] / len(x) for x in (learned, these)
    ]
    unit = (HEIGHT - 2) / max(float(np.max(heights)), 1e-12)
    wide = WIDTH / BARS
    bars = "".join(
        f'<rect class=bar x="{i * wide:.1f}" y="{HEIGHT - h * unit:.1f}" '
        f'width="{wide - 0.6:.1f}" height="{h * unit:.1f}"/>'
        for i, h in enumerate(heights[1])
        if h > 0
    )
    places = " ".join(
        f"{i * wide:.1f},{HEIGHT - h * unit:.1f} {(i + 1) * wide:.1f},{HEIGHT - h * unit:.1f}"
        for i, h in enumerate(heights[0])
    )
    return svg(f'{bars}<polyline class=learned points="{places}"/>')


def within(values: np.ndarray, length: float) -> np.ndarray:
    """Numbers moved and stretched to lie between 0 and a length."""
    return (values - values.min()) / (float(np.ptp(values)) or 1.0) * length


def svg(inside: str) -> Markup:
    """A drawing of the size that tables have room for."""
    return Markup(
        f'<svg class=small viewBox="0 0 {WIDTH} {HEIGHT}" aria-hidden="true">{inside}</svg>'
    )
