"""The playground in a real browser: every choice gives what Python says, and what it tells to run."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedsim import participation_theory
from fedsim.common.files import write_text
from fedsim.pages.answer import BIAS, COST, NEXT
from fedsim.scenario import Scenario
from fedsim.theory import closed_form, distances
from tests.command import fedsim

from .conftest import IN_A_BROWSER, Open
from .test_browser import SHOWN, check_page, violations

pytestmark = IN_A_BROWSER

PAGE = Path("docs/playground.html")
THIN = "\N{NARROW NO-BREAK SPACE}"


def choose(page: Any, **values: str) -> None:
    for name, value in values.items():
        control = page.locator(f"#playground-{name}")
        if control.evaluate("each => each.tagName") == "SELECT":
            control.select_option(value)
        else:
            control.fill(value)


def said(page: Any) -> str:
    return f"{page.locator('h1').inner_text()} {sentence(page, NEXT)}"


def sentence(page: Any, about: str) -> str:
    """Return the sentence of the first screen about a question."""
    text: str = page.locator(".words div", has_text=about).locator("dd").inner_text()
    return text


def recipe(page: Any) -> str:
    text: str = page.locator("#playground-recipe").inner_text()
    return text


def away(separation: int, tv: float) -> str:
    return f"With R = {separation}, participation is {100 * tv:.1f}{THIN}% from uniform; "


def theory(scenario: Scenario) -> str:
    answer = participation_theory(scenario)
    assert isinstance(answer.separation, int)
    return away(answer.separation, answer.tv_uniform)


def case(generator: np.random.Generator, largest: int) -> tuple[list[float], int, int]:
    """Draw weights, a separation and a cohort, whatever the spread."""
    clients = int(generator.integers(2, largest + 1))
    weights = np.exp(generator.choice([0.1, 1.0, 3.0, 10.0]) * generator.standard_normal(clients))
    cohort = int(generator.integers(1, clients // 2 + 1)) if generator.random() < 0.6 else 1
    return weights.tolist(), int(generator.integers(0, clients // cohort)), cohort


@pytest.mark.parametrize(
    ("cases", "largest"), [(100, 40), pytest.param(1_000, 150, marks=pytest.mark.long), (2, 1_000)]
)
def test_the_page_computes_what_python_computes(visit: Open, cases: int, largest: int) -> None:
    generator = np.random.default_rng(11)
    asked = [case(generator, largest) for _ in range(cases)]
    page = visit(PAGE, 1280, "light")
    answers = page.evaluate("cases => cases.map(([w, R, B]) => participation(w, R, B))", [list(each) for each in asked])
    for (weights, separation, cohort), answer in zip(asked, answers, strict=True):
        expected = closed_form(weights, separation, cohort).pi
        assert np.abs(np.array(answer) / expected - 1).max() < 1e-9
    curves = page.evaluate("cases => cases.map(([w, R, B]) => distances(w, B))", [list(each) for each in asked[:50]])
    for (weights, _, cohort), curve in zip(asked, curves, strict=False):
        expected = distances(weights, range(len(weights) // cohort), cohort) / 2
        assert np.allclose(curve, expected, rtol=1e-9, atol=1e-15)


def test_the_phone_shows_the_answer_above_its_controls(visit: Open) -> None:
    """Further figures are below them. What stands there before the script has run is what the script says."""
    page = visit(PAGE, 390, "light")
    tops = [
        page.locator(each).bounding_box()["y"]
        for each in ("h1", "#playground-separation", "#playground-curve-picture", "#who")
    ]
    assert tops == sorted(tops)
    assert tops[1] < 844
    shown = page.locator("h1").inner_text()
    assert f"<title>theory: {shown.rstrip('.')} · fedsim playground</title>" in PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize(("width", "scheme"), SHOWN)
def test_the_playground_reads_well_everywhere(visit: Open, width: int, scheme: Any) -> None:
    page = visit(PAGE, width, scheme)
    check_page(page)
    for law in ("equal", "zipf", "two"):
        choose(page, law=law)
    assert violations(page) == []


@pytest.mark.parametrize(
    "values",
    [
        {"separation": "9"},
        {"cohort": "7", "separation": "3"},
        {"selection": "midzuno", "exponent": "0.75", "separation": "6"},
        {"law": "two", "share": "30", "factor": "8", "selection": "midzuno", "cohort": "1", "separation": "50"},
        {"law": "two", "share": "30", "factor": "8"},
        {"law": "zipf", "clients": "33", "cohort": "4", "selection": "midzuno"},
    ],
    ids=str,
)
def test_what_it_tells_to_run_has_the_answer_that_it_gives(visit: Open, tmp_path: Path, values: dict[str, str]) -> None:
    page = visit(PAGE, 1280, "light")
    choose(page, **values)
    write_text(tmp_path / "my.fedsim.yaml", recipe(page))
    scenario = Scenario.load(tmp_path / "my.fedsim.yaml")
    assert said(page).startswith(theory(scenario))
    answer = participation_theory(scenario)
    ends = (float(end) * scenario.devices for end in (answer.pi.min(), answer.pi.max()))
    shares = re.search(r"takes part ([\d.]+) to ([\d.]+) times", sentence(page, BIAS))
    assert shares is not None
    assert [float(each) for each in shares.groups()] == pytest.approx(list(ends), rel=0.006)
    waiting = int(page.locator("#playground-separation").input_value()) * scenario.sync_server.cohort
    cost = f"Waiting leaves {scenario.devices - waiting} of {scenario.devices} clients ready in a round"
    assert sentence(page, COST).startswith(cost)


@pytest.mark.parametrize("separation", [0, 4, 19])
def test_what_it_says_of_privacy_is_what_the_command_says(visit: Open, tmp_path: Path, separation: int) -> None:
    page = visit(PAGE, 1280, "light")
    choose(page, separation=str(separation))
    private = "\nprivacy: {mechanism: independent, epsilon: 8, delta: 1e-8, clip: 1}\n"
    write_text(tmp_path / "my.fedsim.yaml", recipe(page) + private)
    done = fedsim("privacy", "my.fedsim.yaml", "--json", "--separation", f"0,{separation}", cwd=tmp_path)
    assert done.returncode == 0
    first, *_, last = json.loads(done.stdout)["results"]
    text = sentence(page, "To privacy")
    assert f"at most {last['most_participations']:,} time" in text
    share = 100 * last["error_rms"] / first["error_rms"]
    assert f"{f'{share:.1f}' if separation else '100'}{THIN}% of the noise that R = 0 needs" in text


def test_equal_weights_have_no_bias(visit: Open, tmp_path: Path) -> None:
    page = visit(PAGE, 1280, "light")
    choose(page, law="equal")
    assert said(page).startswith(
        "With R = 4, all take part equally often. Move R to 0, then run what is below: R = 0 is the smallest "
    )
    write_text(tmp_path / "my.fedsim.yaml", recipe(page))
    assert theory(Scenario.load(tmp_path / "my.fedsim.yaml")) == away(4, 0.0)


def test_it_names_the_smallest_separation_for_a_target(visit: Open) -> None:
    page = visit(PAGE, 1280, "light")
    weights = np.arange(1, 21) ** -1.5
    curve = np.array(page.evaluate("w => distances(w, 1)", weights.tolist()))
    choose(page, target="25")
    enough = int(np.flatnonzero(curve <= 0.25)[0])
    assert said(page).endswith(
        f" then run what is below: R = {enough} is the smallest that comes within 25{THIN}% of uniform."
    )
    page.locator("#playground-move").click()
    assert f"separation: {enough}}}" in recipe(page)
    assert said(page).startswith(f"With R = {enough}, ")
    choose(page, selection="midzuno", cohort="2", clients="7", exponent="4", target="1")
    assert f"No R comes within 1{THIN}% of uniform: R = 2, the largest, leaves " in said(page)


def test_the_keyboard_drives_it(visit: Open) -> None:
    page = visit(PAGE, 375, "dark")
    page.locator("#playground-separation").focus()
    page.keyboard.press("ArrowRight")
    assert said(page).startswith("With R = 5, ")
    page.keyboard.press("End")
    assert said(page).startswith("With R = 19, all take part equally often.")


def test_numbers_out_of_bounds_are_brought_into_them_and_it_says_so(visit: Open) -> None:
    page = visit(PAGE, 1280, "light")
    choose(page, cohort="70")
    assert "A cohort of 50 is taken" in page.locator("#playground-bound").inner_text()
    choose(page, cohort="7")
    assert page.locator("#playground-bound").inner_text() == "Whole groups of 7: 98 clients."
    choose(page, clients="")
    assert said(page).startswith("With R = ")


def test_the_weights_of_a_scenario_are_taken_as_they_are(tmp_path: Path, visit: Open) -> None:
    text = (
        "stop: {rounds: 9}\npopulation: [{devices: 30, weight: {kind: lognormal, sigma: 1}, separation: 2}]\n"
        "server: {cohort: 3}\n"
    )
    write_text(tmp_path / "a case.yaml", text)
    assert fedsim("playground", "a case.yaml", cwd=tmp_path).returncode == 0
    page = visit(tmp_path / "playground.html", 1280, "light")
    assert said(page).startswith(theory(Scenario.load(tmp_path / "a case.yaml")))
    assert page.locator("#playground-clients").is_disabled()
    choose(page, separation="1", cohort="5", selection="groups")
    words = shlex.split(recipe(page))
    assert words[:3] == ["fedsim", "run", "a case.yaml"]
    changed = Scenario.load(tmp_path / "a case.yaml", words[4::2])
    assert said(page).startswith(theory(changed))


def test_without_scripts_it_shows_its_start(browser: Any) -> None:
    context = browser.new_context(java_script_enabled=False, offline=True)
    page = context.new_page()
    page.goto(PAGE.resolve().as_uri())
    assert not page.locator("#run").is_visible()
    assert not page.locator("#playground-separation").is_visible()
    assert page.locator("h1").inner_text().startswith("With R = 4, participation is ")
    context.close()
