"""Learning over the log of a buffered server: against one that trains while it runs, and against its reductions."""

from collections.abc import Mapping

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedsim.common.keyed import Purpose, stream
from fedsim.learning import Cohort, Course, FedAvg, LocalWork, Optimizer, Trained, replay, replay_together
from fedsim.learning.cohorts import Cohorts
from fedsim.learning.optimizers.ace import Ace
from fedsim.learning.optimizers.amplified import AmplifiedFedAvg, AmplifiedScaffold
from fedsim.learning.optimizers.debiased_fedavg import DebiasedFedAvg, OracleWeighted, ParticipationCounts
from fedsim.learning.optimizers.fadas import Fadas
from fedsim.learning.optimizers.fedau import FedAu
from fedsim.learning.optimizers.fedawe import FedAwe
from fedsim.learning.optimizers.fedbuff import DebiasedFedBuff, FedBuff
from fedsim.learning.optimizers.focus import Focus
from fedsim.learning.optimizers.mifa import Area, FedVarp, Mifa
from fedsim.learning.optimizers.scaffold import Scaffold
from fedsim.learning.problems.quadratic import Quadratic as Curved
from fedsim.learning.problems.robust_regression import RobustRegression
from fedsim.learning.server_updates import Adam, Composed
from fedsim.scenario.learning import StagedSchedule

from .buffered import CASES, Case, buffered_tables, online, sessions_of
from .cases import Quadratic, quadratic, tables

EVERY: Mapping[str, Optimizer] = {
    "fedavg": FedAvg(),
    "debiased_fedavg": DebiasedFedAvg(),
    "oracle_weighted": OracleWeighted(pi=np.full(7, 1 / 7)),
    "fedvarp": FedVarp(),
    "fedau": FedAu(),
    "mifa": Mifa(),
    "scaffold": Scaffold(),
    "amplified_fedavg": AmplifiedFedAvg(4, 2.0),
    "amplified_scaffold": AmplifiedScaffold(4, 2.0),
    "focus": Focus(),
    "area": Area(),
    "ace": Ace(),
    "aced": Ace(max_age=2),
    "fedbuff": FedBuff(),
    "debiased_fedbuff": DebiasedFedBuff(),
    "fadas": Fadas(),
    "fedawe": FedAwe(),
    "adam": Composed(FedBuff(), Adam()),
}
ALIKE = Case(concurrency=3, buffer=3, alike=True, lost=0.0)


def train(
    case: Case, optimizers: Mapping[str, Optimizer], work: LocalWork | None = None, *, buffer: bool = True
) -> Trained:
    """Replay the log of a case."""
    draws = stream(1, 0, Purpose.OPTIMIZER)
    cohorts = Cohorts.read(*buffered_tables(case), case.clients, case.buffer if buffer else None)
    return replay_together(
        [Course(cohorts, optimizers, draws)], work or LocalWork.checked(quadratic(case.clients), 3, 0.1)
    )[0]


@settings(max_examples=40)
@given(case=CASES, exponent=st.sampled_from([0.0, 0.5, 2.0]), normalise=st.sampled_from(["buffer", "weights"]))
def test_fedbuff_is_what_a_server_does_that_trains_while_it_runs(case: Case, exponent: float, normalise: str) -> None:
    """Each client trains at its download in the one, at its report in the other: the same model."""
    rule = FedBuff(exponent, "buffer" if normalise == "buffer" else "weights")
    model = train(case, {"it": rule}).ends["it"].last
    expected = online(case, quadratic(case.clients), 3, 0.1, exponent, normalise)
    np.testing.assert_allclose(model, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", EVERY)
def test_full_buffers_of_equal_sessions_are_synchronous_rounds(name: str) -> None:
    """With buffer = concurrency = cohort: the same iterates to the last bit, whichever way the log is read."""
    buffered, synchronous = (train(ALIKE, {name: EVERY[name]}, buffer=by) for by in (True, False))
    assert buffered.past_versions == 0
    assert buffered.table.equals(synchronous.table)
    np.testing.assert_array_equal(buffered.ends[name].average, synchronous.ends[name].average)


@pytest.mark.parametrize("normalise", ["buffer", "weights"])
def test_over_synchronous_rounds_fedbuff_is_fedavg(normalise: str) -> None:
    """A staleness of 0 gives s = 1, and the mean of the changes, to the last bit."""
    rule = FedBuff(0.7, "buffer" if normalise == "buffer" else "weights")
    ends = train(ALIKE, {"fedbuff": rule, "fedavg": FedAvg()}, buffer=False).ends
    np.testing.assert_array_equal(ends["fedbuff"].last, ends["fedavg"].last)


@pytest.mark.parametrize("count", ["discounted", "reports"])
def test_over_synchronous_rounds_of_one_step_debiased_fedbuff_is_debiased_fedavg(count: str) -> None:
    """Scaling one local step and scaling the change are the same."""
    rule = DebiasedFedBuff(count="reports" if count == "reports" else "discounted")
    work = LocalWork.checked(quadratic(7), 1, 0.1)
    ends = train(ALIKE, {"it": rule, "paper": DebiasedFedAvg()}, work, buffer=False).ends
    np.testing.assert_allclose(ends["it"].last, ends["paper"].last, rtol=1e-10)


def test_without_a_discount_fedbuff_is_fedavg_over_the_same_reports() -> None:
    """The baseline that takes no notice of staleness."""
    ends = train(Case(), {"it": FedBuff(exponent=0.0), "fedavg": FedAvg()}).ends
    np.testing.assert_array_equal(ends["it"].last, ends["fedavg"].last)


def test_stale_reports_can_be_dropped() -> None:
    """The fresh ones alone make the step, or none if there are none."""
    rule = FedBuff(exponent=0.0, normalise="weights", max_staleness=1)
    deltas = np.array([[3.0], [5.0], [100.0]])
    for staleness, expected in (([0, 1, 2], 4.0), ([1, 7, 7], 3.0), ([2, 3, 4], 0.0)):
        cohort = Cohort(9, np.array([0, 1, 2]), np.array(staleness))
        assert rule.apply(None, np.zeros(1), cohort, deltas)[1].tolist() == [expected]


def pulls(case: Case, rule: Optimizer) -> NDArray[np.float64]:
    """Return with what weight each client has moved the model, its share of all: steps are the unit vectors."""

    class Straight(Quadratic):
        def gradients(self, clients: NDArray[np.int64], _models: NDArray[np.float64]) -> NDArray[np.float64]:
            return np.asarray(-self.centres[clients])

    work = LocalWork.checked(Straight(np.eye(case.clients)), 1, 1.0)
    moved = train(case, {"it": rule}, work).ends["it"].last
    return np.asarray(moved / moved.sum())


@pytest.mark.long
def test_debiased_fedbuff_pulls_evenly_and_fedbuff_does_not() -> None:
    """Slow clients report seldom and late; counting discounted reports makes up for both, counting reports for one.

    The share of client i is (sum of e nu) / (N times that of everyone), nu on its way to its limit: over 3,000 steps
    of 6 clients the running means are within 6 %; the biases shown are five times as large.
    """
    case = Case(clients=6, concurrency=4, buffer=2, versions=3000)
    weights = {
        "plain": pulls(case, FedBuff(2.0)),
        "reports": pulls(case, DebiasedFedBuff(2.0, count="reports")),
        "discounted": pulls(case, DebiasedFedBuff(2.0)),
        "weights": pulls(case, DebiasedFedBuff(2.0, "weights")),
    }
    off = {name: float(np.abs(6 * share - 1).max()) for name, share in weights.items()}
    assert off["discounted"] < 0.06
    assert off["weights"] < 0.06
    assert off["plain"] > off["reports"] > 0.3
    # The fastest are clients 0 and 3, the slowest 2 and 5.
    assert weights["plain"][[0, 3]].min() > weights["plain"][[1, 4]].max() > weights["plain"][[2, 5]].max()


def test_a_clip_bounds_the_weights_of_debiased_fedbuff() -> None:
    """nu_i <- min(nu_i, clip)."""
    cohort, deltas = Cohort(0, np.array([1, 1, 2])), np.eye(3)
    for clip, expected in ((None, [3 / 8, 3 / 8, 3 / 4]), (1.0, [3 / 8, 3 / 8, 3 / 4])):
        rule = DebiasedFedBuff(clip=clip)
        _, model = rule.apply(rule.init(4, 3), np.zeros(3), cohort, deltas)
        np.testing.assert_allclose(3 * model, expected)
    rule = DebiasedFedBuff(clip=1.5)
    _, model = rule.apply(rule.init(8, 3), np.zeros(3), Cohort(0, np.array([1, 1, 1, 1, 1, 1, 2])), np.eye(7)[:, 4:])
    np.testing.assert_allclose(7 * model, [7 / 48, 7 / 48, 7 / 8])
    _, model = rule.apply(rule.init(80, 1), np.zeros(1), Cohort(0, np.array([1])), np.ones((1, 1)))
    assert model.tolist() == [1 / 80]


@given(case=CASES)
@settings(max_examples=25)
def test_past_versions_are_kept_only_for_those_in_flight(case: Case) -> None:
    """At most as many as there are versions with a session running that will report; foreseen is what is used."""
    trained = train(case, {"it": FedAvg()})
    rounds, participations = buffered_tables(case)
    log = Cohorts.read(rounds, participations, case.clients, case.buffer)
    assert trained.past_versions == log.past_versions <= case.concurrency
    taken = participations.filter(outcome="reported")
    spans = zip(taken["round"].to_list(), (taken["round"] + taken["staleness"]).to_list(), strict=True)
    late = [(begun, step) for begun, step in spans if step > begun]
    expected = [len({begun for begun, step in late if begun < now <= step}) for now in range(case.versions)]
    assert trained.past_versions == max(expected)


def test_reports_of_a_buffer_that_never_filled_move_nothing() -> None:
    """The last version of a log has a row, and no step."""
    rounds, participations = buffered_tables(Case(versions=20))
    whole = train(Case(versions=20), {"it": FedBuff()})
    cut = participations.filter(~((pl.col("round") + pl.col("staleness") == 19) & (pl.col("outcome") == "reported")))
    one = participations.filter(pl.col("round") + pl.col("staleness") == 19).head(1)
    short = replay(
        quadratic(7), {"it": FedBuff()}, rounds, pl.concat([cut, one]), local_steps=3, step_size=0.1, buffer=2
    )
    assert short["loss"][:-1].to_list() == whole.table["loss"][:-1].to_list()
    assert short["loss"][-1] == short["loss"][-2] != whole.table["loss"][-1]


@pytest.mark.parametrize("batch_size", [None, 3])
def test_side_by_side_is_one_by_one_to_the_last_bit(batch_size: int | None) -> None:
    """Optimizers and logs, buffered and synchronous, do not see one another."""
    work = LocalWork.checked(RobustRegression(clients=7, seed=1, dimension=4, samples=6), 3, 0.1, batch_size)
    draws = stream(1, 0, Purpose.OPTIMIZER)
    courses = [
        Course(Cohorts.read(*buffered_tables(Case(versions=15)), 7, 2), EVERY, draws),
        Course(Cohorts.read(*buffered_tables(ALIKE), 7), EVERY, draws),
        Course(Cohorts.read(*tables([]), 7), {"it": FedAvg()}, draws),
        Course(Cohorts.read(*buffered_tables(Case(seed=5, buffer=3)), 7, 3), {"it": FedBuff(), "mifa": Mifa()}, draws),
    ]
    for trained, course in zip(replay_together(courses, work), courses, strict=True):
        for name, optimizer in course.optimizers.items():
            single = Course(course.cohorts, {name: optimizer}, draws)
            [alone] = replay_together([single], work)
            assert trained.table.filter(optimizer=name).equals(alone.table)
            np.testing.assert_array_equal(trained.ends[name].average, alone.ends[name].average)


def test_an_optimizer_that_diverges_leaves_the_others_alone() -> None:
    """Its last row is NaN, and it keeps no versions any more."""
    wild = Composed(FedBuff(), Adam(step_size=1e200))
    table = train(Case(), {"wild": wild, "it": FedBuff()}).table
    assert np.isnan(table.filter(optimizer="wild")["loss"][-1])
    assert table.filter(optimizer="it").equals(train(Case(), {"it": FedBuff()}).table)


def one_late_report(again: bool = False) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return a log of two versions: client 1 downloads version 0 and reports to version 1, as client 0 may do too."""
    rounds = pl.DataFrame({"round": [0, 1], "closed_s": [10.0, 20.0]})
    rows = [(0, 0, 0, 10.0, 0), (0, 0 if again else 1, 1, 20.0, 1)]
    names = ["round", "client", "position", "ended_s", "staleness"]
    return rounds, pl.DataFrame(rows, schema=names, orient="row").with_columns(outcome=pl.lit("reported"))


def test_a_client_goes_by_the_step_size_of_its_download() -> None:
    """The schedule has fallen by then, for those who download."""
    problem = quadratic(2)
    table = replay(
        problem,
        {"it": FedBuff(exponent=0.0)},
        *one_late_report(),
        local_steps=1,
        step_size=StagedSchedule(kind="stages", initial=0.5, milestones=[1], factor=0.01),
        buffer=1,
    )
    expected = problem.evaluate(0.5 * problem.centres[0] + 0.5 * problem.centres[1])
    assert table["loss"][-1] == pytest.approx(expected["loss"], rel=1e-12)


def test_two_sessions_with_one_version_draw_samples_apart() -> None:
    """The same client from the same model: without minibatches the same change, with them another."""
    problem = RobustRegression(clients=1, seed=2, dimension=3, samples=50)
    for batch_size, alike in ((None, True), (2, False)):
        cohorts = Cohorts.read(*one_late_report(again=True), 1, 1)
        course = Course(cohorts, {"it": FedAvg()}, stream(0, 0, Purpose.OPTIMIZER))
        [trained] = replay_together([course], LocalWork.checked(problem, 1, 0.1, batch_size))
        first = replay(
            problem,
            {"it": FedAvg()},
            *(table.head(1) for table in one_late_report()),
            local_steps=1,
            step_size=0.1,
            batch_size=batch_size,
        )
        doubled = problem.evaluate(2 * moved(problem, batch_size))
        assert (trained.table["loss"][-1] == pytest.approx(doubled["loss"], rel=1e-12)) is alike
        assert trained.table["loss"][1] == first["loss"][1]


def moved(problem: RobustRegression, batch_size: int | None) -> NDArray[np.float64]:
    """Return the first change of the only client."""
    work = LocalWork.checked(problem, 1, 0.1, batch_size)
    batches = work.minibatches(stream(0, 0, Purpose.OPTIMIZER), 0, np.array([0]))
    return np.asarray(work.updates(np.array([0]), np.zeros((1, 3)), np.array([0.1]), batches)[0])


def test_debiased_fedavg_scales_by_what_was_known_at_the_download() -> None:
    """Own reports up to now, for a client is in one session at a time; everyone's up to the version downloaded."""

    class Told(DebiasedFedAvg):
        def prepare(
            self, state: ParticipationCounts, cohort: Cohort
        ) -> tuple[ParticipationCounts, NDArray[np.float64]]:
            state, scales = super().prepare(state, cohort)
            factors.append(scales)
            return state, scales

    factors: list[NDArray[np.float64]] = []
    case = Case(buffer=1)
    train(case, {"it": Told()})
    taken = [(session, version) for session, version in sessions_of(case)[0] if session.reports]
    for (session, _), scales in zip(taken, factors, strict=True):
        count = sum(other.client == session.client and other.ended_s <= session.ended_s for other, _ in taken)
        assert scales.tolist() == [pytest.approx((session.version + 1) / (case.clients * count))]


def test_intervals_of_fedau_are_versions_between_reports() -> None:
    """Twice in a version is an interval of no length, so that the mean stays the inverse of the rate."""
    rule = FedAu(cutoff=None)
    state = rule.init(4, 1)
    for number, clients in enumerate([[0, 0], [1, 2], [0, 3]]):
        state, _ = rule.apply(state, np.zeros(1), Cohort(number, np.array(clients)), np.ones((2, 1)))
    assert (state.count[0], state.length[0]) == (3, 3)


def test_what_remembers_everyone_rests_where_all_weigh_the_same_however_late_reports_are() -> None:
    """To rounding: once what is remembered is what clients would do now, no order of reports moves the model."""
    problem, even, log = Curved(7, 1, dimension=3, curvature_spread=0.4), np.ones(7) / 7, Case(versions=1500)
    rules: dict[str, Optimizer] = {"mifa": Mifa(), "area": Area(), "ace": Ace(), "avg": FedAvg()}
    ends = train(log, rules, LocalWork.checked(problem, 4, 0.02)).ends
    rest = problem.rest(even, np.ones(7), local_steps=4, step_size=0.02)
    off = {name: float(np.linalg.norm(end.last - rest)) for name, end in ends.items()}
    assert max(off["mifa"], off["area"], off["ace"]) < 1e-9
    assert np.linalg.norm(ends["avg"].average - rest) > 0.1
