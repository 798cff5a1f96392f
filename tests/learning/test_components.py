import re
from pathlib import Path

import numpy as np
import pytest

from fedsim.learning import (
    OPTIMIZERS,
    PROBLEMS,
    FedAvg,
    LearningError,
    build_optimizer,
    build_problem,
    check_optimizer,
    replay,
)
from fedsim.learning.optimizers.debiased_fedavg import DebiasedFedAvg
from fedsim.learning.problems.robust_regression import RobustRegression

from .cases import tables

LINE = re.compile(r" \(\S+\.py:\d+\)$")  # where the user's code is; tests/test_faulty_plugins.py has the lines

MODULE = '''
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from pydantic import Field


@dataclass(frozen=True)
class Momentum:
    """The server keeps a running mean of the changes."""

    beta: Annotated[float, Field(ge=0, lt=1)]
    mode: Literal["heavy ball", "nesterov"] = "heavy ball"
    layers: list[Annotated[int, Field(ge=1)]] | None = None

    def init(self, clients, dimension):
        return np.zeros(dimension)

    def prepare(self, state, cohort):
        return state, np.ones(len(cohort.clients))

    def apply(self, state, model, cohort, deltas):
        state = self.beta * state + deltas.mean(axis=0)
        return state, model + state


class Loose(Momentum):
    """Takes whatever it is given, without a word about types."""

    def __init__(self, beta, **rest):
        object.__setattr__(self, "beta", beta)
        if rest:
            raise ValueError(f"no use for {sorted(rest)}")


class Forward(Momentum):
    def __init__(self, beta: "NotAType"):
        object.__setattr__(self, "beta", beta)


class Handle:
    pass


class Opaque(Momentum):
    def __init__(self, handle: Handle, beta: float = 0.5):
        object.__setattr__(self, "beta", beta)


class Half:
    def init(self, clients, dimension): ...


def function(): ...


class Origin:
    """Everyone wants the model to be zero."""

    def __init__(self, clients: int, seed: int, dimension: int = 2):
        self.clients, self.seed, self.dimension = clients, seed, dimension

    def initial(self):
        return np.ones(self.dimension)

    def gradients(self, clients, models):
        return models

    def evaluate(self, model):
        return {"loss": model @ model / 2, "grad_norm": np.sqrt(model @ model)}


class Seedless(Origin):
    def __init__(self, dimension: int = 2):
        super().__init__(1, 0, dimension)


class Miscounted(Origin):
    def __init__(self, clients: int, seed: int):
        super().__init__(clients + 1, seed)


class Shapeless(Origin):
    def __init__(self, clients: int, seed: int):
        super().__init__(clients, seed)
        del self.dimension
'''


@pytest.fixture(autouse=True)
def _plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_plugins.py").write_text(MODULE)
    (tmp_path / "my_broken_syntax.py").write_text("def broken(:\n")
    (tmp_path / "my_broken_import.py").write_text("import my_missing_dependency\n")
    (tmp_path / "my_broken_start.py").write_text("raise RuntimeError('no licence')\n")
    monkeypatch.syspath_prepend(str(tmp_path))


def test_registered_kinds_are_built_by_name() -> None:
    """Every registered name gives its class."""
    assert build_optimizer("fedavg", {}) == FedAvg()
    assert build_optimizer("debiased_fedavg", {}) == DebiasedFedAvg()
    problem = build_problem("robust_regression", {"samples": 5, "data_seed": 3}, clients=4, seed=7)
    assert isinstance(problem, RobustRegression)
    assert (problem.clients, problem.samples, problem.dimension, problem.seed) == (4, 5, 20, 7)


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_registered_optimizers_need_no_options(kind: str) -> None:
    """A scenario may name them alone."""
    assert check_optimizer(kind, {}) == []


@pytest.mark.extras
@pytest.mark.parametrize("kind", PROBLEMS)
def test_registered_problems_need_no_options(kind: str) -> None:
    """A scenario may name them alone."""
    if kind == "torch":
        pytest.importorskip("torch", reason="needs PyTorch, extra 'torch'")
    assert PROBLEMS.check(kind, {}) == []


def test_a_users_own_classes_train() -> None:
    """A module of the user's gives problem and optimizer, and the replay runs them."""
    assert PROBLEMS.check("my_plugins:Origin", {"dimension": 3}) == []
    assert check_optimizer("my_plugins:Momentum", {"beta": 0.5}) == []
    problem = build_problem("my_plugins:Origin", {"dimension": 3}, clients=2, seed=0)
    optimizer = build_optimizer("my_plugins:Momentum", {"beta": 0.5})
    learning = replay(problem, {"mine": optimizer}, *tables([[0], [1]]), local_steps=1, step_size=0.1)
    # x = 1; then -0.1, so 0.9; then -0.09 with half of the first change on top, so 0.76.
    np.testing.assert_allclose(learning["loss"], 1.5 * np.array([1.0, 0.9, 0.76]) ** 2)


def test_whole_numbers_serve_as_real_ones() -> None:
    """beta: 0 is as good as beta: 0.0."""
    assert check_optimizer("my_plugins:Momentum", {"beta": 0}) == []


def test_what_cannot_be_checked_is_left_to_the_constructor() -> None:
    """Arguments without types, with unknown ones, or with types that pydantic has no validator for."""
    assert check_optimizer("my_plugins:Loose", {"beta": "x"}) == []
    assert check_optimizer("my_plugins:Forward", {"beta": "x"}) == []
    assert check_optimizer("my_plugins:Opaque", {"handle": 3}) == []
    assert check_optimizer("my_plugins:Opaque", {"handle": 3, "beta": "x"})[0][0] == ("beta",)


OWN = "and your own as my_package.my_module:MyClass"
ALL = f"known are {', '.join(sorted(OPTIMIZERS))}, {OWN}"


@pytest.mark.parametrize(
    ("kind", "options", "path", "message"),
    [
        (
            "debiased_fedavgg", {}, ("kind",),
            "unknown optimizer 'debiased_fedavgg'; did you mean 'debiased_fedavg'?; "
            f"{ALL}",
        ),
        ("sgd", {}, ("kind",), f"unknown optimizer 'sgd'; {ALL}"),
        (7, {}, ("kind",), "must be the name of an optimizer, got 7"),
        (
            "fedavg", {"momentum": 0.9}, ("momentum",),
            "unknown option 'momentum'; optimizer 'fedavg' has no options of its own; every optimizer has name, "
            "local_step_size, server, update_clip",
        ),
        (
            "my_plugins:Momentum", {"beta": 0.5, "mod": "nesterov"}, ("mod",),
            "unknown option 'mod'; did you mean 'mode'?; known are beta, layers, mode; every optimizer has name, "
            "local_step_size, server, update_clip",
        ),
        ("my_plugins:Momentum", {}, ("beta",), "missing; optimizer 'my_plugins:Momentum' needs it"),
        ("my_plugins:Momentum", {"beta": "much"}, ("beta",), "must be a valid number, got 'much'"),
        ("my_plugins:Momentum", {"beta": True}, ("beta",), "must be a valid number, got True"),
        ("my_plugins:Momentum", {"beta": 1.5}, ("beta",), "must be less than 1, got 1.5"),
        (
            "my_plugins:Momentum", {"beta": 0.5, "mode": "light ball"}, ("mode",),
            "must be 'heavy ball' or 'nesterov', got 'light ball'",
        ),
        (
            "my_plugins:Momentum", {"beta": 0.5, "layers": [3, 0]}, ("layers", 1),
            "must be greater than or equal to 1, got 0",
        ),
        (
            "my_plugins", {}, ("kind",),
            f"unknown optimizer 'my_plugins'; {ALL}",
        ),
        ("my_plugins:", {}, ("kind",), "'my_plugins:' is not of the form my_package.my_module:MyClass"),
        ("my plugins:X", {}, ("kind",), "'my plugins:X' is not of the form my_package.my_module:MyClass"),
        (
            "my_plugin:Momentum", {}, ("kind",),
            "cannot import 'my_plugin': No module named 'my_plugin'; "
            "is its folder on PYTHONPATH, or is it installed?",
        ),
        (
            "my_broken_import:X", {}, ("kind",),
            "cannot import 'my_broken_import': No module named 'my_missing_dependency'",
        ),
        (
            "my_broken_syntax:X", {}, ("kind",),
            "cannot import 'my_broken_syntax': SyntaxError: invalid syntax",
        ),
        (
            "my_broken_start:X", {}, ("kind",),
            "cannot import 'my_broken_start': RuntimeError: no licence",
        ),
        (
            "my_plugins:Momentun", {}, ("kind",),
            "module 'my_plugins' has no 'Momentun'; did you mean 'Momentum'?",
        ),
        ("my_plugins:MODULE", {}, ("kind",), "module 'my_plugins' has no 'MODULE'"),
        (
            "my_plugins:Half", {}, ("kind",),
            "'my_plugins:Half' cannot be the optimizer: it lacks the methods apply, prepare; "
            "see fedsim.learning.optimizers.optimizer.Optimizer",
        ),
    ],
)  # fmt: skip
def test_mistakes_in_the_choice_of_an_optimizer(
    kind: str, options: dict[str, object], path: tuple[str | int, ...], message: str
) -> None:
    """Each is found alone, at its place, with the offending value and a remedy."""
    assert [(at, LINE.sub("", text)) for at, text in check_optimizer(kind, options)] == [(path, message)]
    with pytest.raises(LearningError) as caught:
        build_optimizer(kind, options)
    assert message in str(caught.value)


def test_something_that_is_not_a_class() -> None:
    """A function cannot be the optimizer."""
    [(path, message)] = check_optimizer("my_plugins:function", {})
    assert path == ("kind",)
    assert message.startswith("'my_plugins:function' must be a class, got <function function at")


@pytest.mark.parametrize(
    ("kind", "options", "path", "message"),
    [
        (
            "robust_regresion", {}, ("kind",),
            "unknown problem 'robust_regresion'; did you mean 'robust_regression'?; "
            f"known are {', '.join(sorted(PROBLEMS))}, {OWN}",
        ),
        (
            "robust_regression", {"sampels": 3}, ("sampels",),
            "unknown option 'sampels'; did you mean 'samples'?; known are alpha, data_seed, dimension, order, samples",
        ),
        ("robust_regression", {"samples": 0}, ("samples",), "must be greater than or equal to 1, got 0"),
        ("robust_regression", {"dimension": 2.5}, ("dimension",), "must be a valid integer, got 2.5"),
        ("robust_regression", {"dimension": "20"}, ("dimension",), "must be a valid integer, got '20'"),
        (
            "robust_regression", {"data_seed": -1}, ("data_seed",),
            "must be greater than or equal to 0, got -1",
        ),
        (
            "robust_regression", {"seed": 3}, ("seed",),
            "'seed' is not an option: the scenario gives it to every problem",
        ),
        (
            "my_plugins:Seedless", {}, ("kind",),
            "the constructor of 'my_plugins:Seedless' must accept clients= and seed=",
        ),
        (
            "my_plugins:Momentum", {"beta": 0.5}, ("kind",),
            "'my_plugins:Momentum' cannot be the problem: it lacks the methods evaluate, gradients, initial; "
            "see fedsim.learning.problems.problem.Problem",
        ),
    ],
)  # fmt: skip
def test_mistakes_in_the_choice_of_a_problem(
    kind: str, options: dict[str, object], path: tuple[str | int, ...], message: str
) -> None:
    """As for optimizers."""
    assert [(at, LINE.sub("", text)) for at, text in PROBLEMS.check(kind, options)] == [(path, message)]
    with pytest.raises(LearningError) as caught:
        build_problem(kind, options, clients=3, seed=0)
    assert message in str(caught.value)


def test_several_mistakes_are_found_at_once() -> None:
    """In the order of the options, those that are missing last."""
    findings = check_optimizer("my_plugins:Momentum", {"mode": 1, "layers": ["a", 0], "colour": "red"})
    assert [path for path, _ in findings] == [("mode",), ("layers", 0), ("layers", 1), ("colour",), ("beta",)]


def test_a_constructor_that_fails_is_named() -> None:
    """What the checks let through is reported when the object is built, with the user's own message."""
    with pytest.raises(
        LearningError,
        match=r"^optimizer 'my_plugins:Loose': ValueError: no use for \['gamma'\] \(.*my_plugins.py:\d+\)$",
    ):
        build_optimizer("my_plugins:Loose", {"beta": 0.5, "gamma": 1})


def test_a_problem_for_another_population_is_refused() -> None:
    """It must have as many clients as it was asked for."""
    with pytest.raises(LearningError, match=r"problem 'my_plugins:Miscounted' says .* 4 clients, not 3"):
        build_problem("my_plugins:Miscounted", {}, clients=3, seed=0)


def test_a_problem_without_a_dimension_is_refused() -> None:
    """Attributes are looked at as soon as the object is there."""
    with pytest.raises(LearningError, match=r"problem 'my_plugins:Shapeless': AttributeError: .*dimension"):
        build_problem("my_plugins:Shapeless", {}, clients=3, seed=0)
