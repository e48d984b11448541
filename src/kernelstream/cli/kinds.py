"""Options of ``fit`` that go together, and the estimator that they describe."""

from __future__ import annotations

import inspect
from typing import Any

from kernelstream import (
    KernelMonitor,
    KernelNovelty,
    StreamingKernelPCA,
    StreamingKernelRidge,
    kernels,
    landmarks,
    papers,
    trackers,
)
from kernelstream.cli import options as opt
from kernelstream.cli.arguments import FitArguments
from kernelstream.cli.failures import USAGE, CommandError
from kernelstream.cli.modelfile import require_sense
from kernelstream.cli.normal import new_monitor
from kernelstream.cli.parsing import parse_kernel, parse_part
from kernelstream.cli.wording import option_of

# Options that cannot be used with another one, or without --target and --detector.
NOT_WITH: dict[str, tuple[str, ...]] = {
    "without --target and --detector": ("alpha", "hold_back"),
    "with --like": ("columns", "exclude", "treat", "missing", "kernel", "gamma", "standardize"),
    "with --target": ("detector", "like", "components", "alpha"),
    "with --detector novelty": ("like", "passes", "hold_back"),
    "with --detector monitor": (
        *("like", "passes", "hold_back", "components", "kernel", "gamma"),
        *("standardize", "forgetting", "weight_column", "checkpoint_every", "resume"),
    ),
}


def require_fitting_options(given: FitArguments) -> None:
    """Raise where an option is given that cannot be used with another one."""
    used = [f"with --{name}" for name in ("like", "target") if getattr(given, name)]
    if given.detector is not None:
        used.append(f"with --detector {given.detector}")
    elif given.target is None:
        used.append("without --target and --detector")
    parameters = inspect.signature(FitArguments).parameters
    for where in used:
        wrong = [n for n in NOT_WITH[where] if getattr(given, n) != parameters[n].default]
        if wrong:
            raise CommandError(USAGE, f"{', '.join(map(option_of, wrong))} cannot be used {where}.")


def new_estimator(given: FitArguments) -> Any:
    """A fresh estimator whose parameters make sense, which is checked before any row is read.

    That of a prediction is a regression: only the rows show whether a classifier is needed.
    """
    parameters = opt.parameter_settings(given.set)
    if "tracker" in parameters:
        names = trackers.NAMES | papers.TRACKERS
        parameters["tracker"] = parse_part(str(parameters["tracker"]), names, "set tracker")
    kind: type = {None: StreamingKernelPCA, "novelty": KernelNovelty, "monitor": KernelMonitor}[
        given.detector
    ]
    if given.target is not None:
        kind = StreamingKernelRidge
    options = {} if kind is KernelMonitor else parameters_of_options(given, kind, parameters)
    if given.alpha is not None:
        options["alpha"] = given.alpha
    try:
        if kind is KernelMonitor:
            return new_monitor(given.basis, random_state=given.seed, **options, **parameters)
        estimator = kind(**options, **parameters)
    except TypeError as problem:
        known = ", ".join(n for n in inspect.signature(kind).parameters if n not in options)
        raise CommandError(
            USAGE,
            f"--set {', '.join(parameters)}: the parameters of a {kind.__name__} that are no "
            f"options of 'fit' are {known}.",
        ) from problem
    require_sense(estimator, {"forgetting": "--forgetting", "alpha": "--alpha"})
    return estimator


def parameters_of_options(
    given: FitArguments, kind: type, others: dict[str, Any]
) -> dict[str, Any]:
    """The parameters that options give; the tracker is taken out of the ``others``."""
    chosen = (given.gamma, given.components, given.basis if given.target else None)
    if kind is not StreamingKernelPCA and "auto" in chosen:
        raise CommandError(
            USAGE,
            "auto chooses for a kernel PCA alone: write a number ('kernelstream check --tune "
            "--target' suggests one).",
        )
    kernel: Any = given.kernel if given.kernel in kernels.NAMES else parse_kernel(given.kernel)
    has_gamma = isinstance(kernel, str) and hasattr(kernels.NAMES[kernel](), "gamma")
    if given.gamma is not None and not has_gamma:
        raise CommandError(
            USAGE, f"--gamma needs the name of a kernel that has a gamma; got {given.kernel}."
        )
    names = landmarks.NAMES | papers.LANDMARKS
    options: dict[str, Any] = {
        "kernel": kernel,
        "gamma": None if given.gamma is None else opt.literal(given.gamma),
        "basis": "auto" if given.basis == "auto" else parse_part(given.basis, names, "basis"),
        "scale": scale_of(given.standardize),
        "random_state": given.seed,
    }
    if given.components is not None:
        options["n_components"] = opt.components(given.components)
    if kind is KernelNovelty and given.standardize is None:
        options["scale"] = "standard"
    if kind is not StreamingKernelPCA:
        return options if given.forgetting is None else options | {"forgetting": given.forgetting}
    tracker = trackers.resolve(others.pop("tracker", "covariance"))
    if given.forgetting is not None:
        if "forgetting" not in tracker.get_params(deep=False):
            raise CommandError(USAGE, f"The tracker {tracker} has no forgetting.")
        tracker.set_params(forgetting=given.forgetting)
    # A number must be known before the first row, or the components have 95% of the variance:
    # ten were 4 and 24 points short of it in docs/tables.md.
    needs_number = tracker.kind == "sequential" or others.get("robust")
    return {"n_components": 10 if needs_number else 0.95, "tracker": tracker, **options}


def scale_of(standardize: bool | None) -> str | None:
    """The rule for the scales of columns."""
    return {None: "auto", True: "standard", False: None}[standardize]
