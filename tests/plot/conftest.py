"""Nothing calls show, and nothing is left open."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import pytest


@pytest.fixture(autouse=True)
def no_open_figures(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing calls show, and nothing is left open."""
    monkeypatch.setattr(plt, "show", lambda *a, **k: pytest.fail("a picture called show"))
    plt.close("all")
    yield
    plt.close("all")


def drawn(ax: Any) -> Any:
    """The picture can really be drawn."""
    ax.figure.canvas.draw()
    return ax
