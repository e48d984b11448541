"""Kinds of models that ``fit`` learns: which options each of them takes, and its estimator."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from kernelstream import (
    KernelMonitor,
    KernelNovelty,
    StreamingKernelClassifier,
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
from kernelstream.cli.parsing import parse_gamma, parse_kernel, parse_part
from kernelstream.cli.wording import option_of
from kernelstream.regression.base import OnePassRidge
from kernelstream.tables import Target

COMPONENTS = "0.95"  # of the variance: ten were 4 and 24 points short of it in docs/tables.md
FIXED_COMPONENTS = "10"  # where an estimator has to know their number before the first row

# Options that a kind of model does not take. A model may be of several kinds.
NOT_FOR: dict[str, tuple[str, ...]] = {
    "a kernel PCA (without --detector and --target)": ("alpha", "hold_back"),
    "a model like another one (--like)": (
        *("columns", "exclude", "treat", "missing", "kernel", "gamma", "standardize", "sample"),
        "until",
    ),
    "a model of a sample (--sample)": ("passes", "until", "checkpoint_every", "resume"),
    "a model of random rows (--until)": ("passes",),
    "a prediction (--target)": (*("detector", "like", "sample", "until", "components", "alpha"),),
    "a novelty detector (--detector novelty)": (
        *("like", "sample", "until", "passes", "hold_back"),
    ),
    "a monitor (--detector monitor)": (
        *("like", "sample", "until", "passes", "hold_back", "components", "kernel", "gamma"),
        *("standardize", "forgetting", "weight_column", "checkpoint_every", "resume"),
    ),
}


def kinds_of(given: FitArguments) -> list[str]:
    """The kinds of model that the arguments of ``fit`` ask for, as in the table."""
    is_plain = given.target is None and given.detector is None
    asked = (
        is_plain,
        given.like is not None,
        given.sample,
        given.until is not None,
        given.target is not None,
        given.detector == "novelty",
        given.detector == "monitor",
    )
    return [kind for kind, is_asked in zip(NOT_FOR, asked, strict=True) if is_asked]


def require_fitting_options(given: FitArguments) -> None:
    """Raise where an option is given that the kind of model does not take."""
    defaults = {name: p.default for name, p in inspect.signature(FitArguments).parameters.items()}
    for kind in kinds_of(given):
        wrong = [name for name in NOT_FOR[kind] if getattr(given, name) != defaults[name]]
        if wrong:
            listed = ", ".join(map(option_of, wrong))
            raise CommandError(USAGE, f"{listed} cannot be used for {kind}.")


# -- estimators


def kernel_pca(given: FitArguments) -> StreamingKernelPCA:
    """A fresh kernel PCA with the parameters that options give."""
    parameters = parsed_parameters(given, StreamingKernelPCA)
    tracker = parameters.pop("tracker", None) or trackers.resolve("covariance")
    forget(tracker, given.forgetting)
    kernel, gamma = kernel_of(given)
    needs_number = tracker.kind == "sequential" or parameters.get("robust")
    usual = FIXED_COMPONENTS if needs_number else COMPONENTS
    return checked(
        StreamingKernelPCA,
        parameters,
        n_components=opt.components(given.components or usual),
        kernel=kernel,
        gamma=gamma,
        basis=basis_of(given),
        tracker=tracker,
        scale=scale_of(given.standardize),
        random_state=given.seed,
    )


def novelty_detector(given: FitArguments) -> KernelNovelty:
    """A fresh detector of novelty."""
    kernel, gamma = kernel_of(given)
    n_components = opt.components(given.components)
    if isinstance(n_components, str) or gamma == "auto":
        raise CommandError(USAGE, "A novelty detector takes numbers for --components and --gamma.")
    is_default = given.kernel == "rbf" and given.gamma is None
    return checked(
        KernelNovelty,
        parsed_parameters(given, KernelNovelty),
        alpha=0.05 if given.alpha is None else given.alpha,
        n_components=n_components,
        kernel="rbf" if is_default else kernel,
        basis=basis_of(given),
        forgetting=1.0 if given.forgetting is None else given.forgetting,
        scale=None if given.standardize is False else "standard",
        random_state=given.seed,
    )


def monitor(given: FitArguments) -> KernelMonitor:
    """A fresh process monitor."""
    return new_monitor(
        **parsed_parameters(given, KernelMonitor),
        alpha=0.01 if given.alpha is None else given.alpha,
        basis=given.basis,
        random_state=given.seed,
    )


def predictor(given: FitArguments, target: Target) -> OnePassRidge:
    """A fresh regression on a target, or a classifier."""
    kernel, gamma = kernel_of(given)
    if gamma == "auto" or given.basis == "auto":
        raise CommandError(
            USAGE,
            "auto does not look at a target: write a number ('kernelstream check --tune --target' "
            "suggests one).",
        )
    kind: type[OnePassRidge] = (
        StreamingKernelClassifier if target.is_class else StreamingKernelRidge
    )
    return checked(
        kind,
        parsed_parameters(given, kind),
        kernel=kernel,
        basis=basis_of(given),
        forgetting=1.0 if given.forgetting is None else given.forgetting,
        scale=scale_of(given.standardize),
        random_state=given.seed,
    )


def checked(kind: Callable[..., Any], parameters: dict[str, Any], **from_options: Any) -> Any:
    """An estimator; a parameter that makes no sense fails before any row is read."""
    twice = [name for name in parameters if name in from_options]
    if twice:
        raise CommandError(USAGE, f"--set {twice[0]} is an option of its own: see 'fit --help'.")
    estimator = kind(**from_options, **parameters)
    require_sense(estimator, {"forgetting": "--forgetting", "alpha": "--alpha"})
    return estimator


def parsed_parameters(given: FitArguments, kind: type) -> dict[str, Any]:
    """The parameters of ``--set``, which must be parameters of the class."""
    known = inspect.signature(kind).parameters
    texts = opt.assignments(given.parameters, "--set")
    parameters = {}
    for name, text in texts.items():
        if name not in known:
            raise CommandError(
                USAGE, f"--set {name}: {kind.__name__} has {', '.join(known)}, and no {name}."
            )
        if name == "tracker":
            parameters[name] = parse_part(text, trackers.NAMES | papers.TRACKERS, "set tracker")
        else:
            parameters[name] = opt.literal(text)
    return parameters


def forget(tracker: Any, forgetting: float | None) -> None:
    """Give a tracker its forgetting factor."""
    if forgetting is None:
        return
    if "forgetting" not in tracker.get_params(deep=False):
        raise CommandError(USAGE, f"The tracker {tracker} has no forgetting.")
    tracker.set_params(forgetting=forgetting)


def kernel_of(given: FitArguments) -> tuple[Any, Any]:
    """The kernel, and ``gamma`` where it is to be chosen."""
    kernel, gamma = parse_kernel(given.kernel), parse_gamma(given.gamma)
    if gamma is None:
        return kernel, None
    if "gamma" not in kernel.get_params(deep=False):
        raise CommandError(USAGE, f"The kernel {given.kernel} has no gamma.")
    if gamma != "auto":
        return kernel.set_params(gamma=gamma), None
    name = given.kernel.strip()
    if name not in kernels.NAMES:
        raise CommandError(USAGE, f"--gamma auto needs the name of a kernel alone; got {name}.")
    return name, "auto"


def basis_of(given: FitArguments) -> Any:
    """Landmarks: a number, a strategy, or ``auto``."""
    if given.basis.strip() == "auto":
        return "auto"
    return parse_part(given.basis, landmarks.NAMES | papers.LANDMARKS, "basis")


def scale_of(standardize: bool | None) -> str | None:
    """The rule for the scales of columns."""
    return {None: "auto", True: "standard", False: None}[standardize]
