"""The registry says what files hold, by which names parts are given, and all default values."""

from __future__ import annotations

import inspect
import json
from dataclasses import dataclass, field, make_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kernelstream
from kernelstream import StreamingKernelPCA, kernels, serialization
from kernelstream.serialization import STORED, VERSION
from kernelstream.serialization.declarations import declarations
from tests.golden import write
from tests.registry import (
    COMMAND,
    LISTED,
    REGISTRY,
    ROOT,
    cases_with,
    changes,
    classes,
    generated,
    registry,
)


def instructions(changed: dict[str, str]) -> str:
    """What to do when files that were written before cannot be read any more."""
    cases = " ".join(cases_with(set(changed)))
    lines = "\n".join(f"    {name} {reason}" for name, reason in changed.items())
    return f"""Model files of version {VERSION} hold what the code does not read any more:
{lines}
Has a release written version {VERSION} (see CHANGELOG.md)? If not, run
    {COMMAND}
    {write.COMMAND} --anew --only {cases}
Otherwise raise VERSION in src/kernelstream/serialization/format.py, and run
    {COMMAND}
    {write.COMMAND} --anew
"""


def test_files_that_were_written_can_be_read() -> None:
    written = json.loads(REGISTRY.read_text(encoding="utf-8"))
    if written["version"] != VERSION:
        pytest.fail(f"Run {COMMAND} and {write.COMMAND} --anew: VERSION was raised")
    changed = changes(written, registry())
    assert not changed, instructions(changed)


@pytest.mark.parametrize("path", generated(), ids=lambda path: path.name)
def test_generated_files_are_up_to_date(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == generated()[path], f"Run: {COMMAND}"


def test_main_writes_the_generated_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pages = {family: f"docs/api/{family}.md" for family in LISTED}
    monkeypatch.setattr("tests.registry.REGISTRY", tmp_path / "registry.json")
    monkeypatch.setattr("tests.registry.PAGES", tmp_path)
    for family, page in pages.items():
        text = (ROOT / page).read_text(encoding="utf-8")
        (tmp_path / f"{family}.md").write_text(text.replace("   RBF\n", ""), encoding="utf-8")
    from tests.registry import main

    main()
    for family, page in pages.items():
        assert (tmp_path / f"{family}.md").read_text() == (ROOT / page).read_text()
    assert json.loads((tmp_path / "registry.json").read_text()) == registry()


def test_registry_holds_every_part_that_has_a_name() -> None:
    named = {cls for listed in LISTED.values() for cls in listed.values()}
    assert named <= set(classes().values())
    assert registry()["parts"]["kernels.Polynomial"] == {
        "names": ["poly", "polynomial"],
        "parameters": {"degree": "3", "gamma": "None", "coef0": "1.0"},
    }


def test_registry_holds_every_public_estimator() -> None:
    public = {name for name in kernelstream.__all__ if hasattr(vars_of(name), "get_params")}
    assert public <= set(registry()["estimators"])


def vars_of(name: str) -> Any:
    """A public class of the package; None for a module or a function."""
    thing = getattr(kernelstream, name)
    return thing if inspect.isclass(thing) else None


@pytest.mark.parametrize("name", [n for n, p in registry()["parts"].items() if p["names"]])
def test_stored_named_part_comes_back_with_its_parameters(name: str) -> None:
    cls: Any = classes()[name]
    part = cls()
    data = serialization.to_bytes({"part": part})
    found = serialization.from_bytes(data).values()["part"]
    assert type(found) is cls and found.get_params() == part.get_params()


@dataclass(frozen=True)
class More:
    """A state that is stored since today."""

    weight: float


def test_changes_of_new_class_is_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    written = registry()
    declarations(More)  # its types are looked up where it is defined
    monkeypatch.setattr(More, "__module__", "kernelstream.trackers.more")
    monkeypatch.setitem(STORED, "More", More)
    now = registry()
    assert now["states"]["More"] == {"weight": "number"} and changes(written, now) == {}
    assert changes(now, written) == {"More": "is not there any more"}


def test_changes_lists_fields_and_parameters_that_older_files_lack(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written = registry()

    def after(kind: str, name: str, value: Any) -> dict[str, str]:
        return changes(written, {**written, kind: {**written[kind], name: value}})

    def part(**parameters: str) -> dict[str, Any]:
        return {"names": [], "parameters": parameters}

    fields = written["states"]["Moments"]
    facts = written["estimators"]["StreamingKernelPCA"]
    assert after("states", "Moments", fields) == {}
    assert "weight" in after("states", "Moments", fields | {"weight": "integer"})["Moments"]
    assert "weight" in after("states", "Moments", {"total": fields["total"]})["Moments"]
    more = part(nu="1.5", length_scale="1.0", period="None")
    assert after("parts", "kernels.Matern", more) == {}
    assert "nu" in after("parts", "kernels.Matern", part(length_scale="1.0"))["kernels.Matern"]
    assert after("estimators", "StreamingKernelPCA", {**facts, "attributes": ["more"]}) == {}
    less = {**facts, "parameters": {"kernel": "'rbf'"}}
    assert "n_components" in after("estimators", "StreamingKernelPCA", less)["StreamingKernelPCA"]
    # a field that is new, with and without a default
    needed = make_dataclass("Moments", [("weight", float), ("more", float)])
    optional = make_dataclass("Moments", [("weight", float), ("more", float, field(default=0.0))])
    for new, change in ((needed, True), (optional, False)):
        with monkeypatch.context() as patched:
            patched.setitem(STORED, "Moments", new)
            now = after("states", "Moments", {**fields, "more": "number"})
        assert ("Moments" in now) is change


def test_instructions_name_commands_and_golden_files() -> None:
    text = instructions({"RLSState": "has other fields: Q"})
    assert "RLSState has other fields: Q" in text and COMMAND in text
    assert f"{write.COMMAND} --anew --only tracker_rls adaptive_kernel_pca\n" in text


def test_moved_class_keeps_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    model = StreamingKernelPCA(2, kernel=kernels.RBF(0.3), random_state=0).fit(np.eye(9, 3))
    before = serialization.to_bytes(model._content())
    for cls in list(STORED.values()):
        monkeypatch.setattr(cls, "__module__", "kernelstream.elsewhere.deep.inside")
    assert [serialization.stored_name(cls) for cls in STORED.values()] == list(STORED)
    assert serialization.to_bytes(model._content()) == before
    values = serialization.from_bytes(before).values()
    assert isinstance(values["model"].chain.kernel, kernels.RBF)
