"""The application: help, version, and the sessions that the pages show."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kernelstream.cli.app import app
from tests.cli.conftest import run

COMMANDS = (
    "fit",
    "update",
    "transform",
    "denoise",
    "score",
    "predict",
    "explain",
    "check",
    "monitor",
    "info",
    "merge",
    "report",
    "demo",
)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_examples_and_json(command: str) -> None:
    text = run(command, "--help").stdout
    assert "--json" in text
    assert command == "demo" or "kernelstream " + command in text


def test_the_application_lists_its_commands_and_exit_codes() -> None:
    text = run("--help").stdout
    assert all(re.search(rf"\b{command}\b", text) for command in COMMANDS)
    assert "Exit codes" in text and "--install-completion" in text
    assert run("--version").stdout.startswith("kernelstream ")


ROOT = Path(__file__).parents[2]
SESSIONS = [
    pytest.param(session, id=f"{page.name} {number}")
    for page in (ROOT / "README.md", ROOT / "docs" / "command-line.md")
    for number, session in enumerate(
        re.findall(r"```console\n(.*?)```", page.read_text(), flags=re.DOTALL), 1
    )
]


def comparable(text: str) -> list[str]:
    """Lines without what differs from machine to machine: seconds and the last digits."""
    text = re.sub(r"\d+\.\d s\b", "# s", text)
    text = re.sub(r"\d+\.\d MB\b", "# MB", text)
    text = re.sub(r"(\d+\.\d{2})\d+", r"\1", text)
    text = re.sub(r"9\d\.\d% of (\d+ rows held back)", r"9# of \1", text)  # a row more or less
    return [" ".join(line.split()) for line in text.splitlines()]


@pytest.mark.parametrize("session", SESSIONS)
def test_sessions_on_the_pages_are_true(
    session: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    run("demo", "-o", tmp_path, "--json")
    monkeypatch.chdir(tmp_path)
    for name in ("digits.safetensors", "errors.csv", "report.html"):
        Path(name).unlink()
    for step in session.removeprefix("$ ").split("\n$ "):
        command, _, expected = step.partition("\n")
        words = shlex.split(command)
        assert words[0] == "kernelstream"
        shown = CliRunner().invoke(app, words[1:]).output
        assert comparable(shown) == comparable(expected)
