"""What docs/extending.md shows works: every file is written down, and every scenario runs in both engines."""

import re
import sys
from pathlib import Path

import pytest

from fedsim.cli import app
from fedsim.common.errors import FedsimError

PAGE = Path("docs/extending.md")
FILE = re.compile(r"`([\w.-]+\.(?:py|yaml))`:\n\n```(?:python|yaml)\n(.*?)```", re.DOTALL)
MOST_LINES = 40


def files() -> dict[str, str]:
    """Return the files that the page shows, by name."""
    return dict(FILE.findall(PAGE.read_text(encoding="utf-8")))


SCENARIOS = [name for name in files() if name.endswith(".yaml")]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with all files of the page, which is the working folder."""
    for name, text in files().items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    for name in files():
        monkeypatch.delitem(sys.modules, name.removesuffix(".py"), raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def run(*arguments: str) -> object:
    try:
        return app(["run", *arguments, "--allow-plugins"], standalone_mode=False)
    except FedsimError as error:
        pytest.fail(str(error))


def test_there_is_a_scenario_for_every_file() -> None:
    shown = files()
    modules = {name.removesuffix(".py") for name in shown if name.endswith(".py")}
    named = {word for name in SCENARIOS for word in re.findall(r"(\w+):[A-Z]\w*", shown[name])}
    assert modules == named


@pytest.mark.parametrize("name", [name for name in files() if name.endswith(".py")])
def test_every_file_is_short(name: str) -> None:
    assert len(files()[name].splitlines()) <= MOST_LINES


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_scenario_writes_the_same_bytes_in_both_engines(folder: Path, scenario: str) -> None:
    for engine in ("process", "vectorized"):
        assert run(scenario, "--engine", engine, "--out", engine) == 0
    one, other = folder / "process", folder / "vectorized"
    written = sorted(file.name for file in one.glob("*.parquet"))
    assert {"rounds.parquet", "participations.parquet"} <= set(written)
    for name in [*written, "metrics.json"]:
        assert (one / name).read_bytes() == (other / name).read_bytes(), name
