"""What a release says of itself agrees, and its page at a registry leads nowhere that is not there."""

import re
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path
from shutil import which
from types import ModuleType, SimpleNamespace

import pytest
from ruamel.yaml import YAML

from fedsim import __version__
from tests.conftest import LIMIT_S

PROJECT = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
README = Path("README.md").read_text(encoding="utf-8")
PAGES = [Path("README.md"), *sorted(Path("docs").rglob("*.md"))]
HOME = "https://example.org/someone/fedsim"
LINK = re.compile(r"\]\(([^)\s]+)\)")


@pytest.fixture
def build(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Import what the build runs; hatchling, which only builds, need not be installed."""
    interface = SimpleNamespace(MetadataHookInterface=object)
    monkeypatch.setitem(sys.modules, "hatchling", ModuleType("hatchling"))
    monkeypatch.setitem(sys.modules, "hatchling.metadata.plugin.interface", interface)
    monkeypatch.syspath_prepend(".")
    return import_module("hatch_build")


def test_version_and_date_agree() -> None:
    """The changelog's newest part, the citation and the package name one version, and two of them its date."""
    parts = re.findall(r"^## (.+)$", Path("CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert parts[0] == "Unreleased"
    released = [re.fullmatch(r"(\d+\.\d+\.\d+) - (\d{4}-\d\d-\d\d)", part) for part in parts[1:]]
    newest = released[0]
    assert all(released)
    assert newest is not None
    citation = YAML(typ="safe").load(Path("CITATION.cff"))
    assert newest.groups() == (citation["version"], str(citation["date-released"])) == (__version__, newest[2])
    assert f"Version {__version__.rpartition('.')[0]}:" in README


def test_every_user_of_the_container_can_keep_what_is_compiled() -> None:
    """Caches lie in one folder, which the build fills and opens to all before it becomes a user."""
    built = Path("Dockerfile").read_text(encoding="utf-8").partition("\nUSER ")[0]
    folders = dict(re.findall(r"(\w+)=(/\S+)", built))
    assert folders.keys() == {"NUMBA_CACHE_DIR", "MPLCONFIGDIR", "XDG_CACHE_HOME"}
    assert all(Path(each).is_relative_to(folders["XDG_CACHE_HOME"]) for each in folders.values())
    assert re.search(r"fedsim run .*chmod -R a\+rwX \"\$XDG_CACHE_HOME\"$", built)


def test_with_a_home_every_link_is_absolute_and_leads_to_the_release(build: ModuleType) -> None:
    shown = build.readme(README, HOME, f"v{__version__}")
    links = LINK.findall(shown)
    assert len(links) == len(LINK.findall(README))
    assert all(link.startswith(("https://", "#")) for link in links)
    own = [link.removeprefix(HOME) for link in links if link.startswith(HOME)]
    assert any(link.startswith(f"/raw/v{__version__}/docs/images/") for link in own)
    assert all(Path(link.split("/", 3)[3].partition("#")[0]).exists() for link in own)


def test_without_a_home_nothing_is_made_up(build: ModuleType) -> None:
    shown = build.readme(README, "", f"v{__version__}")
    assert all(link.startswith("https://") for link in LINK.findall(shown))
    assert "![" not in shown
    assert "Tutorial (`docs/tutorial.md`)" in shown
    assert build.urls("") == {"Paper": build.PAPER}


def test_the_hook_fills_in_what_is_declared_dynamic(build: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    hook = build.ReleaseMetadata()
    hook.root = "."
    metadata: dict[str, object] = {}
    monkeypatch.setenv("FEDSIM_HOME", f"{HOME}/")
    hook.update(metadata)
    assert {"version", *metadata} == set(PROJECT["dynamic"])
    assert metadata["urls"] == build.urls(HOME)
    monkeypatch.setenv("FEDSIM_HOME", "somewhere")
    with pytest.raises(ValueError, match="must be an address such as"):
        hook.update(metadata)


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_what_pages_tell_to_install_is_ours(page: Path) -> None:
    """No page sends people to the other project of the name, or to an extra that is not there."""
    text = page.read_text(encoding="utf-8")
    told = re.findall(r"pip install ([^`#\n]+)", text)
    assert all("fedsim" not in each.split() or "something else" in text for each in told)
    extras = {extra for each in told for names in re.findall(r"\[([\w,]+)\]", each) for extra in names.split(",")}
    assert extras <= set(PROJECT["optional-dependencies"])


def test_the_table_of_extras_is_complete() -> None:
    page = Path("docs/releasing.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`.+?) \|", page, re.MULTILINE)
    assert sorted(re.findall(r"`(\w+)`", " ".join(rows))) == sorted(PROJECT["optional-dependencies"])


def test_the_sdist_has_every_file_so_that_it_tests_itself() -> None:
    """`action.yml` was not in it, and its tests could not be collected."""
    if not Path(".git").exists() or which("git") is None:
        pytest.skip("this is no clone, or without git")
    # Also of a clone that belongs to somebody else.
    command = ["git", "-c", "safe.directory=*", "ls-files"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=LIMIT_S).stdout
    sdist = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]["targets"][
        "sdist"
    ]
    always = {"pyproject.toml", "LICENSE", ".gitignore"}
    assert {Path(name).parts[0] for name in listed.splitlines()} == {*sdist["include"], *always}


def test_the_conda_recipe_is_of_this_release() -> None:
    """Its version and dependencies are those of pyproject.toml, by conda's names."""
    recipe = YAML(typ="safe").load(Path("recipe/recipe.yaml"))
    names = {"matplotlib": "matplotlib-base", "tzdata": "python-tzdata"}
    wanted = [re.fullmatch(r"([a-z0-9.-]+)(>=[0-9.]+)(;.*)?", each) for each in PROJECT["dependencies"]]
    listed = [f"{names.get(each[1], each[1])} {each[2]}" for each in wanted if each is not None]
    assert recipe["requirements"]["run"] == [f"python {PROJECT['requires-python']}", *listed]
    assert recipe["context"]["version"] == __version__


def test_the_container_gets_what_the_build_reads() -> None:
    kept = [line[1:] for line in Path(".dockerignore").read_text(encoding="utf-8").splitlines() if line[0] == "!"]
    build = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]
    assert {*build["targets"]["wheel"]["packages"], "pyproject.toml", "hatch_build.py", "README.md"} <= {*kept}
    assert {Path(each).parts[0] for each in build["targets"]["wheel"]["force-include"]} <= {*kept}
