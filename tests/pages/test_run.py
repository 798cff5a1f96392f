"""The answer in words and the key figures, out of whatever metrics there are."""

import re
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from fedsim import simulate
from fedsim.learning import summarise
from fedsim.pages.finding import BIAS, COST, MODEL, NEXT, TRUST, WHAT, Finding, lines
from fedsim.pages.methods import compare_losses, optimizer_figures, references
from fedsim.pages.run import run_answer, setup_of
from fedsim.pages.tables import learning_table
from fedsim.run.load import load_one
from fedsim.run.run import Run
from fedsim.scenario import Scenario
from fedsim.scenario.component import Choice
from fedsim.scenario.server import SyncServer
from fedsim.scenario.session import Participations
from tests.pages.runs import DEGENERATE, changed

POISSON = SyncServer(cohort=5, selection="poisson").selection  # type: ignore[arg-type]
CAP = Participations.model_validate({"most": 20})


@pytest.fixture(scope="session")
def run(written: Path) -> Run:
    return load_one(written)


def words(run: Run) -> str:
    return " ".join(sentence.text for sentence in run_answer(run).findings).replace("\N{NO-BREAK SPACE}", " ")


def warnings(run: Run) -> list[str]:
    return [sentence.text for sentence in run_answer(run).findings if sentence.warns]


def with_metrics(run: Run, **metrics: float | None) -> Run:
    known = dict(run.metrics) | {name.replace("__", "."): value for name, value in metrics.items()}
    return changed(run, metrics={name: value for name, value in known.items() if value is not None})


def test_the_answer_says_how_biased_and_what_it_costs(run: Run) -> None:
    run = with_metrics(run, participation__l1_uniform=0.461, rounds__per_day=960.0)
    text = words(run).replace("\N{NARROW NO-BREAK SPACE}", " ")
    for said in (
        "Over 400 rounds with separation R = 8 (a client that took part waits 8 rounds), all 100 clients took part.",
        "Each round wants 5 clients, its cohort.",
        "A client took part (was selected) 20 times on average and 44 at most; nobody was left out.",
        "Theory, which computes what weights, cohort and separation alone do in the long run, says 22.9 %.",
        "Participation share over fair share: of 20 groups “group 0” 2.2 and “group 12” 0.4; ",
        "Beside unbiased training (fedavg under uniform participation), whose loss is 5.287, the loss ",
        "What “fedavg” misses is 0.6 % of what unbiased training gained.",
        "960 rounds per simulated day.",
        "Measurement and theory are 3.5 % apart (TV); sampling noise alone would",
        "The loss of all methods has converged, so that they can be compared.",
    ):
        assert said in text
    assert warnings(run) == []


def test_sentences_about_one_question_stand_together(run: Run) -> None:
    run = with_metrics(run, participation__l1_uniform=0.461, rounds__per_day=960.0)
    told = [about for about, _ in groupby(sentence.about for sentence in run_answer(run).findings)]
    assert told == [WHAT, BIAS, MODEL, COST, TRUST, NEXT]


def test_no_bias_at_all_is_said_without_decimals(run: Run) -> None:
    names = ("l1_uniform", "l1_uniform_theory", "l1_chain", "l1_noise")
    even = run.clients.with_columns(participations=pl.lit(20), frequency=pl.lit(0.01))
    tiny = {f"participation__{name}": 1e-16 * (5 - len(name)) ** 2 for name in names}
    text = words(changed(with_metrics(run, **tiny), clients=even)).replace("\N{NARROW NO-BREAK SPACE}", " ")
    assert "Everyone took part equally often: 0 % from uniform." in text
    assert "are 0 % apart (TV); sampling noise alone would give 0 %." in text


def test_a_cool_down_is_named_beside_the_separation(run: Run) -> None:
    six = changed(run, clients=run.clients.with_columns(cooldown_s=6 * 3600.0, separation=pl.lit(0)))
    assert "Over 400 rounds with separation R = 0 and a cool-down of 6\N{NARROW NO-BREAK SPACE}h, all" in words(six)
    mixed = pl.when(pl.col("client") < 50).then(60.0).otherwise(7200.0)
    several = run.clients.with_columns(cooldown_s=mixed, separation=pl.col("client") % 3)
    text = words(changed(run, clients=several)).replace("\N{NARROW NO-BREAK SPACE}", " ")
    assert (
        "with separations from R = 0 to 2 (a client that took part waits up to 2 rounds) and a cool-down of 60 s to 2 h"
        in text
    )


def test_a_separation_that_outlasts_the_run_is_a_warning(run: Run) -> None:
    counts = pl.when(pl.col("client") < 30).then(1).otherwise(0)
    once = run.clients.with_columns(participations=counts, separation=pl.lit(400))
    said = warnings(
        changed(with_metrics(run, participation__l1_uniform=1.4), clients=once, without=("reports", "weights"))
    )
    assert said[0].startswith(
        "Every client can take part once at most, with a separation of 400 rounds in a run of 400"
    )
    assert said[1].startswith("How much of a difference is chance cannot be said")
    assert len(said) == 2


def with_server(run: Run, **changes: object) -> Run:
    server = run.scenario.server.model_copy(update=changes)
    return changed(run, recounted=True, scenario=run.scenario.model_copy(update={"server": server}))


def test_more_selected_than_wanted_is_explained(run: Run) -> None:
    text = words(with_server(run, cohort=50, over_select=1.3))
    assert "Each round wants 50 reports and selects 65 clients for them (over_select 1.3), since some may not" in text


@pytest.mark.parametrize(
    ("shortage", "then"),
    [("wait", ", and waited for more"), ("proceed", ", and went on with fewer"), ("skip", ", and were skipped")],
)
def test_shortages_are_told_from_rounds_that_missed_their_reports(run: Run, shortage: str, then: str) -> None:
    short = with_metrics(run, rounds__shortage_share=0.117, rounds__target_share=0.999)
    text = words(with_server(short, shortage=shortage)).replace("\N{NARROW NO-BREAK SPACE}", " ")
    assert f"11.7 % of the rounds found fewer eligible clients than they wanted to select{then}; 99.9 % of all" in text


def test_waiting_is_a_cost_and_a_tile(run: Run) -> None:
    """95 of 168 hours; where nobody waited, nothing is said of it."""
    waits = with_metrics(run, rounds__waiting_share=95 / 168, rounds__wait__max=8.8 * 3600)
    waits = changed(waits, simulated_s=168 * 3600.0)
    text = words(waits).replace("\N{NARROW NO-BREAK SPACE}", " ")
    assert "Rounds spent 56.5 % of the time waiting for clients (95 of 168 h, the longest 8.8 h)." in text
    (tile,) = [tile for tile in run_answer(waits).tiles if tile.label == "of the time spent waiting"]
    assert tile.value == "56.5\N{NARROW NO-BREAK SPACE}%"
    never = with_metrics(run, rounds__waiting_share=0.0, rounds__wait__max=0.0)
    assert "waiting" not in words(never)
    assert not any("waiting" in tile.label for tile in run_answer(never).tiles)


def test_device_time_is_in_device_hours(run: Run) -> None:
    text = words(with_metrics(run, sessions__device_hours=2800.0, sessions__wasted_share=0.014))
    vain = "1.4\N{NARROW NO-BREAK SPACE}% of that wasted"
    assert f"2,800 device-hours, {vain}." in text


def test_who_was_left_out_stands_beside_chance(run: Run) -> None:
    some = pl.when(pl.col("client") < 20).then(0).when(pl.col("client") < 25).then(1).otherwise(20)
    text = words(changed(run, clients=run.clients.with_columns(participations=some)))
    text = text.replace("\N{NARROW NO-BREAK SPACE}", " ")
    assert "20.0 % never did, 5.0 % only once (equal chances would leave out < 0.1 %)." in text


def test_of_a_few_groups_each_is_compared_with_its_size(run: Run) -> None:
    """2,000 participations of two halves: 55 % and 45 % are 4.5 standard deviations from even, 50.5 % not one."""
    group = pl.when(pl.col("client") < 50).then(pl.lit("here")).otherwise(pl.lit("there"))
    counts = pl.when(pl.col("client") < 50).then(22).otherwise(18)
    clients = run.clients.with_columns(group=group, participations=counts, separation=pl.lit(0), weight=pl.lit(0.01))
    cohorts = with_server(changed(run, clients=clients), selection=Choice(kind="uniform"))
    assert "Participation share over fair share: “here” 1.1 and “there” 0.9; this is more than chance." in words(
        cohorts
    )
    assert run_answer(cohorts).title == (
        "A client of “here” takes part 1.2 times as often as one of “there”, which is more than chance."
    )
    assert [fact.certainty for fact in run_answer(cohorts).facts] == ["told from chance"] * 2
    slight = pl.when(pl.col("client") < 50).then(20 + pl.col("client") % 3 - 1).otherwise(20)
    even = changed(cohorts, clients=clients.with_columns(participations=slight))
    assert "chance explains this, and a difference of" in words(even)


def test_a_ratio_of_few_counts_is_not_said(run: Run) -> None:
    """300 reports of one half and 4 of the other: that these take part less often is sure, how much is not."""
    group = pl.when(pl.col("client") < 50).then(pl.lit("here")).otherwise(pl.lit("there"))
    counts = pl.when(pl.col("client") < 50).then(6).when(pl.col("client") < 54).then(1).otherwise(0)
    clients = run.clients.with_columns(group=group, participations=counts, separation=pl.lit(0), weight=pl.lit(0.01))
    title = run_answer(with_server(changed(run, clients=clients), selection=Choice(kind="uniform"))).title
    assert title.replace("\N{NARROW NO-BREAK SPACE}", " ").endswith("“here” takes part 2 times its fair share.")


def test_cohorts_that_vary_are_told_with_their_mean(run: Run) -> None:
    poisson = with_server(run, selection=POISSON)
    sizes = pl.when(pl.col("round") < 40).then(0).otherwise(5)
    text = words(changed(poisson, rounds=poisson.rounds.with_columns(selected=sizes)))
    assert "(poisson selection): 4.5 clients on average, and 40 of 400 rounds selected nobody." in text
    assert "its cohort" not in text


def test_caps_that_bind_are_told(run: Run) -> None:
    groups = [each.model_copy(update={"participations": CAP}) for each in run.scenario.population]
    capped = changed(run, scenario=run.scenario.model_copy(update={"population": groups}))
    reached = int((run.clients["participations"] >= 20).sum())
    assert f"A client may take part 20 times at most (`participations`); {reached} did so often." in words(capped)


def test_what_is_worse_than_its_start_is_not_called_converged(run: Run) -> None:
    worse = with_metrics(run, learning__fedavg__loss=774.0)
    assert warnings(worse)[0].startswith("Training made the model worse than it was before, by the loss of “fedavg” (")
    assert "The loss of all methods" not in words(worse)


def test_a_question_about_the_model_is_answered_by_its_loss(run: Run) -> None:
    asked = changed(run, scenario=run.scenario.model_copy(update={"question": "What does it do to the model?"}))
    unbiased = "unbiased training (fedavg under uniform participation)"
    assert run_answer(asked).title == f"The loss of fedavg ends 0.025 above that of {unbiased}."


def test_a_question_about_a_group_is_answered_by_its_share(run: Run) -> None:
    asked = changed(run, scenario=run.scenario.model_copy(update={"question": "Does group 19 get its share?"}))
    first, last = run_answer(asked).title, run_answer(asked).facts[19]
    assert not first.startswith("“group 1”")
    group = pl.when(pl.col("client") < 50).then(pl.lit("here")).otherwise(pl.lit("there"))
    two = changed(asked, clients=run.clients.with_columns(group=group))
    two = changed(two, scenario=run.scenario.model_copy(update={"question": "Does Here take part by its size?"}))
    assert run_answer(two).title.startswith("“here” takes part 1.")
    assert run_answer(two).title.endswith("more than chance.")
    assert last.name == "group.group 19"


def test_without_learning_no_model_was_trained(run: Run) -> None:
    plain = changed(run, scenario=run.scenario.model_copy(update={"learning": None}), learning=None)
    assert [each.text for each in run_answer(plain).findings if each.about == MODEL] == ["No model was trained."]


def test_measurements_far_from_theory_are_a_warning(run: Run) -> None:
    (warning,) = warnings(with_metrics(run, participation__l1_chain=0.2))
    assert "the theory does not describe this run" in warning


def test_lines_are_the_first_clauses_of_what_is_said(run: Run) -> None:
    counts = pl.when(pl.col("client") < 30).then(1).otherwise(0)
    once = run.clients.with_columns(participations=counts, separation=pl.lit(400))
    given = changed(with_metrics(run, participation__l1_uniform=1.4), clients=once)
    first = next(each for each in run_answer(given).findings if each.about == TRUST)
    assert first.line == "Every client can take part once at most."
    assert len(first.line) <= 88


def test_a_question_about_bias_is_answered_by_the_distance(run: Run) -> None:
    asked = changed(run, scenario=run.scenario.model_copy(update={"question": "How uneven is it?"}))
    assert run_answer(asked).title.startswith("Participation is 23.3")
    assert run_answer(run).title.startswith("A client of “group 0” takes part 5.5 times as often")


def test_what_has_not_converged_is_named(run: Run) -> None:
    one = with_metrics(run, learning__fedavg__converged=0.0)
    said = "The loss of fedavg has NOT converged: it shows how far training got, not where it would end."
    assert warnings(one) == [said]
    every = changed(run, metrics=dict.fromkeys((name for name in run.metrics if name.endswith("converged")), 0.0))
    every = changed(every, metrics={**run.metrics, **every.metrics})
    assert warnings(every)[0].startswith("The loss of all methods has NOT converged")


def test_training_that_stopped_at_its_target_is_not_asked_to_go_on(run: Run) -> None:
    """Where it went on for as long as the run, what has not converged is named as ever."""
    learning = run.scenario.learning
    assert learning is not None
    assert run.learning is not None
    asked = learning.model_copy(update={"target_loss": 1.0, "stop_at_target": True})
    moving = with_metrics(
        changed(run, scenario=run.scenario.model_copy(update={"learning": asked})),
        **dict.fromkeys(("learning__fedavg__converged", "learning__debiased_fedavg__converged"), 0.0),
    )
    assert "NOT converged" in warnings(moving)[0]
    needed = {"learning__fedavg__rounds_to_target": 100.0, "learning__debiased_fedavg__rounds_to_target": 100.0}
    early = with_metrics(changed(moving, learning=run.learning.filter(pl.col("round") < 100)), **needed)
    lost = with_metrics(early, learning__fedavg__rounds_to_target=None)  # diverged, and so ended early too
    assert "stopped after" not in words(lost)
    assert not [each for each in warnings(early) if "converged" in each]
    said = words(early)
    assert (
        f"Training stopped after 100 of {len(run.rounds):,} rounds: all methods had reached the target by then." in said
    )
    assert "Run longer" in words(moving)
    assert "Run longer" not in said


def test_a_missing_loss_is_said(run: Run) -> None:
    diverged = with_metrics(run, learning__fedavg__loss=None, learning__fedavg__diverged_round=7.0)
    told = "Training with fedavg diverged at round 7; try a smaller step (learning.step_size)."
    assert warnings(diverged) == [told]


def test_dropped_sessions_and_shortages_are_said_when_there_are_any(run: Run) -> None:
    text = words(with_metrics(run, sessions__reported_share=0.75, rounds__shortage_share=0.5))
    assert "75.0\N{NARROW NO-BREAK SPACE}% of the sessions ended with a report." in text
    assert "50.0\N{NARROW NO-BREAK SPACE}% of the rounds found fewer eligible clients" in text


def test_no_metrics_at_all_still_make_an_answer(run: Run) -> None:
    empty = changed(run, metrics={})
    assert "was not measured" in words(empty)
    assert [tile.label for tile in run_answer(empty).tiles] == ["rounds"]


@pytest.mark.parametrize("name", DEGENERATE)
def test_odd_runs_have_an_answer(run_directory: Path, name: str) -> None:
    DEGENERATE[name](run_directory)
    run = load_one(run_directory)
    assert run_answer(run).findings
    assert list(run_answer(run).tiles)


def test_at_most_five_tiles_the_distance_first(run: Run) -> None:
    shown = [(tile.label, tile.value.replace("\N{NARROW NO-BREAK SPACE}", " ")) for tile in run_answer(run).tiles]
    assert len(shown) <= 5
    assert shown[0] == ("from uniform (total variation)", "23.3 %")
    assert ("loss above that of unbiased training (fedavg under uniform participation)", "0.025") in shown


def test_learning_table_leaves_out_what_nobody_has(run: Run) -> None:
    table = learning_table(measured(run))
    assert table is not None
    assert table.header == ("Optimizer", "Loss converged", "Loss", "Gradient norm", "Drift", "Late descent")
    assert table.rows[0][:3] == ("fedavg", "yes", "5.312")
    assert learning_table(changed(run, learning=None)) is None


def test_references_are_told_by_the_optimizer_that_they_belong_to() -> None:
    assert references(["fedavg", "fedavg_uniform", "my_uniform"]) == {"fedavg_uniform": "fedavg"}


def falling(run: Run) -> Run:
    """Make a run whose losses have hardly begun to fall: from 1 by a thousandth of a thousandth a round."""
    rounds = np.arange(-1, 400)
    loss = 1 - 1e-6 * (rounds + 1)
    frame = pl.DataFrame({"round": rounds, "optimizer": "fedavg", "loss": loss, "grad_norm": np.ones(401)})
    return measured(changed(run, learning=frame, metrics={**run.metrics, "learning.fedavg.loss": 0.9997}))


def measured(run: Run) -> Run:
    """Give a run the late descents of its learning table."""
    assert run.learning is not None
    figures = {name: value for name, value in run.metrics.items() if not name.endswith("late_descent")}
    late = {name: value for name, value in summarise(run.learning).items() if name.endswith("late_descent")}
    return changed(run, metrics=figures | {name: value for name, value in late.items() if np.isfinite(value)})


def test_a_slow_descent_is_not_taken_for_a_settled_one(run: Run) -> None:
    """Mean losses over the quarters (200, 300] and (300, 400], in millionths below 1: 250.5 and 350.5."""
    slow = falling(run)
    assert optimizer_figures(slow, "late_descent") == {"fedavg": pytest.approx(100 / 350.5)}
    (warning,) = warnings(slow)
    assert "28.5\N{NARROW NO-BREAK SPACE}% of the whole descent of fedavg fell" in warning
    assert "NOT settled" in warning


def test_late_descents_need_a_descent(run: Run) -> None:
    rising = falling(run)
    assert rising.learning is not None
    rising = measured(changed(rising, learning=rising.learning.with_columns(loss=2 - pl.col("loss"))))
    assert optimizer_figures(rising, "late_descent") == {}
    assert optimizer_figures(changed(run, learning=None), "late_descent") == {}


def lines_of(*settings: str, tmp_path: Path) -> dict[str, Finding]:
    """Simulate a scenario of these settings, and return the line of each question."""
    file = tmp_path / "asked.fedsim.yaml"
    file.write_text("stop: {rounds: 200}\npopulation: [{devices: 40}]\nserver: {cohort: 4}\n", encoding="utf-8")
    found = load_one(simulate(Scenario.load(file, list(settings))).save(tmp_path / "run"))
    return {each.about: each for each in lines(run_answer(found).findings)}


LEARNING = "learning={problem: quadratic, optimizers: [fedavg, debiased_fedavg], step_size: 0.1, reference: uniform}"
PRIVACY = "{mechanism: banded, noise_multiplier: 2.0, delta: 1e-5, clip: 1.0, training: %s}"


def test_a_private_run_says_epsilon_and_what_its_loss_has(tmp_path: Path) -> None:
    found = lines_of(LEARNING, f"privacy={PRIVACY % 'noise'}", tmp_path=tmp_path)
    assert re.match(r"Epsilon = \d+\.\d+ at delta = 1e\u22125; 20 device-hours; ", found[COST].text)
    assert found[MODEL].line.startswith("Lowest loss: “")
    assert " untrained); “fedavg” +" in found[MODEL].line
    assert found[TRUST].line.startswith("Training made the model worse: see the loss of “fedavg” (")
    assert found[NEXT].text.startswith("Lower the step")


def test_training_without_noise_is_no_private_training(tmp_path: Path) -> None:
    file = tmp_path / "asked.fedsim.yaml"
    file.write_text("stop: {rounds: 200}\npopulation: [{devices: 40}]\nserver: {cohort: 4}\n", encoding="utf-8")
    for training, in_it in (("none", False), ("clip", False), ("noise", True)):
        scenario = Scenario.load(file, [LEARNING, f"privacy={PRIVACY % training}"])
        found = load_one(simulate(scenario).save(tmp_path / training))
        text = words(found)
        assert ("Training has none of the noise of privacy" in text) == (training == "none")
        assert ("is no measure of what participation does" in text) == (training != "none")
        assert ("banded noise (not in training)" in setup_of(found)) != in_it


def test_too_few_reports_for_a_test_are_called_so(tmp_path: Path) -> None:
    """Most rounds are skipped, so that spans of rounds tell nothing; clients took part several times."""
    renewal = "population=[{devices: 10, availability: {kind: renewal, on: 20m, off: 3h}}]"
    server = "server={cohort: 3, pause: 10m, shortage: skip}"
    found = lines_of("stop={duration: 2d}", renewal, server, tmp_path=tmp_path)
    assert found[TRUST].text == "How much of a difference is chance cannot be said: the run has too few reports."
    assert "not tested with too few reports" in found[BIAS].line


def test_losses_that_are_the_same_but_for_rounding_do_not_differ(run: Run) -> None:
    loss = pl.when(optimizer="debiased_fedavg").then(242.0 * (1 + 1e-11)).otherwise(242.0)
    assert run.learning is not None
    same = changed(run, learning=run.learning.with_columns(loss=loss))
    ends = {"learning__fedavg__loss": 242.0, "learning__debiased_fedavg__loss": 242.0 * (1 + 1e-11)}
    found = compare_losses(with_metrics(same, **ends), ["debiased_fedavg"], "fedavg")
    assert [each.difference for each in found] == ["no difference"]


def test_a_question_about_the_start_is_answered_by_the_convergence_study(run: Run) -> None:
    asked = changed(run, scenario=run.scenario.model_copy(update={"question": "How fast is the start forgotten?"}))
    title = run_answer(asked).title.replace("\N{NO-BREAK SPACE}", " ").replace("\N{NARROW NO-BREAK SPACE}", " ")
    ends = "after 12 rounds at R = 2 and not within 30 rounds (1.2 % off) at R = 8"
    assert title == f"Participation comes within 1.0 % (TV) of its long-run shares {ends}."


@pytest.mark.parametrize(
    ("tv", "said"),
    [
        ([0.4, 0.005, 0.02, 0.004, 0.003], "after 4 rounds"),
        ([0.4, 0.005, 0.002, 0.004, 0.02], "not within 5 rounds (2.0 % off)"),
        ([0.0, 0.0, 0.0], "after 1 round"),
    ],
)
def test_the_start_is_forgotten_where_distances_stay_small(run: Run, tv: list[float], said: str) -> None:
    study = pl.DataFrame({"separation": 3, "round": range(len(tv)), "tv": tv, "method": "exact"})
    asked = replace(
        run,
        convergence=study,
        scenario=run.scenario.model_copy(update={"question": "How fast is the start forgotten?"}),
    )
    title = run_answer(asked).title.replace("\N{NO-BREAK SPACE}", " ").replace("\N{NARROW NO-BREAK SPACE}", " ")
    assert title == f"Participation comes within 1.0 % (TV) of its long-run shares {said} at R = 3."


@pytest.mark.parametrize(
    ("sweep", "first"), [("sweep={grid: {server.cohort: [2, 3]}}", True), ("sweep={seeds: 3}", False)]
)
def test_a_run_of_one_setting_points_to_the_others(sweep: str, first: bool, tmp_path: Path) -> None:
    found = lines_of("stop={rounds: 400}", "server={cohort: 3}", sweep, tmp_path=tmp_path)
    assert found[NEXT].text.startswith("Run all settings of the file's sweep: this run is one of them.") == first
