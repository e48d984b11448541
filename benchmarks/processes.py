"""Measurements that need a process of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def fresh_python(code: str, *arguments: str) -> str:
    """What a piece of code prints, run by this Python in a new process."""
    return _printed([sys.executable, "-c", code, *arguments])


def fresh_module(name: str, *arguments: str) -> str:
    """What a module of the benchmark prints, run in a new process."""
    return _printed([sys.executable, "-m", name, *arguments])


def _printed(command: list[str]) -> str:
    root = Path(__file__).resolve().parent.parent  # where ``benchmarks`` can be imported from
    done = subprocess.run(
        command, capture_output=True, check=False, text=True, cwd=root, env=os.environ
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command[:3])} failed:\n{done.stderr}")
    return done.stdout
