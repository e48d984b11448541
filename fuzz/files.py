"""Attack on model files: golden files are changed, given the right checksum, loaded and used.

    python -m fuzz.files --count 10000 --seed 0

A changed file may be loaded or refused, and what was loaded may answer, learn or refuse with a
``ValueError``. It may not end the process by a signal, raise anything else, take more than
``MEMORY`` bytes, or more than ``SECONDS``. Each file is used in a worker process, whose memory the
system limits; ``attack(seed)`` is one file, always the same for the same seed.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import hashlib
import itertools
import json
import os
import random
import select
import signal
import struct
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

ROOT = Path(__file__).parents[1]
GOLDEN = sorted((ROOT / "tests" / "golden").glob("files/*.safetensors"))
MEMORY = 2 * 2**30  # beyond what a worker has once everything is imported
SECONDS = 120

Tree = dict[str, Any]
Arrays = dict[str, np.ndarray]

# --- taking apart, putting together


def take_apart(data: bytes) -> tuple[Tree, Arrays, dict[str, Any]]:
    """Tree, tensors and header of a model file."""
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(json.loads(data[8 : 8 + length])["__metadata__"]["kernelstream"])
    return json.loads(header["content"]), dict(load_tensors(data)), header


def put_together(content: str, arrays: Arrays, header: dict[str, Any]) -> bytes:
    """A model file with the right checksum."""
    header = {**header, "checksum": "0" * 64, "content": content}
    contiguous = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    data = save_tensors(contiguous, {"kernelstream": json.dumps(header)})
    return data.replace(b"0" * 64, hashlib.sha256(data).hexdigest().encode(), 1)


# --- changes: each takes the file apart in place, and says what it did

NUMBERS: list[Any] = [
    0, 1, 2, 3, 7, 64, -1, -3, 2**15, 2**31 - 1, 2**31, 2**53, 2**62, 2**63, 10**30, 10**400,
    0.0, 0.5, 1.0, -0.5, 1e-300, 5e-324, 1e300, -1e300, 1.5,
    {"float": "nan"}, {"float": "inf"}, {"float": "-inf"},
    None, True, False, "", "auto", "standard", "tight", "float32", "float64", "ä" * 30,
    {"tuple": []}, {"tuple": [1, 2.0, "x"]}, [], [1], {},
]  # fmt: skip


def places(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Every node of a tree, with the way to it."""
    if path:
        yield path, node
    if isinstance(node, dict | list):
        inside = node.items() if isinstance(node, dict) else enumerate(node)
        for key, value in inside:
            yield from places(value, (*path, key))


def put(tree: Any, path: tuple[Any, ...], value: Any) -> None:
    """Write a value into a place of a tree."""
    for key in path[:-1]:
        tree = tree[key]
    tree[path[-1]] = value


def change_value(rng: random.Random, tree: Tree, arrays: Arrays) -> str:
    path, old = rng.choice([p for p in places(tree) if not isinstance(p[1], dict | list)])
    new = rng.choice(NUMBERS)
    if isinstance(old, int | float) and rng.random() < 0.5:
        new = rng.choice([old + 1, old - 1, old * 2, -old, old + 0.5, old * 1e6])
    put(tree, path, new)
    return f"{path} = {new!r}, was {old!r}"


def change_node(rng: random.Random, tree: Tree, arrays: Arrays) -> str:
    nodes = list(places(tree))
    (path, _), (other, new) = rng.choice(nodes), rng.choice(nodes)
    put(tree, path, copy.deepcopy(new))
    return f"{path} = that of {other}"


def change_name(rng: random.Random, tree: Tree, arrays: Arrays) -> str:
    kind = rng.choice(["state", "part"])
    found = [(p, v) for p, v in places(tree) if p[-1] == kind]
    if not found:
        return change_value(rng, tree, arrays)
    from kernelstream.serialization import STORED

    path, old = rng.choice(found)
    new = rng.choice(sorted(STORED))
    put(tree, path, new)
    return f"{path} = {new}, was {old}"


def drop_key(rng: random.Random, tree: Tree, arrays: Arrays) -> str:
    path, _ = rng.choice(list(places(tree)))
    holder: Any = tree
    for key in path[:-1]:
        holder = holder[key]
    del holder[path[-1]]
    return f"without {path}"


def nest(rng: random.Random, tree: Tree, arrays: Arrays) -> str:
    path, old = rng.choice(list(places(tree)))
    depth, node = rng.choice([2, 20, 60, 90, 200]), old
    for _ in range(depth):
        node = rng.choice(
            [
                {"tuple": [node]},
                {"part": "kernels.Sum", "params": {"one": node, "two": 1.0}},
                {"part": "kernels.Normalised", "params": {"kernel": node}},
            ]
        )
    put(tree, path, node)
    return f"{path} nested {depth} times"


def change_numbers(rng: random.Random, tree: Tree, arrays: Arrays) -> str:
    name = rng.choice(sorted(arrays))
    array = arrays[name] = np.array(arrays[name])
    if not array.size:
        return change_shape(rng, tree, arrays)
    flat, place = array.reshape(-1), rng.randrange(array.size)
    new: Any
    if array.dtype.kind in "iu":
        new = rng.choice([-1, 2**31, 2**40, 2**62, len(flat), 2000, -(2**63), 0])
        new = int(np.clip(new, np.iinfo(array.dtype).min, np.iinfo(array.dtype).max))
    elif array.dtype.kind == "f":
        largest = float(np.finfo(array.dtype).max)
        new = rng.choice([0.0, np.nan, np.inf, -np.inf, largest, -largest, 1e-300, -1.0, 1e10])
    else:
        new = not flat[place]
    where = slice(None) if rng.random() < 0.3 else place
    flat[where] = new
    return f"{name}[{where}] = {new}"


def flip_bits(rng: random.Random, tree: Tree, arrays: Arrays) -> str:
    name = rng.choice(sorted(arrays))
    array = arrays[name] = np.array(arrays[name])
    data = array.reshape(-1).view(np.uint8)
    for _ in range(rng.choice([1, 1, 5])):
        if len(data):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return f"bits of {name}"


def change_shape(rng: random.Random, tree: Tree, arrays: Arrays) -> str:
    name = rng.choice(sorted(arrays))
    array = arrays[name]
    axis = rng.randrange(max(array.ndim, 1))
    changes: list[Callable[[], np.ndarray]] = [
        lambda: array.T,
        lambda: array.reshape(-1),
        lambda: array[None],
        lambda: np.concatenate([array, array], axis=axis),
        lambda: np.take(array, range(array.shape[axis] - 1), axis=axis),
        lambda: np.take(array, [], axis=axis),
        lambda: np.take(array, [0], axis=axis),
        lambda: np.concatenate([array, np.take(array, [0], axis=axis)], axis=axis),
        lambda: np.zeros((0, 2**40)),
        lambda: np.zeros((2**40, 0)),
        lambda: np.zeros(0),
        lambda: np.zeros(()),
        lambda: np.zeros((3, 3)),
    ]
    with contextlib.suppress(ValueError, IndexError):
        arrays[name] = rng.choice(changes)()
    return f"{name} of shape {arrays[name].shape}, was {array.shape}"


def change_type(rng: random.Random, tree: Tree, arrays: Arrays) -> str:
    name = rng.choice(sorted(arrays))
    kind = rng.choice(["float32", "float64", "int64", "int32", "bool", "uint8", "float16"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        arrays[name] = arrays[name].astype(kind)
    return f"{name} as {kind}"


def change_tensors(rng: random.Random, tree: Tree, arrays: Arrays) -> str:
    one, two = rng.choice(sorted(arrays)), rng.choice(sorted(arrays))
    what = rng.choice(["swap", "copy", "drop", "more"])
    if what == "swap":
        arrays[one], arrays[two] = arrays[two], arrays[one]
    elif what == "copy":
        arrays[one] = arrays[two]
    elif what == "drop":
        del arrays[one]
    else:
        arrays["more"] = np.zeros(4)
    return f"{what} {one}, {two}"


def of_another(rng: random.Random, tree: Tree, arrays: Arrays) -> str:
    """The model of another file under the parameters of this one, or the other way round."""
    path = rng.choice(GOLDEN)
    other, tensors, _ = take_apart(path.read_bytes())
    for name in rng.sample(sorted(other), k=min(2, len(other))):
        if name in tree:
            tree[name] = other[name]
    arrays.update(tensors)
    return f"parts of {path.name}"


CHANGES = [
    change_value, change_value, change_value, change_value, change_node, change_name, drop_key,
    nest, change_numbers, change_numbers, change_numbers, flip_bits, flip_bits, change_shape,
    change_shape, change_shape, change_type, change_tensors, of_another,
]  # fmt: skip


def mutant(seed: int) -> tuple[str, bytes, list[str]]:
    """A changed golden file: the case it came from, its bytes, and what was changed."""
    rng = random.Random(seed)
    path = GOLDEN[rng.randrange(len(GOLDEN))]
    case = path.name.split(".")[0]
    data = path.read_bytes()
    tree, arrays, header = take_apart(data)
    said = []
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        change = rng.choice(CHANGES)
        if not arrays or not tree:
            break
        with contextlib.suppress(RecursionError, IndexError):  # nothing left to change
            said.append(f"{change.__name__}: {change(rng, tree, arrays)}")
    if rng.random() < 0.02:
        header["version"] = rng.choice([0, 1, 2, 3, -1, "1", None, 2**70, 1.0])
        said.append(f"version {header['version']!r}")
    try:
        data = put_together(json.dumps(tree), arrays, header)
    except (ValueError, RecursionError):
        said.append("as it was")
    if rng.random() < 0.05:  # any byte, with the checksum as it was
        raw = bytearray(data)
        raw[rng.randrange(len(raw))] ^= 1 << rng.randrange(8)
        data = bytes(raw)
        said.append("a bit of the file")
    return case, data, said


# --- in a worker


def use(case: str, path: Path) -> None:
    """Load a model, ask all that a user may ask, let it learn on, and show it."""
    from tests.golden import write

    write.parameters = lambda model: {}  # those of a changed file may be anything
    command(path, "info", str(path), "--json")
    command(path, "info", str(path))
    known = write.CASES[case]
    after = path.with_suffix(".after")
    if isinstance(known, write.Command):
        model, queries = write.load(path), write.as_kind(write.rows(3, seed=4), "frame")
        rows = path.with_name("rows.csv")
        rows.write_text(write.csv(write.rows(60)), encoding="utf-8")
        command(path, "transform", str(path), str(rows), "-o", str(path.with_name("out.csv")))
        command(path, "update", str(path), str(rows), "-o", str(after), "--resume")
        checkpoint = path.with_name("c.safetensors.checkpoint")
        checkpoint.write_bytes(path.read_bytes())
        command(path, "fit", str(rows), "-o", str(path.with_name("c.safetensors")), "--resume")
        write.attributes(model)
        write.of_components(model, queries)
    else:
        attempt(lambda: known.ask(path))
        attempt(lambda: known.proceed(path, after))
        if after.exists():
            attempt(lambda: known.ask(after))


def attempt(act: Callable[[], Any]) -> None:
    """Do something that may be refused in words."""
    with contextlib.suppress(ValueError):
        act()


def command(path: Path, *words: str) -> None:
    """A command that may fail with one of its exit codes, but not in a way nobody foresaw."""
    from tests.golden import write

    try:
        write.command(path.parent, *words)
    except RuntimeError as failure:  # what `write.command` says of an exit code
        if "failed:" not in str(failure):
            raise


def work() -> None:
    """Use one file after the other; the seeds come by the input, what happened goes out."""
    import resource

    from tests.golden import write  # noqa: F401 (imported before the memory is limited)

    warnings.simplefilter("ignore")
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    use_sound()
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    answer.write('"ready"\n')
    answer.flush()
    for line in sys.stdin:
        seed, failure = int(line), None
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "m.safetensors"
            case, data, said = mutant(seed)
            path.write_bytes(data)
            try:
                use(case, path)
            except ValueError:
                pass
            except BaseException:  # all of it is a finding
                failure = traceback.format_exc(limit=-6)
        answer.write(json.dumps([case, said, failure]) + "\n")
        answer.flush()


def use_sound() -> None:
    """Use a sound file of each kind of pass, so that all is imported and compiled."""
    for case in ("tracker_rls", "tracker_lms", "tracker_subset_hebbian", "monitor", "command_fit"):
        path = ROOT / "tests" / "golden" / "files" / f"{case}.safetensors"
        with tempfile.TemporaryDirectory() as folder:
            copied = Path(folder) / "m.safetensors"
            copied.write_bytes(path.read_bytes())
            use(case, copied)


# --- outside of it


class Worker:
    """A process that uses files, started anew when one has killed it."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> subprocess.Popen[str]:
        """A process that is ready."""
        threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        process = subprocess.Popen(
            [sys.executable, "-m", "fuzz.files", "--work"],
            cwd=ROOT,
            env={**os.environ, **threads},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert process.stdout is not None
        if process.stdout.readline() != '"ready"\n':
            raise RuntimeError("the worker did not start: python -m fuzz.files --work says why")
        return process

    def use(self, seed: int) -> str | None:
        """What went wrong with one file."""
        process = self.process = self.process or self.start()
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(f"{seed}\n")
        process.stdin.flush()
        line = ""
        if select.select([process.stdout], [], [], SECONDS)[0]:
            line = process.stdout.readline()
        else:
            process.kill()
        if line:
            case, said, failure = json.loads(line)
            return None if failure is None else f"seed {seed}, {case}: {said}\n{failure}"
        self.stop()
        case, _, said = mutant(seed)
        code = process.returncode
        ended = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return f"seed {seed}, {case}: {said}\nthe process ended with {ended}"

    def stop(self) -> None:
        """End the process."""
        if self.process is None:
            return
        assert self.process.stdin is not None and self.process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()
        self.process = None


_WORKER = Worker()


def attack(seed: int) -> str | None:
    """Use one changed file: None, or what went wrong in words."""
    return _WORKER.use(seed)


def stop() -> None:
    """End the worker."""
    _WORKER.stop()


def main() -> None:
    """Attack with many files and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    parser.add_argument("--minutes", type=float, default=None, help="in the place of --count")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work()
        return
    ends = time.monotonic() + 60 * (options.minutes or 0)
    found: Counter[str] = Counter()
    for n in itertools.count():
        if time.monotonic() > ends if options.minutes else n >= options.count:
            break
        failure = attack(options.seed + n)
        if failure is not None:
            last = failure.strip().splitlines()[-1]
            found[last] += 1
            if found[last] <= 2:
                print(failure, flush=True)
    print(f"{n} files, {sum(found.values())} failures", dict(found))
    stop()
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
