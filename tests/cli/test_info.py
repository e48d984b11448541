"""``info`` tells what is in a model file."""

from __future__ import annotations

from pathlib import Path

from kernelstream import __version__, serialization
from tests.cli.conftest import NAMES, fitted, outcome, run


def test_info_tells_everything(data: Path) -> None:
    fitted()
    facts = outcome("info", "m.safetensors")
    assert facts["rows_seen"] == 1500 and facts["feature_names"] == NAMES
    assert facts["kernel"] == "RBF(gamma=0.2)" and facts["points"] == 30
    assert facts["history"][0]["sources"] == ["x.parquet"]
    intervals = facts["certificate"]["variance_intervals"]
    for variance, (low, high) in zip(facts["explained_variance"], intervals, strict=True):
        assert low <= variance <= high
    text = run("info", "m.safetensors").stdout
    written = f"format version {serialization.VERSION}, written by kernelstream {__version__}"
    assert written in " ".join(text.split())
    assert (facts["format_version"], facts["release"]) == (serialization.VERSION, __version__)
    assert "1,500" in text and "Certificate" in text and "RBF(gamma=0.2)" in text
