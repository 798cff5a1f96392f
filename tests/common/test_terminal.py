"""What fits a terminal: tables, sentences, bars."""

import io
from collections.abc import Callable

import pytest
from rich.console import Console

from fedsim.common.messages import complain, fitted_table, folded
from fedsim.common.progress import on_stderr

HEADER = ("R", "Distance of participation from uniform (TV)", "Pace", "Gini coefficient of the participations")
ROWS = (("8", "1.0 % ± 0.1 points", "960 updates per day", "1.5 %"), ("0", "7.8 %", "960 updates per day", "11.3 %"))


@pytest.fixture
def columns(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Set the width of the terminal."""
    return lambda width: monkeypatch.setenv("COLUMNS", str(width))


@pytest.mark.parametrize("width", [20, 47, 60, 75, 110])
def test_a_table_has_the_columns_that_fit_and_says_how_many_do_not(columns: Callable[[int], None], width: int) -> None:
    """Every word of the heads that are left is whole, and every cell."""
    columns(width)
    text, left = fitted_table("<>>>", HEADER, *ROWS)
    lines = text.splitlines()
    assert max(map(len, lines)) <= width
    assert (left == 0) == (width >= 58)
    kept = len(HEADER) - left
    words = {word for line in lines for word in line.split()}
    assert words >= {
        word for cell in (*HEADER[:kept], *(cell for row in ROWS for cell in row[:kept])) for word in cell.split()
    }
    assert all(row[kept - 1] in text for row in ROWS)


def test_a_sentence_breaks_between_words_and_off_a_terminal_nowhere(columns: Callable[[int], None]) -> None:
    text = "The loss of “debiased_fedavg” has not converged: " * 3 + "a/long/path-with-hyphens/in/it"
    assert folded(text) == text
    columns(40)
    assert folded(text).split() == text.split()
    assert max(map(len, folded(text).splitlines())) <= 40


@pytest.mark.parametrize("width", [80, 200])
def test_a_bar_has_ten_cells_at_least(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    shown = io.StringIO()
    console = Console(file=shown, width=width, force_terminal=True, color_system=None)
    monkeypatch.setattr("rich.console.Console", lambda **_: console)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    with on_stderr() as report:
        report("simulating", 1.0, "461 rounds, 43.3 h simulated, 20 rounds/s, and more that is said beside the bar")
    line = next(line for line in shown.getvalue().splitlines() if "simulating" in line)
    assert line.count("━") >= 10
    assert len(line) <= width + 10


def test_errors_are_red_on_a_terminal_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    complain("error: no", red=True)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.delenv("NO_COLOR", raising=False)
    complain("error: no", red=True)
    monkeypatch.setenv("NO_COLOR", "1")
    complain("error: no", red=True)
    assert capsys.readouterr().err == "error: no\n\x1b[31merror: no\x1b[0m\nerror: no\n"
