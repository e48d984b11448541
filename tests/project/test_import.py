"""What ``import kernelstream`` brings, and when."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

import kernelstream
from kernelstream import papers, serialization
from tests import samples


def in_a_new_process(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_import_waits_for_the_first_use() -> None:
    """Neither scikit-learn nor the compiler is imported before a model is made."""
    heavy = "('numpy', 'scipy', 'sklearn', 'numba', 'importlib.metadata')"
    code = (
        f"import sys, kernelstream; print([m for m in {heavy} if m in sys.modules]);"
        "from kernelstream import StreamingKernelPCA; StreamingKernelPCA();"
        "print([m for m in ('numba', 'sklearn.decomposition', 'kernelstream.images',"
        "'kernelstream.regression', 'kernelstream.papers.kim_2003') if m in sys.modules])"
    )
    assert in_a_new_process(code).split() == ["[]", "[]"]


def test_every_public_name_is_there() -> None:
    for name in kernelstream.__all__:
        assert name in dir(kernelstream)
        assert getattr(kernelstream, name).__name__.rsplit(".", 1)[-1] == name
    names = in_a_new_process("from kernelstream import *; print(*sorted(globals()))").split()
    assert set(kernelstream.__all__) <= set(names)
    assert kernelstream.__version__ == version("kernelstream")
    assert kernelstream.StreamingKernelPCA is kernelstream.StreamingKernelPCA


@pytest.mark.slow
@pytest.mark.parametrize("name", kernelstream.__all__)
def test_every_public_name_is_there_alone(name: str) -> None:
    """Whatever was imported before may not be needed: a process for each."""
    found = in_a_new_process(f"import kernelstream; print(kernelstream.{name}.__name__)")
    assert found.rsplit(".", 1)[-1] == name


def test_other_names_are_not() -> None:
    with pytest.raises(AttributeError, match="no attribute 'StreamingKernelPLS'"):
        kernelstream.StreamingKernelPLS  # noqa: B018
    with pytest.raises(ImportError, match="StreamingKernelPLS"):
        from kernelstream import StreamingKernelPLS  # noqa: F401


def test_a_file_brings_the_estimator_it_names(tmp_path: Path) -> None:
    """The process that reads the files has not imported the estimators."""
    kinds: tuple[Any, ...] = (kernelstream.StreamingKernelPCA, papers.KernelHebbianPCA)
    names = [kind.__name__ for kind in kinds]
    for kind, name in zip(kinds, names, strict=True):
        kind(1, gamma=0.5, random_state=0).fit(samples.rows(30, 2)).save(tmp_path / name)
        assert serialization.ModelFile.read(tmp_path / name).tree["estimator"] == name
    paths = [str(tmp_path / name) for name in names]
    loaded = in_a_new_process(
        f"import kernelstream; print(*(type(kernelstream.load(p)).__name__ for p in {paths}))"
    )
    assert loaded.split() == names
