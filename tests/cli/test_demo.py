"""``demo`` takes digits through the commands."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import run


def test_demo(tmp_path: Path) -> None:
    text = run("demo", "-o", tmp_path).stdout
    assert all(f"$ kernelstream {name}" in text for name in ("fit", "info", "score", "report"))
    names = ("digits.csv", "digits.safetensors", "errors.csv", "report.html")
    assert min((tmp_path / name).stat().st_size for name in names) > 10_000
