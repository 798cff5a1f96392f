import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

from fedsim.learning import Cohort, FedAvg, LearningError, Optimizer, replay
from fedsim.learning.optimizers.debiased_fedavg import DebiasedFedAvg
from fedsim.learning.problems.robust_regression import RobustRegression

from .cases import Quadratic, drawn_cohorts, quadratic, tables

BOTH: dict[str, Optimizer] = {"fedavg": FedAvg(), "debiased_fedavg": DebiasedFedAvg()}
COHORTS = [[0, 1], [2, 3], [4, 5], [0, 2], [1, 5]]


def run(
    cohorts: list[list[int]] = COHORTS,
    optimizers: Mapping[str, Optimizer] = BOTH,
    problem: Quadratic | None = None,
    evaluate_every: int = 1,
) -> pl.DataFrame:
    """Replay with settings that the test does not care about."""
    return replay(
        problem or quadratic(),
        optimizers,
        *tables(cohorts),
        local_steps=2,
        step_size=0.1,
        evaluate_every=evaluate_every,
    )


def test_the_table_has_a_row_for_each_round_and_optimizer() -> None:
    """Columns and types are those of the contract; rows go by round, then as the optimizers were given."""
    learning = run()
    assert learning.schema == pl.Schema(
        {"round": pl.Int32, "closed_s": pl.Float64, "optimizer": pl.String, "loss": pl.Float64, "grad_norm": pl.Float64}
    )
    assert learning["round"].to_list() == [t for t in range(-1, 5) for _ in BOTH]
    assert learning["closed_s"].to_list() == [60.0 * (t + 1) for t in range(-1, 5) for _ in BOTH]
    assert learning["optimizer"].to_list() == list(BOTH) * 6


def test_the_first_rows_are_the_initial_model() -> None:
    """Round -1 holds the model before any server step, the same for everyone."""
    start = run().filter(round=-1)
    assert start["loss"].to_list() == [quadratic().evaluate(np.zeros(3))["loss"]] * 2


@pytest.mark.parametrize(
    ("every", "expected"), [(1, [-1, 0, 1, 2, 3, 4]), (2, [-1, 1, 3, 4]), (5, [-1, 4]), (100, [-1, 4])]
)
def test_evaluation_after_every_so_many_rounds_and_at_the_end(every: int, expected: list[int]) -> None:
    """The rows of a sparse table are rows of the full one, the last round always among them."""
    sparse = run(evaluate_every=every)
    assert sparse["round"].unique(maintain_order=True).to_list() == expected
    assert sparse.equals(run().filter(pl.col("round").is_in(expected)))


def test_only_reports_train() -> None:
    """Dropped, late and aborted participations change nothing."""
    rounds, participations = tables([[0, 1], [2, 3]])
    more = participations.with_columns(client=pl.col("client") + 2, position=pl.col("position") + 2)
    lost = more.with_columns(outcome=pl.Series(["dropped", "late", "aborted", "dropped"]))
    losses, expected = (
        replay(quadratic(), BOTH, rounds, table, local_steps=1, step_size=0.1)
        for table in (pl.concat([participations, lost]), participations)
    )
    assert losses.equals(expected)


def test_outcomes_may_be_an_enumeration() -> None:
    """The log may store outcomes as text or as a polars Enum."""
    rounds, participations = tables(COHORTS)
    outcome = pl.col("outcome").cast(pl.Enum(["reported", "dropped", "late", "aborted"]))
    table = replay(quadratic(), BOTH, rounds, participations.with_columns(outcome), local_steps=2, step_size=0.1)
    assert table.equals(run())


def test_a_round_without_a_report_leaves_the_model_as_it_is() -> None:
    """Nor does such a round count for the estimated frequencies."""
    learning, dense = run([[0, 1], [], [2, 3], []]), run([[0, 1], [2, 3]])
    for name in BOTH:
        loss = learning.filter(optimizer=name)["loss"].to_list()
        assert loss[1] == loss[2]
        assert [loss[1], loss[3], loss[4]] == [*dense.filter(optimizer=name)["loss"][1:], loss[3]]


def test_the_order_of_rows_in_the_log_does_not_matter() -> None:
    """Rounds go by number, clients by position: sums are reproducible."""
    rounds, participations = tables(drawn_cohorts(30, clients=8, size=5))
    problem = RobustRegression(clients=8, seed=0, dimension=3, samples=4)
    straight = replay(problem, BOTH, rounds, participations, local_steps=2, step_size=0.1)
    reverse = replay(problem, BOTH, rounds.reverse(), participations.reverse(), local_steps=2, step_size=0.1)
    assert reverse.equals(straight)


def test_a_log_may_begin_anywhere() -> None:
    """Round numbers need be neither dense nor start at 0."""
    rounds, participations = (table.with_columns(round=3 * pl.col("round") + 7) for table in tables(COHORTS))
    learning = replay(quadratic(), BOTH, rounds, participations, local_steps=2, step_size=0.1)
    assert learning["round"].unique(maintain_order=True).to_list() == [-1, 7, 10, 13, 16, 19]
    assert learning["loss"].equals(run()["loss"])


def test_a_log_without_rounds_has_the_initial_model_alone() -> None:
    """Nothing happened, and the table says so."""
    assert run([])["round"].to_list() == [-1, -1]


def test_without_optimizers_the_table_is_empty() -> None:
    """The columns stay those of the contract."""
    learning = run(optimizers={})
    assert learning.columns == ["round", "closed_s", "optimizer", "loss", "grad_norm"]
    assert learning.is_empty()


class Measured(Quadratic):
    """A quadratic whose evaluation has an entry of its own."""

    def evaluate(self, model: NDArray[np.float64]) -> Mapping[str, float]:
        return {**super().evaluate(model), "length": float(np.linalg.norm(model))}


def test_what_else_a_problem_measures_becomes_a_column() -> None:
    """Further entries of the evaluation stand beside loss and gradient norm."""
    learning = run(problem=Measured(quadratic().centres))
    assert learning.columns[3:] == ["loss", "grad_norm", "length"]
    assert learning["length"][0] == 0.0 < learning["length"][-1]


@dataclass(frozen=True)
class Exploding:
    """FedAvg until a round, in which its model overflows."""

    at: int

    def init(self, _clients: int, _dimension: int) -> None:
        return None

    def prepare(self, _state: None, cohort: Cohort) -> tuple[None, NDArray[np.float64]]:
        return None, np.ones(len(cohort.clients))

    def apply(
        self, _state: None, model: NDArray[np.float64], cohort: Cohort, deltas: NDArray[np.float64]
    ) -> tuple[None, NDArray[np.float64]]:
        return None, (model + deltas.mean(axis=0)) * (np.inf if cohort.round == self.at else 1.0)


@pytest.mark.parametrize("every", [1, 4])
def test_an_optimizer_that_diverges_stops_and_the_others_go_on(every: int) -> None:
    """Its last row says NaN, at the round in which it happened; the others do not notice."""
    learning = run(optimizers={"boom": Exploding(at=2), **BOTH}, evaluate_every=every)
    boom = learning.filter(optimizer="boom")
    assert boom["round"].max() == 2
    assert math.isnan(boom["loss"][-1])
    assert math.isnan(boom["grad_norm"][-1])
    assert boom["loss"][:-1].is_finite().all()
    assert learning.filter(pl.col("optimizer") != "boom").equals(run(evaluate_every=every))


def test_a_loss_that_overflows_is_divergence_too() -> None:
    """A step size of 1e60 keeps the model finite for a while, and its square not."""
    learning = replay(quadratic(), BOTH, *tables(COHORTS * 3), local_steps=2, step_size=1e60)
    for name in BOTH:
        loss = learning.filter(optimizer=name)["loss"]
        assert len(loss) < 16
        assert math.isnan(loss[-1])
        assert loss[:-1].is_finite().all()


def test_everyone_may_diverge() -> None:
    """The replay ends all the same, and progress is reported to the end."""
    done: list[int] = []
    learning = replay(
        quadratic(), {"boom": Exploding(at=0)}, *tables(COHORTS), local_steps=1, step_size=0.1, progress=done.append
    )
    assert learning["round"].to_list() == [-1, 0]
    assert done == [1, 2, 3, 4, 5]


HERE = r"\(tests/learning/test_train\.py:\d+\)$"


class FailingGradients(Quadratic):
    def gradients(self, clients: NDArray[np.int64], models: NDArray[np.float64]) -> NDArray[np.float64]:
        raise ZeroDivisionError(f"no gradient today for {clients[0]} at {models[0]}")


class FailingEvaluation(Quadratic):
    def evaluate(self, model: NDArray[np.float64]) -> Mapping[str, float]:
        return {"loss": 0.0} if model.any() else super().evaluate(model)


class NoLoss(Quadratic):
    def evaluate(self, model: NDArray[np.float64]) -> Mapping[str, float]:
        return {"accuracy": model.sum()}


class InfiniteStart(Quadratic):
    def evaluate(self, model: NDArray[np.float64]) -> Mapping[str, float]:
        return {"loss": math.inf, "grad_norm": model.sum()}


class FlatStart(Quadratic):
    def initial(self) -> NDArray[np.float64]:
        return np.zeros(1)


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        (FailingGradients, r"^problem, round 0: ZeroDivisionError: no gradient today for 0 at \[0. 0. 0.\] " + HERE),
        (
            FailingEvaluation,
            r"^problem, evaluation of optimizer 'fedavg', round 0: "
            r"the evaluation has the entries loss; expected grad_norm, loss " + HERE,
        ),
        (NoLoss, r"round -1: the evaluation has the entries accuracy; expected accuracy, grad_norm, loss " + HERE),
        (InfiniteStart, r"^problem: the loss of the initial model is not finite " + HERE),
        (FlatStart, r"^problem, initial model: the model has the shape \(1,\), expected \(3,\) " + HERE),
    ],
)
def test_a_problem_that_fails_is_named(problem: type[Quadratic], message: str) -> None:
    """The message says what failed, in which round, and how."""
    with pytest.raises(LearningError, match=message):
        run(problem=problem(quadratic().centres))


class FailingInit(FedAvg):
    def init(self, _clients: int, _dimension: int) -> None:
        raise MemoryError("too many clients")


class FailingApply(FedAvg):
    def apply(
        self, _state: None, model: NDArray[np.float64], cohort: Cohort, _deltas: NDArray[np.float64]
    ) -> tuple[None, NDArray[np.float64]]:
        if cohort.round < 3:
            return None, model
        raise KeyError("momentum")


class OneScale(FedAvg):
    def prepare(self, _state: None, _cohort: Cohort) -> tuple[None, NDArray[np.float64]]:
        return None, np.ones(1)


class MatrixModel(FedAvg):
    def apply(
        self, _state: None, model: NDArray[np.float64], _cohort: Cohort, deltas: NDArray[np.float64]
    ) -> tuple[None, NDArray[np.float64]]:
        return None, model + deltas


@pytest.mark.parametrize(
    ("optimizer", "message"),
    [
        (FailingInit(), r"^optimizer 'mine', init: MemoryError: too many clients " + HERE),
        (FailingApply(), r"^optimizer 'mine', apply, round 3: KeyError: 'momentum' " + HERE),
        (
            OneScale(),
            r"^optimizer 'mine', prepare, round 0: "
            r"the array of scales has the shape \(1,\), expected \(2,\) " + HERE,
        ),
        (
            MatrixModel(),
            r"^optimizer 'mine', apply, round 0: the model has the shape \(2, 3\), expected \(3,\) " + HERE,
        ),
    ],
)
def test_an_optimizer_that_fails_is_named(optimizer: Optimizer, message: str) -> None:
    """The message has the name that the scenario gave it, the method, and the round."""
    with pytest.raises(LearningError, match=message):
        run(optimizers={"fedavg": FedAvg(), "mine": optimizer})


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ({"local_steps": 0}, "local_steps must be at least 1, got 0"),
        ({"step_size": 0.0}, r"step_size must be positive and finite, got 0\.0"),
        ({"step_size": math.nan}, "step_size must be positive and finite, got nan"),
        ({"step_size": math.inf}, "step_size must be positive and finite, got inf"),
        ({"evaluate_every": 0}, "evaluate_every must be at least 1, got 0"),
    ],
)
def test_numbers_out_of_range_are_refused(numbers: dict[str, float], message: str) -> None:
    """Each with the value that was given."""
    settings: dict[str, float] = {"local_steps": 1, "step_size": 0.1, **numbers}
    with pytest.raises(LearningError, match=message):
        replay(quadratic(), BOTH, *tables(COHORTS), **settings)  # type: ignore[arg-type]
