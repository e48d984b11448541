"""The code on the pages of the documentation runs as printed, page by page from top to bottom."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

PAGES = sorted((Path(__file__).parent.parent / "docs").glob("**/*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_page(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = page.read_text()
    for picture in re.findall(r"!\[[^]]*\]\(([^)]+)\)", text):
        assert (page.parent / picture).exists()
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for code in re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL):
        if "from river import" in code and find_spec("river") is None:
            pytest.skip("needs river")
        exec(compile(code, str(page), "exec"), names)
