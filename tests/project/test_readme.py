"""The README's examples run as printed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

README = Path(__file__).parents[2] / "README.md"
BLOCKS = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)


@pytest.mark.parametrize("code", BLOCKS, ids=[f"block {i}" for i in range(1, len(BLOCKS) + 1)])
def test_block(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # the first one saves a model
    exec(compile(code, str(README), "exec"), {})


def test_the_first_example_prints_what_its_comments_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(BLOCKS[0], str(README), "exec"), {})
    assert capsys.readouterr().out.startswith("(5, 10)\n")
    assert (tmp_path / "digits.safetensors").exists()


def test_the_first_screen_is_for_newcomers() -> None:
    """What people do with it, the picture, how to install: within 45 lines; all of it in 150."""
    lines = README.read_text().splitlines()
    assert len(lines) <= 150
    top = "\n".join(lines[:45])
    for wanted in ("<picture>", "What people do with it", 'pip install "kernelstream[all]"'):
        assert wanted in top
    assert "`make demo`" in top and "`make test`" in top
    assert "samples.md" in README.read_text()
