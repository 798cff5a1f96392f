"""Data that name their clients: unequal numbers of samples, both objectives, and partitions that follow the devices."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.special import logsumexp

from fedsim import Scenario, ScenarioError, simulate
from fedsim.common.keyed import Purpose, stream
from fedsim.learning import LearningError, LocalWork, build_problem
from fedsim.learning.problems.softmax_regression import SoftmaxRegression
from fedsim.run.preflight import preflight

COUNTS = np.array([3, 7, 5, 40])
NAMES = ["d", "a", "c", "b"]  # in the order of names the clients have 7, 40, 5 and 3 samples
SORTED = [7, 40, 5, 3]
TEST = 10


def arrays(seed: int = 0) -> dict[str, Any]:
    """Return samples of four clients, mixed, with 4 features and 3 labels."""
    draws = np.random.default_rng(seed)
    owners = draws.permutation(np.repeat(np.arange(4), COUNTS))
    x, y = draws.normal(size=(len(owners) + TEST, 4)), draws.integers(3, size=len(owners) + TEST)
    y[:3] = (0, 1, 2)
    train, test = slice(0, len(owners)), slice(len(owners), None)
    named = np.array(NAMES)[owners]
    return {"x_train": x[train], "y_train": y[train], "x_test": x[test], "y_test": y[test], "client_train": named}


def problem(folder: Path, kind: str = "softmax_regression", **options: Any) -> Any:
    np.savez(folder / "own.npz", **arrays())
    options = {"data": {"kind": "npz", "path": "own.npz"}, "l2": 0.1, **options}
    return build_problem(kind, options, clients=4, seed=0, folder=folder)


def objective(model: np.ndarray, client: str) -> float:
    """Return the softmax loss of one client, written out."""
    data = arrays()
    rows = data["client_train"] == client
    inputs = np.concatenate([data["x_train"][rows], np.ones((rows.sum(), 1))], axis=1)
    logits = inputs @ model.reshape(5, 3)
    losses = logsumexp(logits, axis=1) - logits[np.arange(rows.sum()), data["y_train"][rows]]
    return float(losses.mean() + 0.05 * model @ model)


@pytest.mark.parametrize(("objective_is", "weights"), [("clients", [1, 1, 1, 1]), ("samples", SORTED)])
def test_softmax_weighs_clients_alike_or_by_their_samples(
    tmp_path: Path, objective_is: str, weights: list[int]
) -> None:
    """Loss and gradient against each client's own loss; the mean of the clients' gradients is the gradient of F."""
    made: SoftmaxRegression = problem(tmp_path, objective=objective_is)
    model = np.random.default_rng(1).normal(size=15)
    losses = np.array([objective(model, name) for name in sorted(NAMES)])
    np.testing.assert_allclose(made.by_client(model)["loss"], losses)
    assert made.evaluate(model)["loss"] == pytest.approx(np.average(losses, weights=weights))
    each = made.gradients(np.arange(4), np.tile(model, (4, 1)))
    assert np.linalg.norm(each.mean(axis=0)) == pytest.approx(made.evaluate(model)["grad_norm"])
    step = 1e-6 * np.eye(15)
    numeric = [(objective(model + row, "a") - objective(model - row, "a")) / 2e-6 for row in step]
    factor = weights[0] / np.mean(weights)
    np.testing.assert_allclose(each[0], factor * np.array(numeric), atol=1e-8)
    np.testing.assert_allclose(made.evaluate(made.solve())["grad_norm"], 0, atol=1e-6)


@pytest.mark.extras
@pytest.mark.parametrize("objective_is", ["clients", "samples"])
@pytest.mark.parametrize("module", ["mlp", "tests.learning.data.test_natural:net"])
def test_a_network_has_the_same_numbers(tmp_path: Path, objective_is: str, module: str) -> None:
    """One layer is softmax regression; a module of one's own goes another way to its gradients."""
    pytest.importorskip("torch", reason="needs PyTorch, extra 'torch'")
    given: dict[str, Any] = {"arguments": {"hidden": []}} if module == "mlp" else {}
    net = problem(tmp_path, "torch", objective=objective_is, module=module, dtype="float64", **given)
    plain: SoftmaxRegression = problem(tmp_path, objective=objective_is)
    model = np.random.default_rng(1).normal(size=15)

    def as_softmax(flat: np.ndarray) -> np.ndarray:
        rows: np.ndarray = np.concatenate([flat[..., :12].reshape(-1, 3, 4), flat[..., 12:, None].reshape(-1, 3, 1)], 2)
        return rows.swapaxes(1, 2).reshape(-1, 15)

    there = as_softmax(model)[0]
    np.testing.assert_allclose(net.by_client(model)["loss"], plain.by_client(there)["loss"])
    np.testing.assert_allclose(net.by_client(model)["accuracy"], plain.by_client(there)["accuracy"])
    figures, expected = net.evaluate(model), plain.evaluate(there)
    assert [*figures.values()] == pytest.approx([*expected.values()])
    clients = np.array([3, 0, 1, 0])
    models = np.random.default_rng(2).normal(size=(4, 15))
    np.testing.assert_allclose(
        as_softmax(net.gradients(clients, models)), plain.gradients(clients, as_softmax(models)), atol=1e-12
    )
    drawn = np.array([[[2, 0], [6, 6], [39, 1], [0, 5]]])
    lengths = np.full(4, 0.1)
    taken = net.descend(clients, models, lengths, 1, drawn)
    slopes = plain.select(clients, drawn[0])(as_softmax(models))
    np.testing.assert_allclose(as_softmax(taken), -0.1 * slopes, atol=1e-12)


def net() -> Any:
    import torch

    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 3))


def test_minibatches_are_of_a_clients_own_samples(tmp_path: Path) -> None:
    """Each of a client's samples is as likely: 20,000 draws a client, chi-squared within five deviations."""
    made = problem(tmp_path)
    work = LocalWork.checked(made, 100, 0.1, 10)
    clients = np.array([3, 1, 0, 2])
    counted = [np.zeros(SORTED[client]) for client in clients]
    for number in range(20):
        drawn = work.minibatches(stream(0, 0, Purpose.OPTIMIZER), number, clients)
        assert drawn is not None
        for place in range(4):
            counted[place] += np.bincount(drawn[:, place].ravel(), minlength=len(counted[place]))
    for shares in counted:
        expected = 20_000 / len(shares)
        chi = ((shares - expected) ** 2 / expected).sum()
        assert abs(chi - (len(shares) - 1)) < 5 * np.sqrt(2 * (len(shares) - 1))


def test_parquet_has_the_same_clients(tmp_path: Path) -> None:
    data = arrays()
    rows = pl.DataFrame({"client": data["client_train"], "x": data["x_train"].tolist(), "y": data["y_train"]})
    test = pl.DataFrame({"client": ["a"] * TEST, "x": data["x_test"].tolist(), "y": data["y_test"]})
    split = pl.concat([rows.with_columns(split=pl.lit("train")), test.with_columns(split=pl.lit("test"))])
    split.write_parquet(tmp_path / "own.parquet")
    options = {"data": {"kind": "parquet", "path": "own.parquet"}, "l2": 0.1}
    there: Any = build_problem("softmax_regression", options, clients=4, seed=0, folder=tmp_path)
    model = np.random.default_rng(1).normal(size=15)
    assert there.evaluate(model) == problem(tmp_path).evaluate(model)
    assert there.counts.tolist() == SORTED
    rows.write_parquet(tmp_path / "own.parquet")
    held: Any = build_problem("softmax_regression", options, clients=3, seed=0, folder=tmp_path)
    assert held.counts.tolist() == [6, 32, 4]


def test_labels_follow_a_trait(tmp_path: Path) -> None:
    """Devices of the first half of the trait have other labels than those of the second, in whatever order they are."""
    y = np.repeat([0, 1], 40)
    np.savez(tmp_path / "own.npz", x_train=np.eye(80), y_train=y, x_test=np.eye(80), y_test=y)
    zone = np.array([1, 0, 0, 1, 0, 1, 1, 0])
    options = {"data": {"kind": "npz", "path": "own.npz"}, "partition": {"kind": "tied", "to": "time_zone"}}
    made: Any = build_problem(
        "softmax_regression", options, clients=8, seed=0, folder=tmp_path, traits={"time_zone": zone}
    )
    assert [set(y[made._members[client]]) for client in range(8)] == [{each} for each in zone]
    with pytest.raises(LearningError, match="the speed of devices is not known"):
        build_problem(
            "softmax_regression",
            {**options, "partition": {"kind": "tied", "to": "speed"}},
            clients=8,
            seed=0,
            folder=tmp_path,
        )


def scenario(folder: Path, devices: int = 4, **problem_options: Any) -> Path:
    learning = {
        "problem": {"kind": "softmax_regression", "data": {"kind": "npz", "path": "own.npz"}, **problem_options},
        "optimizers": ["fedavg", "scaffold"],
        "step_size": 0.1,
        "batch_size": 4,
    }
    np.savez(folder / "own.npz", **arrays())
    document = {"stop": {"rounds": 40}, "population": [{"devices": devices}], "server": {"cohort": 2}}
    file = folder / "own.fedsim.yaml"
    file.write_text(Scenario.model_validate({**document, "learning": learning}).model_dump_json(exclude_defaults=True))
    return file


def test_a_scenario_trains_on_it(tmp_path: Path) -> None:
    """The loss falls below that of guessing; the objective by samples is another one."""
    even, by_samples = (simulate(scenario(tmp_path, objective=each)).metrics for each in ("clients", "samples"))
    assert even["learning.fedavg.final_loss"] < np.log(3)
    assert even["learning.fedavg.loss"] != by_samples["learning.fedavg.loss"]


@pytest.mark.parametrize(
    ("devices", "damage", "words"),
    [
        (5, {}, "has 4 clients, and the scenario has 5 devices"),
        (4, {"client_train": np.zeros(3)}, "55 inputs to train on and 3 clients"),
    ],
)
def test_mistakes_in_the_data_are_told(tmp_path: Path, devices: int, damage: dict[str, Any], words: str) -> None:
    file = scenario(tmp_path, devices)
    np.savez(tmp_path / "own.npz", **{**arrays(), **damage})
    with pytest.raises(ScenarioError, match=words):
        simulate(file)


def test_a_table_that_lacks_a_column_is_told_before_the_run(tmp_path: Path) -> None:
    pl.DataFrame({"client": [1], "x": [1.0], "y": [0]}).write_parquet(tmp_path / "own.parquet")
    file = scenario(tmp_path, 1, data={"kind": "parquet", "path": "own.parquet"})
    with pytest.raises(ScenarioError, match="must have a list of numbers in every row"):
        preflight(Scenario.load(file))
    pl.DataFrame({"who": [1], "x": [[1.0]]}).write_parquet(tmp_path / "own.parquet")
    with pytest.raises(ScenarioError, match="lacks client, y; it has who, x"):
        preflight(Scenario.load(file))
