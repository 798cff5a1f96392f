"""The title of a page: its finding, in each of its variants."""

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from fedsim.findings.bias import Seen, bias_of
from fedsim.findings.finished_run import FinishedRun, read_run
from fedsim.findings.run import run_answer, run_finding
from fedsim.scenario.component import Choice

from .runs import DEGENERATE


@pytest.fixture(scope="session")
def run(written: Path) -> FinishedRun:
    return read_run(written)


def plain(run: FinishedRun) -> str:
    return run_finding(run).replace("\N{NARROW NO-BREAK SPACE}", " ")


def at(run: FinishedRun, l1: float) -> FinishedRun:
    """Put the distance from uniform at this."""
    return replace(run, metrics={**run.metrics, "participation.l1_uniform": l1})


def flat(run: FinishedRun, counts: pl.Expr) -> FinishedRun:
    """Make clients of one group and weight, of so many participations."""
    clients = run.clients.with_columns(group=pl.lit("all"), weight=pl.lit(0.01), participations=counts)
    server = run.scenario.server.model_copy(update={"selection": Choice(kind="uniform")})
    uneven = (clients["participations"] / clients["participations"].sum() - 0.01).abs().sum()
    scenario = run.scenario.model_copy(update={"server": server})
    return at(replace(run, clients=clients, scenario=scenario), float(uneven))


CLIENT = pl.col("client")


def test_a_biased_run_says_how_many_turns_go_wrong_and_who_gets_them(run: FinishedRun) -> None:
    assert plain(at(run, 0.7)).startswith(
        "More than a third of all turns go to the wrong devices; a device of group 0 "
    )
    assert plain(at(run, 0.7)).endswith(" trains 5.5 times as often as one of group 12.")
    assert plain(at(run, 2 / 3)).startswith("A third of all turns go to the wrong devices; ")
    assert plain(at(run, 0.96)).startswith("Nearly half of all turns go to the wrong devices; ")
    assert plain(at(run, 0.9)).startswith("45.0 ± 1.1 % of all turns go to the wrong devices; ")


def test_weights_are_named_where_there_is_one_group(run: FinishedRun) -> None:
    """The heaviest of the groups that are selected whole; else the heaviest tenth of the clients."""
    one = replace(run, clients=run.clients.with_columns(group=pl.lit("all")))
    assert "; the heaviest group trains " in plain(one)
    assert plain(one).endswith(" times as often as the lightest.")
    server = run.scenario.server.model_copy(update={"selection": Choice(kind="midzuno")})
    tenths = replace(one, scenario=run.scenario.model_copy(update={"server": server}))
    assert "; the heaviest tenth trains " in plain(tenths)


def test_those_who_are_left_out_are_named_where_there_is_no_other_reason(run: FinishedRun) -> None:
    out = flat(run, pl.when(CLIENT < 20).then(0).otherwise(25))
    assert plain(out) == "A fifth of all turns go to the wrong devices; 20.0 % of the devices never get one."


def test_a_short_run_names_what_is_left_without_noise(run: FinishedRun) -> None:
    short = flat(run, pl.when(CLIENT < 50).then(15).otherwise(25))
    known = {"corrected": 0.2, "low": 0.16, "high": 0.24}
    told = replace(short, metrics={**short.metrics, **{f"participation.l1_uniform_{k}": v for k, v in known.items()}})
    assert plain(told).startswith("A tenth of all turns go to the wrong devices")
    assert "Too short to tell" in plain(short)


def test_the_busiest_tenth_is_named_beside_chance(run: FinishedRun) -> None:
    busy = flat(run, pl.when(CLIENT < 50).then(38).otherwise(2))
    busiest = "the busiest tenth takes 19.0 % of them, where chance would give it 14.1 %"
    assert plain(busy) == f"45.0 ± 1.1 % of all turns go to the wrong devices; {busiest}."


@pytest.mark.parametrize(
    ("counts", "seen", "words"),
    [
        (pl.lit(20), Seen.EVEN, "Every device takes part equally often."),
        (
            pl.when(CLIENT < 40).then(1).otherwise(0),
            Seen.ONCE,
            "Nobody took part twice: the run cannot show a bias.",
        ),
        (
            pl.when(CLIENT < 50).then(16).otherwise(24),
            Seen.TOO_SHORT,
            "The run is too short to tell bias from chance.",
        ),
        (
            pl.when(CLIENT < 50).then(15).otherwise(25),
            Seen.UNCLEAR,
            "Too short to tell how biased: 12.5 % of all turns go to the wrong devices, and equal chances would "
            "misplace 8.8 %.",
        ),
        (
            pl.when(CLIENT < 50).then(189).otherwise(211),
            Seen.NONE,
            "No bias to be seen: turns are spread as equal chances would spread them.",
        ),
        (
            pl.when(CLIENT < 50).then(1999).otherwise(2001),
            Seen.NONE,
            "Turns are spread more evenly than equal chances would spread them.",
        ),
        (
            pl.when(CLIENT < 50).then(185).otherwise(215),
            Seen.SLIGHT,
            "Hardly biased: 3.8 % of all turns go to the wrong devices, and equal chances would misplace 2.8 %.",
        ),
    ],
)
def test_what_there_is_to_be_seen(run: FinishedRun, counts: pl.Expr, seen: Seen, words: str) -> None:
    given = flat(run, counts)
    assert (bias_of(given).seen, plain(given)) == (seen, words)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("one_client", "The one device takes every turn."),
        ("zero_reports", "No report was taken in 10 rounds (sessions: 20 dropped)."),
        ("no_rounds", "Nothing was simulated: the run has no rounds."),
    ],
)
def test_odd_runs_have_a_title(run_directory: Path, name: str, words: str) -> None:
    DEGENERATE[name](run_directory)
    assert run_finding(read_run(run_directory)) == words


def test_a_stalled_run_says_so_first(run: FinishedRun) -> None:
    stalled = replace(run, manifest={**run.manifest, "stalled": "round 9 wants 2 eligible clients"})
    assert run_finding(stalled) == f"The run stalled in round {len(run.rounds) - 1:,} and ended there."
    assert run_answer(stalled)[0].text == "The run stalled: round 9 wants 2 eligible clients."


def test_what_was_not_measured_is_no_finding(run: FinishedRun) -> None:
    assert run_finding(replace(run, metrics={})) == "How evenly devices take part was not measured."
