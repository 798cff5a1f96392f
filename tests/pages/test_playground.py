"""The playground: what it starts with, what it leaves out, and that the committed page is the one that is made."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedsim.pages.playground import playground_answer
from fedsim.scenario import Scenario
from fedsim.theory import closed_form
from tests.command import fedsim
from tests.conftest import Load, Write

COMMITTED = Path("docs/playground.html")


def start(scenario: Scenario, file: str = "my case.yaml") -> dict[str, Any]:
    _, found = playground_answer(scenario, Path(file))
    return json.loads(json.dumps(found))  # type: ignore[no-any-return]


def test_the_committed_page_is_the_one_that_the_command_makes(tmp_path: Path) -> None:
    done = fedsim("playground", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "playground.html\n", "")
    assert (tmp_path / "playground.html").read_bytes() == COMMITTED.read_bytes()


def test_the_page_has_its_start_without_scripts_too() -> None:
    page = COMMITTED.read_text(encoding="utf-8")
    share = 50 * closed_form(np.arange(1, 21) ** -1.5, 4).l1_uniform
    narrow = "\N{NARROW NO-BREAK SPACE}"
    said = f"With R = 4, participation is {share:.1f}{narrow}% from uniform; R = 14 is the smallest within 10{narrow}%."
    assert said in page
    assert re.search(r'<section id="run"[^>]* hidden>', page)


def test_a_scenario_is_where_the_page_starts(small: Load) -> None:
    found = start(small())
    assert (found["clients"], found["cohort"], found["separation"], found["most"]) == (12, 3, 2, 3)
    assert (found["law"], found["selection"]) == ("file", "midzuno")
    assert np.allclose(found["weights"], 1 / np.arange(1, 13))
    assert found["file"] == "'my case.yaml'"
    assert found["notes"] == []


@pytest.mark.parametrize(
    ("override", "note"),
    [
        ("population.0.availability={kind: renewal, on: 1h, off: 1h}", "always there"),
        ("population.0.separation=[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2]", "differ, from 0 to 2"),
        ("population.0.cooldown=1h", "cool-downs by the clock"),
        ("server.selection.kind=successive", "'successive'"),
        ("server.over_select=1.3", "not needed"),
        ("privacy={epsilon: 2, delta: 1e-6, mechanism: sqrt}", "noise is independent"),
    ],
)
def test_what_is_left_out_is_said_on_the_page_and_on_stderr(
    small: Load, tmp_path: Path, override: str, note: str
) -> None:
    (told,) = start(small(override))["notes"]
    assert note in told
    done = fedsim("playground", "case.fedsim.yaml", "--set", override, "--out", "page.html", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stderr == f"note: {told}\n"
    assert note in (tmp_path / "page.html").read_text(encoding="utf-8").replace("&#39;", "'")


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["population.0.devices=1001"], "has 1,001 devices, and the page computes for at most 1,000"),
        (["server.cohort=7", "population.0.separation=0"], "wants 7 of 12 clients in a round"),
        (["server={mode: buffered, concurrency: 3, buffer: 2}"], "has a buffered server"),
    ],
    ids=str,
)
def test_what_has_no_closed_form_in_a_page_is_refused(
    small: Load, tmp_path: Path, overrides: list[str], message: str
) -> None:
    small()
    words = [word for override in overrides for word in ("--set", override)]
    done = fedsim("playground", "case.fedsim.yaml", *words, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert not (tmp_path / "playground.html").exists()


def test_settings_without_a_scenario_are_refused(tmp_path: Path) -> None:
    done = fedsim("playground", "--set", "server.cohort=2", cwd=tmp_path)
    assert done.returncode == 2
    assert "name one" in done.stderr


def test_a_page_that_cannot_be_written_is_an_error(write: Write, tmp_path: Path) -> None:
    write("", "there")
    done = fedsim("playground", "--out", "there/page.html", cwd=tmp_path)
    assert done.returncode == 2
    assert "cannot be written" in done.stderr
