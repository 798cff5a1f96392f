import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fedsim.common.keyed import Purpose, stream
from fedsim.learning import PROBLEMS, FedAvg, LearningError, build_problem, replay
from fedsim.learning.problems.torch_module import TorchModule

from ..cases import drawn_cohorts, tables

torch = pytest.importorskip("torch", reason="needs PyTorch, extra 'torch'")
pytestmark = pytest.mark.extras

MODULES = '''
import torch

class Line(torch.nn.Module):
    """One output; not a classifier."""
    def __init__(self, inputs, noise=0.0):
        super().__init__()
        self.linear = torch.nn.Linear(inputs, 1)
    def forward(self, x):
        return self.linear(x).squeeze(-1)

class Normed(torch.nn.Sequential):
    def __init__(self):
        super().__init__(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3))

class NoParameters(torch.nn.Flatten):
    pass

def absolute(outputs, targets):
    return (outputs - targets).abs().mean()
'''


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Four clients' data, five samples of three features each, with labels and with numbers."""
    draws = stream(1, 0, Purpose.PROBLEM)
    inputs, labels = draws.normals(np.arange(20)[:, None], np.arange(3)), np.arange(20) % 3
    for name, targets in (("labels", labels), ("numbers", labels / 2)):
        np.savez(tmp_path / f"{name}.npz", x_train=inputs, y_train=targets, x_test=inputs[:6], y_test=targets[:6])
    (tmp_path / "my_torch_modules.py").write_text(MODULES)
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("my_torch_modules", None)
    return tmp_path


def build(folder: Path, data: str = "labels", **options: Any) -> TorchModule:
    choice = {"data": {"kind": "npz", "path": f"{data}.npz"}, "partition": "iid", "dtype": "float64", **options}
    problem = build_problem("torch", choice, clients=4, seed=3, folder=folder)
    assert isinstance(problem, TorchModule)
    return problem


def slope(problem: TorchModule, client: int, model: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the gradient of f_i by ordinary autograd: parameters set, loss.backward()."""
    module = problem._module
    torch.nn.utils.vector_to_parameters(torch.from_numpy(model), module.parameters())
    module.zero_grad()
    rows = problem._members[client]
    problem._loss(module(problem._inputs[rows]), problem._targets[rows]).backward()
    parts = [parameter.grad.reshape(-1) for parameter in module.parameters()]
    return np.asarray(torch.cat(parts).numpy())


def test_clients_together_have_the_gradients_of_each_alone(folder: Path) -> None:
    """Vmap over a cohort, one client twice with different models, against backward() client by client."""
    problem = build(folder, arguments={"hidden": [4, 5]})
    assert problem.dimension == 3 * 4 + 4 + 4 * 5 + 5 + 5 * 3 + 3
    models = stream(4, 0, Purpose.OPTIMIZER).normals(np.arange(4)[:, None], np.arange(problem.dimension))
    clients = np.array([2, 0, 2, 3])
    together = problem.gradients(clients, models)
    for row, client, model in zip(together, clients, models, strict=True):
        np.testing.assert_allclose(row, slope(problem, client, model), rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("hidden", [[], [4], [6, 5, 4]])
def test_a_dense_network_is_what_differentiation_says(folder: Path, hidden: list[int]) -> None:
    """Written-out backpropagation against torch.func.grad: gradients, loss over all samples in several parts, l2."""
    problem = build(folder, arguments={"hidden": hidden}, l2=0.1)
    dense = problem._dense
    assert dense is not None
    models = stream(5, 0, Purpose.OPTIMIZER).normals(np.arange(3)[:, None], np.arange(problem.dimension))
    clients, tensor = np.array([1, 0, 1]), torch.as_tensor(models)
    chosen = problem._members[clients]
    slopes = problem._each(tensor, problem._inputs[chosen], problem._targets[chosen])
    np.testing.assert_allclose(problem.gradients(clients, models), slopes, rtol=1e-10, atol=1e-14)
    rows = problem._members.reshape(-1)
    loss, slope = dense.total(tensor[0], ((problem._inputs[part], problem._targets[part]) for part in rows.split(7)))

    def whole(x: Any) -> Any:
        return problem._objective(x, problem._inputs[rows], problem._targets[rows])

    assert loss == pytest.approx(float(whole(tensor[0])), rel=1e-12)
    np.testing.assert_allclose(slope, torch.func.grad(whole)(tensor[0]), rtol=1e-10, atol=1e-14)


def test_a_loss_of_ones_own_is_differentiated(folder: Path) -> None:
    assert build(folder, loss="nll_loss")._dense is None
    assert (
        build(folder, "numbers", module="my_torch_modules:Line", arguments={"inputs": 3}, loss="mse_loss")._dense
        is None
    )


@pytest.mark.parametrize("loss", ["cross_entropy", "nll_loss"])
@pytest.mark.parametrize("minibatches", [None, np.array([[[0, 1], [2, 3]], [[4, 4], [1, 0]], [[3, 2], [0, 0]]])])
def test_local_steps_in_the_module_are_those_of_its_gradients(folder: Path, loss: str, minibatches: Any) -> None:
    problem = build(folder, arguments={"hidden": [4]}, loss=loss)
    clients, sizes = np.array([3, 1]), np.array([0.1, 0.4])
    local = start = np.tile(problem.initial(), (2, 1))
    for step in range(3):
        batch = None if minibatches is None else minibatches[step]
        local = local - sizes[:, None] * problem.select(clients, batch)(local)
    changes = problem.descend(clients, start, sizes, 3, minibatches)
    np.testing.assert_allclose(changes, local - start, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("l2", [0.0, 0.1])
@pytest.mark.parametrize("hidden", [[], [4], [6, 5]])
def test_few_samples_of_many_features_take_the_same_steps(folder: Path, hidden: list[int], l2: float) -> None:
    """Descent in the span of a client's samples, some of which are equal or zero, is descent on all weights."""
    inputs = stream(6, 0, Purpose.PROBLEM).normals(np.arange(20)[:, None], np.arange(48))
    inputs[3:9], inputs[9:12] = inputs[3], 0.0
    np.savez(folder / "wide.npz", x_train=inputs, y_train=np.arange(20) % 3, x_test=inputs, y_test=np.arange(20) % 3)
    problem = build(folder, "wide", arguments={"hidden": hidden}, l2=l2)
    assert (problem._spans is None) == bool(l2)
    clients, sizes = np.array([3, 1, 0, 2, 3]), np.array([0.1, 0.4, 0.2, 0.3, 0.2])
    local = start = stream(7, 0, Purpose.OPTIMIZER).normals(np.arange(5)[:, None], np.arange(problem.dimension))
    for _ in range(4):
        local = local - sizes[:, None] * problem.gradients(clients, local)
    np.testing.assert_allclose(problem.descend(clients, start, sizes, 4), local - start, rtol=1e-9, atol=1e-12)


def test_gradients_are_the_slopes_of_the_loss(folder: Path) -> None:
    """Central differences of F against the mean of the clients' gradients, the l2 term included."""
    problem = build(folder, arguments={"hidden": [4]}, l2=0.1)
    model = problem.initial() + 0.3
    mean = problem.gradients(np.arange(4), np.tile(model, (4, 1))).mean(axis=0)
    differences = [
        (problem.evaluate(model + e)["loss"] - problem.evaluate(model - e)["loss"]) / 2e-5
        for e in 1e-5 * np.eye(problem.dimension)
    ]
    np.testing.assert_allclose(mean, differences, rtol=1e-5, atol=1e-8)
    assert problem.evaluate(model)["grad_norm"] == pytest.approx(np.linalg.norm(mean))


def test_a_module_and_a_loss_of_ones_own(folder: Path) -> None:
    """Numbers as targets, a module by name with arguments, a loss by name."""
    options: dict[str, Any] = {
        "module": "my_torch_modules:Line",
        "arguments": {"inputs": 3},
        "loss": "my_torch_modules:absolute",
    }
    problem = build(folder, "numbers", **options)
    assert problem.dimension == 4
    model = np.array([0.5, -0.5, 0.25, 0.1])
    inputs, targets = problem._inputs.numpy(), problem._targets.numpy()
    owned = problem._members.numpy()
    assert problem.evaluate(model) == {
        "loss": pytest.approx(np.abs(inputs[owned] @ model[:3] + 0.1 - targets[owned]).mean()),
        "grad_norm": pytest.approx(problem.evaluate(model)["grad_norm"]),
    }
    assert build(folder, "numbers", **options | {"loss": "mse_loss"}).evaluate(model)["loss"] > 0


def test_it_starts_the_same_whatever_else_draws(folder: Path) -> None:
    """Initial parameters are a function of the seed, and PyTorch's own random state is left alone."""
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    first = build(folder).initial()
    assert torch.equal(torch.random.get_rng_state(), before)
    torch.rand(3)
    np.testing.assert_array_equal(build(folder).initial(), first)
    assert not np.array_equal(build(folder, data_seed=4).initial(), first)


@pytest.mark.parametrize("batch_size", [None, 2])
def test_it_trains(folder: Path, batch_size: int | None) -> None:
    """Through the replay, with full gradients and with minibatches; float32 follows float64."""
    losses = []
    for dtype in ("float64", "float32"):
        problem = build(folder, dtype=dtype, arguments={"hidden": [6, 6]})
        log = tables(drawn_cohorts(40, 4, 2))
        learning = replay(problem, {"it": FedAvg()}, *log, local_steps=3, step_size=0.05, batch_size=batch_size)
        losses.append(learning["loss"].to_numpy())
    assert losses[0].min() < losses[0][0]
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"module": "my_torch_modules:Normed"}, "layer '1' is a BatchNorm1d: its output depends on more"),
        ({"module": "my_torch_modules:NoParameters"}, "has no parameters to train"),
        (
            {"module": "my_torch_modules:absolute", "arguments": {"outputs": 1, "targets": 2}},
            r"AttributeError|must make",
        ),
        ({"module": "my_torch_modules:Lime"}, "cannot find 'my_torch_modules:Lime'"),
        ({"module": "no_such_module:Net"}, "cannot find 'no_such_module:Net'"),
        ({"module": "my_torch_modules:Line"}, r"TypeError: .*inputs"),
        ({"loss": "cross_entrpy"}, "loss 'cross_entrpy' is no function of torch.nn.functional"),
        ({"device": "warp9"}, "device 'warp9' cannot be used"),
    ],
)
def test_what_cannot_be_built_is_told(folder: Path, options: dict[str, Any], message: str) -> None:
    """By name, with the reason."""
    with pytest.raises(LearningError, match=message):
        build(folder, **options)


def test_mistakes_are_found_without_building() -> None:
    """Types of options are checked like those of any problem."""
    choice = {"data": {"kind": "npz", "path": "x"}}
    assert PROBLEMS.check("torch", choice | {"l2": -1}) == [(("l2",), "must be greater than or equal to 0, got -1")]
    assert PROBLEMS.check("torch", choice | {"devize": "cpu"})[0][0] == ("devize",)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_follows_the_cpu(folder: Path) -> None:
    """device: auto takes the GPU, and trains to the same losses."""
    on_gpu, on_cpu = build(folder), build(folder, device="cpu")
    assert on_gpu._device.type == "cuda"
    models = np.tile(on_cpu.initial(), (3, 1))
    clients = np.array([0, 1, 3])
    np.testing.assert_allclose(on_gpu.gradients(clients, models), on_cpu.gradients(clients, models), rtol=1e-8)
