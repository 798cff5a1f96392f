"""Sliders in a real browser: theory as Python computes it, the keyboard, the words, the command to copy."""

import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedsim.common.files import write_text
from fedsim.report import write_report
from fedsim.theory import closed_form, distances
from tests.command import fedsim

from .conftest import IN_A_BROWSER, Open
from .runs import GROUPS, write_run
from .sweeps import l1, write_sweep
from .test_browser import SHOWN, check_page, serious

pytestmark = IN_A_BROWSER

THIN = "\N{NARROW NO-BREAK SPACE}"
SCENARIO = """
stop: {rounds: 60}
population:
  - {name: few, devices: 10, weight: {kind: zipf, exponent: 0.5}, separation: 2}
  - {name: "<b>many</b>", devices: 30, weight: {kind: lognormal, sigma: 0.5, median: 0.1}, separation: 2}
server: {cohort: 3}
"""


@pytest.fixture(scope="module")
def run_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report(write_run(tmp_path_factory.mktemp("what-if") / "run", rounds=120))


def case(generator: np.random.Generator, largest: int) -> tuple[list[float], int, int]:
    """Draw weights, a separation and a cohort, whatever the spread."""
    clients = int(generator.integers(2, largest + 1))
    weights = np.exp(generator.choice([0.1, 1.0, 3.0, 10.0]) * generator.standard_normal(clients))
    cohort = int(generator.integers(1, clients // 2 + 1)) if generator.random() < 0.6 else 1
    return weights.tolist(), int(generator.integers(0, clients // cohort)), cohort


@pytest.mark.parametrize(
    ("cases", "largest"), [(200, 40), pytest.param(1_000, 150, marks=pytest.mark.long), (3, 1_000)]
)
def test_the_page_computes_what_python_computes(run_page: Path, visit: Open, cases: int, largest: int) -> None:
    generator = np.random.default_rng(11)
    asked = [case(generator, largest) for _ in range(cases)]
    page = visit(run_page, 1280, "light")
    answers = page.evaluate("cases => cases.map(([w, R, B]) => participation(w, R, B))", [list(each) for each in asked])
    for (weights, separation, cohort), answer in zip(asked, answers, strict=True):
        expected = closed_form(weights, separation, cohort).pi
        assert np.abs(np.array(answer) / expected - 1).max() < 1e-9
    curves = page.evaluate(
        "cases => cases.map(([w, R, B]) => misplacedTurns(w, B))", [list(each) for each in asked[:50]]
    )
    for (weights, _, cohort), curve in zip(asked, curves, strict=False):
        expected = distances(weights, range(len(weights) // cohort), cohort) / 2
        assert np.allclose(curve, expected, rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize(("width", "scheme"), SHOWN)
def test_a_page_reads_well_after_a_slider_has_moved(run_page: Path, visit: Open, width: int, scheme: Any) -> None:
    page = visit(run_page, width, scheme)
    page.locator("#what-if-separation").fill("12")
    page.locator("#what-if-spread").fill("1.5")
    check_page(page)
    page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
    assert serious(page) == []


def test_the_keyboard_moves_the_sliders_and_words_follow(run_page: Path, visit: Open) -> None:
    page = visit(run_page, 1280, "light")
    said = page.locator("#what-if-said")
    weights = np.arange(1, GROUPS + 1) ** -1.5

    def misplaced(separation: int, power: float = 1.0) -> str:
        return f"{50 * closed_form(weights**power, separation).l1_uniform:.1f}{THIN}%"

    assert said.get_attribute("aria-live") == "polite"
    assert said.inner_text().startswith(
        f"At R = 8, as it was run, theory says that {misplaced(8)} of turns are misplaced"
    )
    page.locator("#what-if-separation").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    pi = closed_form(weights, 10).pi
    then = closed_form(weights, 8).pi
    assert said.inner_text() == (
        f"At R = 10, {misplaced(10)} of turns are misplaced (now {misplaced(8)}). Group 1 takes part "
        f"{pi[0] / pi[-1]:.2f} times as often as group 20 (now {then[0] / then[-1]:.2f} times)."
    )
    assert page.locator("#what-if-label").inner_text() == "Theory; not run."
    assert misplaced(10) in page.locator("#what-if-tiles").inner_text()
    page.keyboard.press("End")
    assert "All take part equally often." in said.inner_text()
    page.keyboard.press("Home")
    page.keyboard.press("Tab")
    page.keyboard.press("Home")
    assert page.locator("#what-if-spread-now").inner_text() == "all equal"
    page.locator("#what-if-spread").fill("2")
    assert f"At R = 0 and with weights to the power 2, {misplaced(0, 2.0)} of turns" in said.inner_text()
    page.locator("#what-if-spread").fill("1")
    page.locator("#what-if-separation").fill("8")
    assert page.locator("#what-if-label").inner_text() == "Theory, at what was run."


def test_without_scripts_a_page_is_as_it_was(run_page: Path, browser: Any) -> None:
    context = browser.new_context(java_script_enabled=False, offline=True)
    page = context.new_page()
    page.goto(run_page.resolve().as_uri())
    assert not page.locator("#what-if").is_visible()
    assert page.locator("#bias").is_visible()
    context.close()


def test_a_script_that_is_not_the_page_s_own_does_not_run(run_page: Path, browser: Any) -> None:
    context = browser.new_context(offline=True)
    page = context.new_page()
    refused: list[str] = []
    page.on("console", lambda message: refused.append(message.text))
    page.goto(run_page.resolve().as_uri())
    page.evaluate(
        """() => { document.body.append(Object.assign(document.createElement('script'), {text: 'window.ran = 1'}));
                  document.body.append(Object.assign(new Image(), {src: 'https://example.invalid/a.png'})) }"""
    )
    page.wait_for_timeout(100)
    assert page.evaluate("window.ran") is None
    assert len([text for text in refused if "Content Security Policy" in text]) == 2
    context.close()


def test_sliders_are_not_printed(run_page: Path, visit: Open) -> None:
    page = visit(run_page, 1280, "light")
    assert page.locator("#what-if").is_visible()
    page.emulate_media(media="print")
    assert not page.locator("#what-if").is_visible()


def test_the_command_runs_what_theory_answered(tmp_path: Path, visit: Open) -> None:
    write_text(tmp_path / "case.fedsim.yaml", SCENARIO)
    assert fedsim("run", "case.fedsim.yaml", "--out", "run", cwd=tmp_path).returncode == 0
    page = visit(tmp_path / "run" / "report.html", 375, "light")
    page.locator("#what-if-separation").fill("5")
    page.locator("#what-if-spread").fill("1.5")
    said, command = page.locator("#what-if-said").inner_text(), page.locator("#what-if-command").inner_text()
    assert "<b>many</b>" in said
    words = shlex.split(command)
    assert words[:4] == ["fedsim", "run", "case.fedsim.yaml", "--set"]
    done = fedsim("chain", *words[2:], "--json", cwd=tmp_path)
    (answer,) = json.loads(done.stdout)["results"]
    assert f"{100 * answer['tv_uniform']:.1f}{THIN}%" in said
    assert page.locator("#what-if-edit").inner_text() == ""


def test_weights_that_no_setting_changes_have_to_be_edited(tmp_path: Path, visit: Open) -> None:
    text = "stop: {rounds: 9}\npopulation: [{devices: 3, weight: [1, 2, 3]}]\nserver: {cohort: 1}\n"
    write_text(tmp_path / "case.fedsim.yaml", text)
    assert fedsim("run", "case.fedsim.yaml", "--out", "run", cwd=tmp_path).returncode == 0
    page = visit(tmp_path / "run" / "report.html", 1280, "dark")
    assert page.locator("#what-if-edit").inner_text() == ""
    page.locator("#what-if-spread").fill("0.5")
    assert "have to be changed in the scenario file" in page.locator("#what-if-edit").inner_text()
    assert page.locator("#what-if-command").inner_text() == "fedsim run case.fedsim.yaml"


def test_bars_that_hardly_differ_are_not_called_equal(tmp_path: Path, visit: Open) -> None:
    """Two groups of the same weights take part alike, although the clients in each do not."""
    group = "{{name: {}, devices: 8, weight: {{kind: zipf, exponent: 1}}}}"
    text = f"stop: {{rounds: 9}}\npopulation: [{group.format('a')}, {group.format('b')}]\nserver: {{cohort: 2}}\n"
    write_text(tmp_path / "case.fedsim.yaml", text)
    assert fedsim("run", "case.fedsim.yaml", "--out", "run", cwd=tmp_path).returncode == 0
    page = visit(tmp_path / "run" / "report.html", 1280, "dark")
    said = page.locator("#what-if-said")
    assert said.inner_text().endswith("Between groups there is hardly a difference.")
    page.locator("#what-if-separation").fill("7")
    assert f"At R = 7, 0{THIN}% of turns are misplaced" in said.inner_text()
    assert said.inner_text().endswith("All take part equally often.")


@pytest.mark.parametrize(("width", "scheme"), SHOWN)
def test_the_slider_of_a_sweep_goes_from_point_to_point(tmp_path: Path, visit: Open, width: int, scheme: Any) -> None:
    page = visit(write_report(write_sweep(tmp_path / "sweep", crash=True)), width, scheme)
    page.locator("#what-if-choice").select_option("1")
    page.locator("#what-if-point").focus()
    page.keyboard.press("ArrowRight")
    share = 50 * np.mean([l1(4, 10, seed) for seed in (1, 2, 3)])
    said = page.locator("#what-if-said")
    assert said.get_attribute("aria-live") == "polite"
    assert said.inner_text() == (
        f"At R = 4 with cohort\u00a0=\u00a010, {share:.1f}{THIN}% \u00b1 0.1{THIN}% of turns are misplaced, at "
        "640 rounds a day (measured with 3 seeds)."
    )
    page.keyboard.press("End")
    assert "(measured with 2 seeds)" in said.inner_text()
    assert page.locator("#what-if .measured-label").inner_text() == "Measured."
    check_page(page)
    assert serious(page) == []
