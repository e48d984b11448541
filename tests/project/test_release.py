"""What only the forge and the package index run, held to what the project says elsewhere."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement

from benchmarks.data import Images, digits
from benchmarks.over_time import rows

ROOT = Path(__file__).parents[2]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = SETTINGS["project"]
PLANT = tomllib.loads((ROOT / "plant" / "pyproject.toml").read_text(encoding="utf-8"))
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
WORKFLOWS = {
    path.stem: yaml.safe_load(path.read_text(encoding="utf-8"))
    for path in sorted((ROOT / ".github" / "workflows").glob("*.yml"))
}
JOBS = {
    f"{workflow}.{name}": job
    for workflow, content in WORKFLOWS.items()
    for name, job in content["jobs"].items()
}
SYSTEMS = {
    "Operating System :: POSIX :: Linux": "ubuntu-latest",
    "Operating System :: MacOS": "macos-latest",
    "Operating System :: Microsoft :: Windows": "windows-latest",
}


def classified(start: str) -> set[str]:
    """The classifiers that begin so."""
    return {line for line in PROJECT["classifiers"] if line.startswith(start)}


# -- workflows


def test_every_workflow_is_read() -> None:
    assert {"tests", "lint", "docs", "nightly", "release"} == set(WORKFLOWS)


@pytest.mark.parametrize("job", ["tests.tests", "release.wheel"])
def test_what_is_promised_is_tested(job: str) -> None:
    matrix = JOBS[job]["strategy"]["matrix"]
    prefix = "Programming Language :: Python :: 3."
    promised = {
        line.removeprefix("Programming Language :: Python :: ") for line in classified(prefix)
    }
    assert set(matrix["python"]) == promised
    assert {SYSTEMS[line] for line in classified("Operating System ::")} == set(matrix["system"])
    assert PROJECT["requires-python"] == f">={min(promised, key=lambda v: int(v.split('.')[1]))}"


@pytest.mark.parametrize("job", JOBS)
def test_jobs_call_targets_and_groups_that_exist(job: str) -> None:
    targets = set(re.findall(r"^([a-z][a-z-]*):", MAKEFILE, flags=re.MULTILINE))
    variables = set(re.findall(r"^([A-Z]+) *\?=", MAKEFILE, flags=re.MULTILINE))
    for step in JOBS[job]["steps"]:
        words = step.get("run", "").split()
        if words[:1] == ["make"]:
            given = {word.partition("=")[0] for word in words[1:] if "=" in word}
            assert {word for word in words[1:] if "=" not in word} <= targets, step
            assert given <= variables, step
        groups = [words[i + 1] for i, word in enumerate(words) if word == "--group"]
        assert {name.rpartition(":")[2] for name in groups} <= set(SETTINGS["dependency-groups"])


@pytest.mark.parametrize("job", JOBS)
def test_actions_are_pinned_and_rights_are_few(job: str) -> None:
    workflow = WORKFLOWS[job.partition(".")[0]]
    assert workflow["permissions"] == {}, "rights are given job by job"
    written = {name for name, right in JOBS[job]["permissions"].items() if right != "read"}
    allowed = {"release.publish": {"id-token", "attestations"}, "release.notes": {"contents"}}
    assert written == allowed.get(job, set())
    assert JOBS[job]["timeout-minutes"] <= 180
    for step in JOBS[job]["steps"]:
        if "uses" in step:
            assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", step["uses"]), step["uses"]
        if "actions/checkout" in step.get("uses", ""):
            assert step["with"]["persist-credentials"] is False


def test_an_action_has_one_version_and_says_which() -> None:
    seen: dict[str, set[str]] = {}
    for path in (ROOT / ".github" / "workflows").glob("*.yml"):
        for line in path.read_text(encoding="utf-8").splitlines():
            if "uses:" in line:
                action, pin = line.split("uses:")[1].strip().split("@")
                assert re.fullmatch(r"[0-9a-f]{40} # v\d+\.\d+\.\d+", pin), line
                seen.setdefault(action, set()).add(pin)
    assert seen and all(len(pins) == 1 for pins in seen.values()), seen


def test_the_site_is_built_alike_here_and_there() -> None:
    settings = yaml.safe_load((ROOT / ".readthedocs.yaml").read_text(encoding="utf-8"))
    assert (ROOT / settings["sphinx"]["configuration"]).is_file()
    assert settings["sphinx"]["fail_on_warning"] is True
    assert "--group docs" in settings["build"]["jobs"]["install"][-1]
    assert "docs" in SETTINGS["dependency-groups"]


def test_tox_has_every_python() -> None:
    tox = SETTINGS["tool"]["tox"]
    assert tox["env_list"] == JOBS["tests.tests"]["strategy"]["matrix"]["python"]
    run = tox["env_run_base"]
    assert set(run["extras"]) <= set(PROJECT["optional-dependencies"])
    assert set(run["dependency_groups"]) <= set(SETTINGS["dependency-groups"])


# -- links


def test_links_lead_to_one_place() -> None:
    urls = PROJECT["urls"]
    assert PLANT["project"]["urls"] == urls
    home, pages = urls["Homepage"], urls["Documentation"]
    named = [
        ".github/ISSUE_TEMPLATE/bug.yml", ".github/ISSUE_TEMPLATE/config.yml", "SECURITY.md",
        "CODE_OF_CONDUCT.md", "CITATION.cff", "asv.conf.json", "conda/recipe.yaml",
        "conda/plant.yaml", "plant/README.md", "plant/SECURITY.md",
    ]  # fmt: skip
    for name in named:
        text = (ROOT / name).read_text(encoding="utf-8")
        links = re.findall(r"https://[\w./-]*kernelstream[\w./-]*", text)
        assert links, name
        assert all(link.startswith((home, pages)) for link in links), (name, links)
    for link in re.findall(r"/blob/main/([\w./-]+)", json.dumps([urls, bug_form()])):
        assert (ROOT / link).is_file(), link


def bug_form() -> Any:
    return yaml.safe_load((ROOT / ".github/ISSUE_TEMPLATE/bug.yml").read_text(encoding="utf-8"))


# -- conda


@pytest.mark.parametrize(("name", "settings"), [("recipe", SETTINGS), ("plant", PLANT)])
def test_the_recipe_of_conda_says_what_pyproject_says(name: str, settings: dict[str, Any]) -> None:
    recipe = yaml.safe_load((ROOT / "conda" / f"{name}.yaml").read_text(encoding="utf-8"))
    project = settings["project"]
    assert recipe["package"]["name"] == project["name"]
    assert recipe["context"]["version"] == project["version"]
    assert f">={recipe['context']['python_min']}" == project["requires-python"]
    scripts = recipe["build"].get("python", {}).get("entry_points", [])
    assert dict(script.split(" = ") for script in scripts) == project.get("scripts", {})
    assert recipe["about"]["license"] == project["license"]
    assert recipe["about"]["summary"] == project["description"]
    needed = {bounded(text) for text in recipe["requirements"]["run"] if "python" not in text}
    assert needed == {bounded(text) for text in project["dependencies"]}
    host = {bounded(text) for text in recipe["requirements"]["host"] if text.startswith("hatch")}
    assert host == {bounded(text) for text in settings["build-system"]["requires"]}
    other = {"matplotlib": "matplotlib-base", "torch": "pytorch", "dask": "dask-core"}
    extras = {
        (other.get(name, name), bound)
        for entries in project["optional-dependencies"].values()
        for name, bound in map(bounded, entries)
        if name != project["name"]
    }
    assert {bounded(text) for text in recipe["requirements"]["run_constraints"]} == extras


def bounded(text: str) -> tuple[str, str]:
    requirement = Requirement(text)
    return requirement.name, str(requirement.specifier)


# -- changelog and notes


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("notes", ROOT / ".github" / "release_notes.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


CHANGES = "# Changelog\n\n## Unreleased\n\nnew\n\n## [0.2.0] - 2027-01-02\n\n### Added\n\n- a\n\n"
CHANGES += "## [0.1.0] - soon\n\n- b\n"


def test_notes_are_the_section_of_the_version(script: ModuleType) -> None:
    assert script.notes(CHANGES, "0.2.0") == "### Added\n\n- a\n"
    with pytest.raises(SystemExit, match=r"no section of 0\.3\.0"):
        script.notes(CHANGES, "0.3.0")
    with pytest.raises(SystemExit, match=r"'soon' where the date of 0\.1\.0 goes"):
        script.notes(CHANGES, "0.1.0")


def test_notes_of_this_version_can_be_cut() -> None:
    command = [sys.executable, str(ROOT / ".github" / "release_notes.py")]
    done = subprocess.run(
        [*command, f"v{PROJECT['version']}"], capture_output=True, encoding="utf-8"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("### Added")
    refused = subprocess.run([*command, "v99.0"], capture_output=True, encoding="utf-8")
    assert refused.returncode == 1 and f"tag v{PROJECT['version']}" in refused.stderr


def test_headings_of_the_changelog() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## (.+)$", text, flags=re.MULTILINE)
    if headings[0] == "Unreleased":
        headings = headings[1:]
    dates = [re.fullmatch(r"\[\d+\.\d+\.\d+\] - (\d{4}-\d{2}-\d{2})", line) for line in headings]
    assert headings and all(dates), headings
    assert (found := [date[1] for date in dates if date]) == sorted(found, reverse=True)


# -- benchmarks over time


ROWS = [
    row
    for row in vars(rows).values()
    if isinstance(row, type) and row.__module__ == rows.__name__ and row is not rows.OneThread
]


def measured(row: type) -> list[str]:
    """The methods that asv runs."""
    return [name for name in vars(row) if name.split("_")[0] in ("time", "track", "peakmem")]


def few_digits(repeats: int) -> Images:
    """Enough to see that a row runs."""
    found = digits(1)
    return Images(found.source, found.stream[:400], found.queries[:300], found.small[:300])


@pytest.mark.parametrize("row", ROWS)
def test_rows_of_asv_run(row: type[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "digits", few_digits)
    monkeypatch.setattr(rows.Endless, "sizes", (20_000, 40_000, 20_000, 2, 4))
    assert measured(row)
    for parameter in getattr(row, "params", [None]):
        given = [] if parameter is None else [parameter]
        bench = row()
        if hasattr(bench, "setup_cache"):
            given.insert(0, bench.setup_cache())
        getattr(bench, "setup", lambda *parameters: None)(*given)
        for name in measured(row):
            found = getattr(bench, name)(*given)
            assert (found is None) != name.startswith("track")
            if "captured" in name:
                assert 0.4 < found <= 1.001
        getattr(bench, "teardown", lambda *parameters: None)(*given)


def test_the_stored_run_has_every_row_and_names_no_machine() -> None:
    settings = json.loads((ROOT / "asv.conf.json").read_text(encoding="utf-8"))
    results = ROOT / settings["results_dir"]
    known = set(json.loads((results / "benchmarks.json").read_text(encoding="utf-8"))) - {"version"}
    assert known == {f"rows.{row.__name__}.{name}" for row in ROWS for name in measured(row)}
    stored = [path for path in results.glob("*/*.json") if path.name != "machine.json"]
    assert stored
    newest = max(
        (json.loads(p.read_text(encoding="utf-8")) for p in stored), key=lambda run: run["date"]
    )
    assert set(newest["results"]) == known
    assert all(None not in values[0] for values in newest["results"].values())
    for path in results.rglob("*.json"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"/home/|/root/|/tmp/|/work/|/Users/|[A-Z]:\\\\", text), path
