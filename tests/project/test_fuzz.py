"""The attacks of ``make fuzz`` run, and a failure is told with the way to see it again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import fuzz.__main__ as harness

ROOT = Path(harness.__file__).parents[1]


@pytest.mark.parametrize("name", harness.names())
def test_every_attack_has_its_one_function(name: str) -> None:
    module = __import__(f"fuzz.{name}", fromlist=["attack"])
    assert callable(module.attack) and module.__doc__


@pytest.mark.slow  # the summary below has another seed
def test_readers_stand_one_seed() -> None:
    assert harness.one("readers", 0) is None


@pytest.mark.parametrize(
    ("body", "seen"),
    [
        ("return f'script of seed {seed}'", "script of seed 3"),
        ("import os; os.kill(os.getpid(), 11)", "SIGSEGV"),
        ("bytearray(1 << 40)", "MemoryError"),
        ("while True: pass", "more than 2 seconds"),
        ("return None", None),
    ],
)
def test_failures_of_every_kind_are_seen(
    body: str, seen: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = f"import sys, types\ndef attack(seed):\n    {body}\n"
    code += "sys.modules['fuzz.fake'] = types.SimpleNamespace(attack=attack)\n"
    monkeypatch.setattr(harness, "_ONE", code.replace("{", "{{").replace("}", "}}") + harness._ONE)
    found = harness.one("fake", 3, seconds=2 if "while" in body else 60)
    assert found is None if seen is None else seen in str(found)


def test_the_summary_and_the_exit_code() -> None:
    words = [sys.executable, "-m", "fuzz", "--only", "readers", "--seed", "1", "--once"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "readers: 1 seeds, 0 failed\n"), done.stdout
