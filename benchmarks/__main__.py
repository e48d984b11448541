"""``python -m benchmarks``: kernelstream beside its peers, in one run, as ratios.

    python -m benchmarks [--data FOLDER] [--repeats 3] [--only ROW …]
                         [--json FILE] [--markdown FILE] [--out FOLDER]

Prints one line for each claim about speed, with the captured variance and the size of both sides.
The systems take turns and the shortest of the repeats counts. Sizes of equal accuracy are searched
before, and that is not timed (``search.py``); the settings of the peers are in ``systems.py``.
A second table (``front``) has scripts beside ours, on five data sets, a third one (``cores``) the
same work on 1, 2, 4 … cores.
Without ``--data`` rows of the same shapes are made up. ``--json`` keeps every single time,
``--markdown`` writes the table for the documentation, ``--out`` draws two pictures. ``--quick``
shrinks everything: it tests the benchmark, its times mean nothing.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks import cores, front, methods
from benchmarks.measuring import Outcome
from benchmarks.parts import Row
from benchmarks.parts import markdown as lines_as_markdown
from benchmarks.report import facts, markdown, table
from benchmarks.rows import ROWS
from benchmarks.run import Run
from benchmarks.sizes import FULL, QUICK

# Tables of their own: the papers' methods beside each other; scripts and pipelines on five sets;
# the same work on 1, 2, 4 … cores.
METHODS, FRONT, CORES = "methods", front.TABLE, cores.TABLE


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--data", type=Path, help="folder with mnist.npz; adult_a9a.npz, elec2.npz")
    parser.add_argument("--repeats", type=int, default=3, help="turns of every system")
    known = [*ROWS, FRONT, CORES, METHODS]
    parser.add_argument("--only", nargs="+", choices=known, help="rows to run")
    parser.add_argument("--quick", action="store_true", help="small sizes, to test the benchmark")
    parser.add_argument("--json", type=Path, help="file for everything that was measured")
    parser.add_argument("--markdown", type=Path, help="file for the table as Markdown")
    parser.add_argument("--out", type=Path, help="folder for the pictures")
    options = parser.parse_args(arguments)
    console = Console()
    sizes = QUICK if options.quick else FULL
    started = time.perf_counter()

    def say(words: str) -> None:
        console.print(
            f"[dim]{time.perf_counter() - started:6.1f} s  {words}[/dim]", highlight=False
        )

    run = Run(sizes, options.repeats, options.data, say)
    outcomes: list[Outcome] = []
    chosen = options.only or known
    for name in chosen:
        if name == METHODS:
            shown, run.raw[METHODS] = methods.compared(few=options.quick)
            Console(width=max(console.width, 110)).print(shown)
        elif name == FRONT:
            for part, lines in zip((FRONT, front.GOALS), of_front(run, options.quick), strict=True):
                run.raw[part] = lines
                print(lines_as_markdown(lines))
        elif name == CORES:
            run.raw[CORES] = lines = cores.of_run(run, options.quick)
            print(lines_as_markdown(lines))
        else:
            say(f"row: {name}")
            outcomes += ROWS[name](run)
    found = facts(run, outcomes, time.perf_counter() - started)
    if outcomes:
        Console(width=max(console.width, 170)).print(table(outcomes, found))
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(plain(found), indent=1, allow_nan=False) + "\n")
    if options.markdown:
        options.markdown.parent.mkdir(parents=True, exist_ok=True)
        tables = [markdown(outcomes, found)] if outcomes else []
        tables += [
            lines_as_markdown(run.raw[k]) + "\n"
            for k in (FRONT, front.GOALS, CORES)
            if k in run.raw
        ]
        options.markdown.write_text("\n".join(tables))
    if options.out:
        from benchmarks import plots

        for path in plots.draw(found, options.out):
            say(f"wrote {path}")


def of_front(run: Run, few: bool) -> tuple[list[Row], list[Row]]:
    """Scripts and pipelines beside ours, and what was to be reached."""
    given = front.sets(run.folder, run.say, few)
    if few:
        sizes = run.sizes
        found = front.compared(given, run.repeats, sizes.components, sizes.target, run.say)
    else:
        found = front.compared(given, run.repeats, say=run.say)
    return front.lines(given, found), front.goals(given, found)


def plain(value: Any) -> Any:
    """Numbers that JSON knows: what is not finite becomes null."""
    if isinstance(value, dict):
        return {key: plain(v) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


if __name__ == "__main__":
    main()
