"""The answer in words and the key figures, out of whatever metrics there are."""

from dataclasses import replace
from itertools import groupby
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from fedsim.learning import summarise
from fedsim.report.answer import BIAS, COST, MODEL, TRUST, WHAT, answer, tiles
from fedsim.report.finished_run import FinishedRun, read_run
from fedsim.report.optimizers import late_descents, references
from fedsim.report.tables import group_table, learning_table

from .runs import DEGENERATE


@pytest.fixture(scope="session")
def run(written: Path) -> FinishedRun:
    return read_run(written)


def words(run: FinishedRun) -> str:
    return " ".join(sentence.text for sentence in answer(run)).replace("\N{NO-BREAK SPACE}", " ")


def warnings(run: FinishedRun) -> list[str]:
    return [sentence.text for sentence in answer(run) if sentence.warns]


def with_metrics(run: FinishedRun, **metrics: float | None) -> FinishedRun:
    changed = dict(run.metrics) | {name.replace("__", "."): value for name, value in metrics.items()}
    return replace(run, metrics={name: value for name, value in changed.items() if value is not None})


def test_the_answer_says_how_biased_and_what_it_costs(run: FinishedRun) -> None:
    run = with_metrics(run, participation__l1_uniform=0.461, rounds__per_day=960.0)
    assert words(run).replace("\N{NARROW NO-BREAK SPACE}", " ") == (
        "Over 400 rounds with separation R = 8, all 100 clients took part. "
        "Client frequencies lie 0.461 (L1) from uniform; theory says 0.458. "
        "For all to take part equally, 23.1 % of the participations would have to go to other clients. "
        "Learning ends at these losses: fedavg at 5.3123 and debiased_fedavg at 5.2871. "
        "Under uniform participation, fedavg would end at 5.2870. "
        "The pace was 960 rounds per simulated day; the median round took 85.1 s. "
        "Measured and theoretical frequencies are 0.070 apart, where sampling noise alone would give 0.080. "
        "The runs have converged: their losses can be compared."
    )
    assert warnings(run) == []


def test_sentences_about_one_question_stand_together(run: FinishedRun) -> None:
    run = with_metrics(run, participation__l1_uniform=0.461, rounds__per_day=960.0)
    told = [about for about, _ in groupby(sentence.about for sentence in answer(run))]
    assert told == [WHAT, BIAS, MODEL, COST, TRUST]


def test_too_few_participations_to_tell_bias_from_chance(run: FinishedRun) -> None:
    """2,000 participations of 100 clients: a fair lottery lies 0.177 from uniform, so 0.3 may be chance; 0.4 is not."""
    (warning,) = warnings(with_metrics(run, participation__l1_uniform=0.3))
    assert "(20 for each client) would lie 0.177 from uniform: the run is too short" in warning
    assert warnings(with_metrics(run, participation__l1_uniform=0.4)) == []


def test_no_bias_at_all_is_said_without_decimals(run: FinishedRun) -> None:
    names = ("l1_uniform", "l1_uniform_theory", "l1_chain", "l1_noise")
    text = words(with_metrics(run, **{f"participation__{name}": 1e-16 * (5 - len(name)) ** 2 for name in names}))
    assert "frequencies lie 0 (L1) from uniform; theory says 0." in text
    assert "Everyone took part equally often." in text
    assert "are 0 apart, where sampling noise alone would give 0." in text


def test_measurements_far_from_theory_are_a_warning(run: FinishedRun) -> None:
    (warning,) = warnings(with_metrics(run, participation__l1_chain=0.2))
    assert "the theory does not describe this run" in warning


def test_what_has_not_converged_is_named(run: FinishedRun) -> None:
    one = with_metrics(run, learning__fedavg__converged=0.0)
    assert warnings(one) == ["fedavg has NOT converged: its loss shows how far it got, not where it would end."]
    every = replace(run, metrics=dict.fromkeys((name for name in run.metrics if name.endswith("converged")), 0.0))
    every = replace(every, metrics={**run.metrics, **every.metrics})
    assert warnings(every)[0].startswith("The runs have NOT converged")


def test_a_missing_loss_is_said(run: FinishedRun) -> None:
    assert warnings(with_metrics(run, learning__fedavg__loss=None)) == ["No finite loss at the end: fedavg."]


def test_dropped_sessions_and_shortages_are_said_when_there_are_any(run: FinishedRun) -> None:
    text = words(with_metrics(run, sessions__reported_share=0.75, rounds__shortage_share=0.5))
    assert "75.0\N{NARROW NO-BREAK SPACE}% of the sessions ended with a report." in text
    assert "50.0\N{NARROW NO-BREAK SPACE}% of the rounds found fewer eligible clients" in text


def test_no_metrics_at_all_still_make_an_answer(run: FinishedRun) -> None:
    empty = replace(run, metrics={})
    assert "was not measured" in words(empty)
    assert [tile.label for tile in tiles(empty)] == ["rounds", "clients"]


@pytest.mark.parametrize("name", DEGENERATE)
def test_odd_runs_have_an_answer(run_directory: Path, name: str) -> None:
    DEGENERATE[name](run_directory)
    run = read_run(run_directory)
    assert answer(run)
    assert list(tiles(run))


def test_tiles_compare_losses_digit_by_digit(run: FinishedRun) -> None:
    shown = {tile.label: tile.value for tile in tiles(run)}
    assert shown["loss, debiased_fedavg"] == "5.2871"
    assert shown["loss, fedavg_uniform"] == "5.2870"
    assert shown["L1 from uniform, theory"] == "0.458"


def test_learning_table_leaves_out_what_nobody_has(run: FinishedRun) -> None:
    table = learning_table(measured(run))
    assert table is not None
    assert table.header == ("Optimizer", "Converged", "Loss", "Gradient norm", "Drift", "Late descent")
    assert table.rows[0][:3] == ("fedavg", "yes", "5.3123")
    assert learning_table(replace(run, learning=None)) is None


def test_groups_are_capped_and_what_is_omitted_is_said(run: FinishedRun) -> None:
    table = group_table(run)
    assert table is not None
    assert (len(table.rows), table.note) == (20, "")
    many = replace(run, clients=run.clients.with_columns(group=pl.col("client").cast(pl.String)))
    capped = group_table(many)
    assert capped is not None
    assert len(capped.rows) == 24
    assert "76 more groups" in capped.note
    assert group_table(replace(run, clients=run.clients.with_columns(group=pl.lit("all")))) is None


def test_references_are_told_by_the_optimizer_that_they_belong_to() -> None:
    assert references(["fedavg", "fedavg_uniform", "my_uniform"]) == {"fedavg_uniform": "fedavg"}


def falling(run: FinishedRun) -> FinishedRun:
    """Make a run whose losses have hardly begun to fall: from 1 by a thousandth of a thousandth a round."""
    rounds = np.arange(-1, 400)
    loss = 1 - 1e-6 * (rounds + 1)
    frame = pl.DataFrame({"round": rounds, "optimizer": "fedavg", "loss": loss, "grad_norm": np.ones(401)})
    return measured(replace(run, learning=frame))


def measured(run: FinishedRun) -> FinishedRun:
    """Give a run the late descents of its learning table."""
    assert run.learning is not None
    figures = {name: value for name, value in run.metrics.items() if not name.endswith("late_descent")}
    late = {name: value for name, value in summarise(run.learning).items() if name.endswith("late_descent")}
    return replace(run, metrics=figures | {name: value for name, value in late.items() if np.isfinite(value)})


def test_a_slow_descent_is_not_taken_for_a_settled_one(run: FinishedRun) -> None:
    """Mean losses over the quarters (200, 300] and (300, 400], in millionths below 1: 250.5 and 350.5."""
    slow = falling(run)
    assert late_descents(slow) == {"fedavg": pytest.approx(100 / 350.5)}
    (warning,) = warnings(slow)
    assert "28.5\N{NARROW NO-BREAK SPACE}% of the whole descent of fedavg fell" in warning
    assert "NOT settled" in warning


def test_late_descents_need_a_descent(run: FinishedRun) -> None:
    rising = falling(run)
    assert rising.learning is not None
    rising = measured(replace(rising, learning=rising.learning.with_columns(loss=2 - pl.col("loss"))))
    assert late_descents(rising) == {}
    assert late_descents(replace(run, learning=None)) == {}
