"""Small grey pictures."""

from __future__ import annotations

import numpy as np

from kernelstream.cli.report.thumbnails import grey_levels


def test_ink_is_dark_and_light_is_bright() -> None:
    ink, photograph = np.array([[0.0, 0.0, 0.0, 9.0]]), np.array([[0.0, 4.0, 5.0, 9.0]])
    assert grey_levels(ink).tolist() == [[255, 255, 255, 0]]
    assert grey_levels(photograph)[0, 0] == 0 and grey_levels(photograph)[0, 3] == 255
