"""Model options of ``fit`` and the resulting estimator: kernel, landmarks, tracker, forgetting."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

import typer

import kernelstream
from kernelstream import (
    StreamingKernelClassifier,
    StreamingKernelPCA,
    StreamingKernelRidge,
    kernels,
    landmarks,
    papers,
    trackers,
)
from kernelstream.cli import completion
from kernelstream.cli import options as opt
from kernelstream.cli.failures import USAGE, CommandError
from kernelstream.cli.methods import Method, Rule
from kernelstream.cli.modelfile import require_sense
from kernelstream.cli.parsing import parse_gamma, parse_kernel, parse_part
from kernelstream.regression.base import OnePassRidge
from kernelstream.tables import Target

MODEL = "Model"
COMPONENTS = "0.95"  # of the variance: ten were 4 and 24 points short of it in docs/tables.md
FIXED_COMPONENTS = "10"  # where a rule has to know their number before the first row


class Certify(StrEnum):
    """How much work the certificate may cost."""

    auto = "auto"
    tight = "tight"
    none = "none"


@dataclass(frozen=True)
class Parts:
    """What the model is made of."""

    components: Annotated[
        str | None,
        typer.Option(
            help="How many: a number, a share of the variance such as 0.95, all, or auto (above "
            "chance). "
            f"Default: {COMPONENTS}; {FIXED_COMPONENTS} with --method, --robust and sequential "
            "trackers; all with --novelty.",
            rich_help_panel=MODEL,
            autocompletion=completion.names("all", "auto"),
            show_default=False,
        ),
    ] = None
    kernel: Annotated[
        str,
        typer.Option(
            help="rbf, poly(degree=2), matern(nu=1.5), …, sums and products, also of columns: "
            "on('t_*', rbf) * on('colour', categorical).",
            rich_help_panel=MODEL,
            autocompletion=completion.parts("kernels", "on("),
        ),
    ] = "rbf"
    gamma: Annotated[
        str | None,
        typer.Option(
            help="Width of the kernel: a number, or auto (several are compared). Default: from a "
            "sample of all rows.",
            rich_help_panel=MODEL,
            autocompletion=completion.names("auto"),
        ),
    ] = None
    basis: Annotated[
        str,
        typer.Option(
            help="A number of points, auto, or a basis: distance(nu=0.1), everything, …",
            rich_help_panel=MODEL,
            autocompletion=completion.parts("landmarks", "auto"),
        ),
    ] = "256"
    tracker: Annotated[
        str,
        typer.Option(
            help="covariance, hebbian, rls, …",
            rich_help_panel=MODEL,
            autocompletion=completion.parts("trackers"),
        ),
    ] = "covariance"
    forgetting: Annotated[
        float | None,
        typer.Option(help="0.999: rows lose a thousandth of weight a row.", rich_help_panel=MODEL),
    ] = None
    standardize: Annotated[
        bool | None,
        typer.Option(
            "--standardize/--no-standardize",
            help="Subtract mean and divide by deviation. Default: where scales differ much.",
            rich_help_panel=MODEL,
            show_default=False,
        ),
    ] = None
    center: Annotated[
        bool,
        typer.Option(
            "--center/--no-center",
            help="Whether mapped rows are centred. Default: as the method has it.",
            rich_help_panel=MODEL,
        ),
    ] = True
    preimage: Annotated[
        str,
        typer.Option(
            help="How denoise goes back to inputs.",
            rich_help_panel=MODEL,
            autocompletion=completion.parts("preimages", "auto"),
        ),
    ] = "auto"
    robust: Annotated[
        bool,
        typer.Option("--robust", help="Rows that do not fit lose weight.", rich_help_panel=MODEL),
    ] = False
    certify: Annotated[
        Certify, typer.Option(help="Effort for the error certificate.", rich_help_panel=MODEL)
    ] = Certify.auto
    seed: Annotated[int, typer.Option(help="Of everything drawn.", rich_help_panel=MODEL)] = 0

    def estimator(self) -> StreamingKernelPCA:
        """A fresh estimator; a parameter that makes no sense fails before any row is read."""
        tracker = parse_part(self.tracker, trackers.NAMES | papers.TRACKERS, "tracker")
        if self.forgetting is not None:
            if "forgetting" not in tracker.get_params(deep=False):
                raise CommandError(USAGE, f"The tracker {self.tracker} has no forgetting.")
            tracker.set_params(forgetting=self.forgetting)
        kernel: Any = parse_kernel(self.kernel)
        gamma = parse_gamma(self.gamma)
        if gamma is not None:
            if "gamma" not in kernel.get_params(deep=False):
                raise CommandError(USAGE, f"The kernel {self.kernel} has no gamma.")
            if gamma == "auto":
                kernel = self.kernel.strip()
                if kernel not in kernels.NAMES:
                    raise CommandError(
                        USAGE, f"--gamma auto goes with a kernel's name alone, not with {kernel}."
                    )
            else:
                kernel, gamma = kernel.set_params(gamma=gamma), None
        plain = self.basis.strip() == "auto"
        usual = FIXED_COMPONENTS if tracker.kind == "sequential" or self.robust else COMPONENTS
        estimator = StreamingKernelPCA(
            opt.components(self.components or usual),
            kernel=kernel,
            gamma=gamma,
            basis="auto"
            if plain
            else parse_part(self.basis, landmarks.NAMES | papers.LANDMARKS, "basis"),
            tracker=tracker,
            center=self.center,
            scale={None: "auto", True: "standard", False: None}[self.standardize],
            preimage=self.preimage,
            certify=False if self.certify is Certify.none else self.certify.value,
            robust=self.robust,
            random_state=self.seed,
        )
        require_sense(estimator, {"forgetting": "--forgetting"})
        return estimator

    def detector(self, alpha: float) -> kernelstream.KernelNovelty:
        """The same as a detector of novelty, which has its own defaults for what is not given."""
        plain = self.estimator()
        usual = self.kernel == "rbf" and self.gamma is None
        n_components = opt.components(self.components)
        if isinstance(n_components, str):
            raise CommandError(USAGE, "--novelty takes all components, or a number: not auto.")
        detector = kernelstream.KernelNovelty(
            alpha,
            n_components=n_components,
            kernel="rbf" if usual else plain.kernel,
            basis=plain.basis,
            forgetting=plain.tracker.forgetting,
            scale=None if self.standardize is False else "standard",
            random_state=self.seed,
        )
        require_sense(detector, {"alpha": "--alpha"})
        return detector

    def predictor(self, target: Target) -> OnePassRidge:
        """The same as a regression on a target, or as a classifier."""
        plain = self.estimator()
        kind = StreamingKernelClassifier if target.is_class else StreamingKernelRidge
        predictor = kind(
            kernel=plain.kernel,
            basis=plain.basis,
            forgetting=plain.tracker.forgetting,
            scale=plain.scale,
            random_state=self.seed,
        )
        require_sense(predictor)
        return predictor

    def require_predictor(self) -> None:
        """Refuse what a model that predicts a target has no use for."""
        given = {
            "components": self.components is not None,
            "tracker": self.tracker != USUAL.tracker,
            "no-center": not self.center,
            "preimage": self.preimage != USUAL.preimage,
            "robust": self.robust,
            "certify": self.certify is not USUAL.certify,
        }
        wrong = [f"--{name}" for name, is_given in given.items() if is_given]
        if wrong:
            raise CommandError(
                USAGE,
                "--target fits a ridge regression to all directions that the points span: leave "
                f"out {', '.join(wrong)}.",
            )
        if self.gamma == "auto" or self.basis == "auto":
            raise CommandError(
                USAGE,
                "auto does not look at a target: write a number ('kernelstream tune --target' "
                "suggests one).",
            )

    def of_method(self, rule: Rule) -> StreamingKernelPCA:
        """The estimator of a paper's method, which brings basis and tracker."""
        brought = {
            "basis": self.basis != USUAL.basis,
            "tracker": self.tracker != USUAL.tracker,
            "forgetting": self.forgetting is not None,
            "standardize": self.standardize is not None,
            "certify": self.certify is not USUAL.certify,
        }
        wrong = [f"--{name}" for name, is_given in brought.items() if is_given]
        if wrong:
            raise CommandError(
                USAGE,
                f"--method {rule.method} is a paper's method and brings its own parts: leave out "
                f"{', '.join(wrong)}.",
            )
        linear = rule.method is Method.oja and self.kernel == USUAL.kernel and self.gamma is None
        kernel = parse_part("linear" if linear else self.kernel, kernels.NAMES, "kernel")
        gamma = parse_gamma(self.gamma)
        if gamma is not None:
            if "gamma" not in kernel.get_params(deep=False):
                raise CommandError(USAGE, f"The kernel {self.kernel} has no gamma.")
            if gamma == "auto":
                raise CommandError(USAGE, "--gamma auto is not for --method: write a number.")
            kernel.set_params(gamma=gamma)
        # Tanaka, Washizawa and Kuh do not centre.
        uncentred = rule.method in (Method.rls, Method.lms, Method.subkha)
        first = rule.method is Method.oja and self.components == USUAL.components
        estimator = rule.estimator(
            1 if first else opt.components(self.components or FIXED_COMPONENTS),
            kernel,
            self.center and not uncentred,
            self.preimage,
            self.seed,
        )
        require_sense(estimator, rule.options)
        return estimator


USUAL = Parts()
