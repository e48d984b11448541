"""``python -m reproductions``: run the papers' experiments one after the other, and compare."""

from __future__ import annotations

import argparse
import json
import platform
import sys
import traceback
from importlib import import_module
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from threadpoolctl import threadpool_limits

import kernelstream
from reproductions import frame


def papers() -> list[str]:
    """Folders with a ``run.py``."""
    return sorted(file.parent.name for file in frame.HERE.glob("*/run.py"))


def main(arguments: list[str] | None = None) -> int:
    options = parsed(arguments)
    console = Console()
    everything: dict[str, dict[str, Any]] = {}
    failed: list[str] = []
    data = frame.Data(options.data)
    # One thread: results are the same on every machine, and small matrices gain nothing from two.
    with threadpool_limits(1):
        for name in options.only or papers():
            console.rule(name, align="left")
            try:
                results = run(name, data, options.full, options.out)
            except Exception:
                traceback.print_exc()
                failed.append(f"{name} stopped with the error above")
                continue
            everything[name] = results
            failed += [f"{name}: {sentence}" for sentence in results["outside"]]
            for sentence in results["skipped"]:
                console.print(f"[yellow]not run:[/yellow] {sentence}", highlight=False)
            console.print(f"{results['seconds']:.0f} s → {results['out']}", highlight=False)
    show(everything, console)
    for sentence in failed:
        console.print(f"[bold red]not as expected:[/bold red] {sentence}", highlight=False)
    if not failed:
        console.print("[green]Every number is within its expected range.[/green]")
    return 1 if failed else 0


def parsed(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m reproductions", description=__doc__)
    parser.add_argument("--data", type=Path, metavar="PATH", help="folder with mnist.npz and so on")
    parser.add_argument("--full", action="store_true", help="the papers' full sizes")
    parser.add_argument("--only", nargs="+", choices=papers(), metavar="NAME", help=str(papers()))
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="write everything there and leave the READMEs of the checkout as they are",
    )
    options = parser.parse_args(arguments)
    if options.data is not None and not options.data.is_dir():
        parser.error(f"--data {options.data} is not a folder.")
    if options.out is not None and options.out.exists() and not options.out.is_dir():
        parser.error(f"--out {options.out} is a file; a folder is wanted.")
    return options


def run(name: str, data: frame.Data, full: bool, to: Path | None) -> dict[str, Any]:
    """Run one paper, write what it found, and compare its numbers with their ranges."""
    folder = frame.HERE / name
    paper = import_module(f"reproductions.{name}.run")
    out = folder / "output" if to is None else to / name
    out.mkdir(parents=True, exist_ok=True)
    for old in out.glob("*.png"):
        old.unlink()
    begin, begin_here = perf_counter(), process_time()
    results = frame.plain(paper.run(data=data, full=full, out=out))
    results["seconds"] = round(perf_counter() - begin, 1)
    results["processor_seconds"] = round(process_time() - begin_here, 1)
    results.setdefault("skipped", [])
    expected = json.loads((folder / "expected.json").read_text(encoding="utf-8"))
    if results["skipped"]:  # what did not run cannot be compared
        expected = {key: v for key, v in expected.items() if frame.number(results, key) is not None}
    results["outside"] = frame.outside(results, expected)
    results["claims"] = paper.claims(results)
    frame.write_results(results, out)
    sizes = "Full" if full else "Default"
    how = (
        f"*{sizes} sizes, {results['processor_seconds']:.0f} s of one core; "
        f"kernelstream {kernelstream.__version__}, Python {platform.python_version()}, "
        f"{platform.machine()}.*"
    )
    table = frame.table(results["claims"], how, frame.deciders(folder))
    if to is not None:
        readme = frame.fill((folder / "README.md").read_text(encoding="utf-8"), table)
        (out / "README.md").write_text(readme, encoding="utf-8")
    elif not results["skipped"]:  # a table with holes does not replace a whole one
        frame.publish(folder, table, out)
    return {**results, "out": out}


def show(everything: dict[str, dict[str, Any]], console: Console) -> None:
    table = Table(title="The papers' claims", title_style="bold", title_justify="left")
    for column in ("paper", "claim", "its number", "ours", "same?"):
        table.add_column(column, overflow="fold")
    for name, results in everything.items():
        for row in results["claims"]:
            colour = {True: "green", False: "yellow", None: "dim"}[row["same"]]
            cells = (row["claim"], row["paper"], row["ours"], frame.verdict(row))
            table.add_row(name, *map(escape, cells[:3]), f"[{colour}]{escape(cells[3])}[/{colour}]")
            name = ""
        table.add_section()
    console.print(table)


if __name__ == "__main__":
    sys.exit(main())
