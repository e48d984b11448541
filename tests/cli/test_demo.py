"""``demo`` takes digits through the commands."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import outcome


def test_demo(tmp_path: Path) -> None:
    facts = outcome("demo", "-o", tmp_path / "demo")
    sizes = [Path(name).stat().st_size for name in facts["files"]]
    assert len(sizes) == 4 and min(sizes) > 10_000
