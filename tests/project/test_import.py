"""What ``import kernelstream`` brings, and when."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version

import pytest

import kernelstream
from kernelstream import serialization


def in_a_new_process(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_import_waits_for_the_first_use() -> None:
    """Neither scikit-learn nor the compiler is imported before a model is made."""
    heavy = "('numpy', 'scipy', 'sklearn', 'numba', 'importlib.metadata')"
    code = f"import sys, kernelstream; print([m for m in {heavy} if m in sys.modules])"
    assert in_a_new_process(code) == "[]"
    code = (
        "import sys; from kernelstream import StreamingKernelPCA; StreamingKernelPCA();"
        "print([m for m in ('numba', 'sklearn.decomposition', 'kernelstream.images',"
        "'kernelstream.regression', 'kernelstream.papers.kim_2003') if m in sys.modules])"
    )
    assert in_a_new_process(code) == "[]"


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


@pytest.mark.parametrize("estimator", ["StreamingKernelPCA", "papers.KernelHebbianPCA"])
def test_a_file_brings_the_estimator_it_names(estimator: str, tmp_path: object) -> None:
    path = f"{tmp_path}/model"
    in_a_new_process(
        f"import numpy as np, kernelstream; X = np.random.default_rng(0).normal(size=(30, 2));"
        f"kernelstream.{estimator}(1, gamma=0.5, random_state=0).fit(X).save({path!r})"
    )
    loaded = in_a_new_process(f"import kernelstream; print(type(kernelstream.load({path!r})))")
    name = estimator.rpartition(".")[2]
    assert loaded.endswith(f".{name}'>")
    assert serialization.ModelFile.read(path).tree["estimator"] == name
