"""The application: help, version, and the sessions that the pages show."""

from __future__ import annotations

import gc
import inspect
import re
import shlex
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest
import typer
from typer.testing import CliRunner

from kernelstream import cli as main_module
from kernelstream.cli import app as app_module
from kernelstream.cli.app import app, application
from kernelstream.cli.failures import USAGE
from tests.cli.conftest import run

COMMANDS = (
    "fit",
    "update",
    "transform",
    "compress",
    "score",
    "predict",
    "explain",
    "check",
    "monitor",
    "info",
    "report",
    "demo",
)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_examples_and_json(command: str) -> None:
    text = run(command, "--help").stdout
    assert command == "demo" or ("--json" in text and "kernelstream " + command in text)


def test_the_application_lists_its_commands_and_exit_codes() -> None:
    text = run("--help").stdout
    assert all(re.search(rf"\b{command}\b", text) for command in COMMANDS)
    assert "Exit codes" in text and "--install-completion" in text
    assert run("--version").stdout.startswith("kernelstream ")


def test_only_the_function_of_the_command_that_is_called_is_imported() -> None:
    script = "import sys; from kernelstream.cli.app import application; application(['info', 'x']);"
    script += "print(*sys.modules)"
    imported = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not any(name in imported for name in ("kernelstream.cli.info", "numpy", "pyarrow"))


def test_every_command_has_its_function() -> None:
    for name, (kind, module) in app_module.COMMANDS.items():
        function = getattr(import_module(f"kernelstream.cli.{module}"), name)
        given = next(iter(inspect.signature(function).parameters.values()))
        assert given.annotation == kind.__name__


def test_commands_of_other_distributions_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry point makes an application."""

    def other() -> typer.Typer:
        made = typer.Typer(help="Other commands.")
        made.command("go")(lambda: typer.echo("gone"))
        made.command("stay")(lambda: typer.echo("here"))
        return made

    entry = SimpleNamespace(name="other", load=lambda: other)
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [entry])
    assert "Other commands." in CliRunner().invoke(application(["--help"]), ["--help"]).stdout
    called = application(["other", "go"])
    assert CliRunner().invoke(called, ["other", "go"]).stdout == "gone\n"
    assert not application(["info", "m"]).registered_groups


def test_a_command_of_a_package_that_is_missing_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [])
    failed = CliRunner().invoke(application(["plant", "serve"]), ["plant", "serve"])
    assert failed.exit_code == USAGE
    assert "No such command 'plant'" in failed.stderr
    assert "kernelstream-plant" in failed.stderr


def test_public_names_are_there() -> None:
    assert all(hasattr(main_module, name) for name in main_module.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        main_module.Nothing  # noqa: B018


def test_garbage_is_collected_again_after_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["kernelstream", "info", "no such file"])
    with pytest.raises(SystemExit):
        main_module.main()
    assert gc.isenabled()
    gc.unfreeze()


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
    text = re.sub(r"9\d\.\d% of (\d+ held-out rows)", r"9# of \1", text)  # a row more or less
    return [" ".join(line.split()) for line in text.splitlines()]


@pytest.mark.parametrize("session", SESSIONS)
def test_sessions_on_the_pages_are_true(
    session: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    run("demo", "-o", tmp_path)
    monkeypatch.chdir(tmp_path)
    for name in ("digits.safetensors", "errors.csv", "report.html"):
        Path(name).unlink()
    for step in session.removeprefix("$ ").split("\n$ "):
        command, _, expected = step.partition("\n")
        words = shlex.split(command)
        assert words[0] == "kernelstream"
        shown = CliRunner().invoke(app, words[1:]).output
        assert comparable(shown) == comparable(expected)
