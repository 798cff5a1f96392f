"""Any PyTorch module and loss: f_i(x) = loss(module with parameters x, applied to the samples of client i).

The parameters of the module, one after the other, are the model x. The clients of a cohort, for all optimizers, are
evaluated in one call of torch.func. PyTorch is imported only when such a problem is built.

The default is the paper's kind of network: three fully connected layers with ReLU between them. With cross-entropy the
gradients of `DenseNetwork` are the same: backpropagation with batched matrix products takes about a third of the time
of mapped automatic differentiation for a cohort of small networks. With `SampleSpans` five steps of the paper's network
on 50 images of 784 pixels take half of that.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from itertools import pairwise
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from fedsim.common.arrays import Floats, Ints
from fedsim.common.keyed import Purpose, stream
from fedsim.common.later import torch
from fedsim.common.registry import Findings
from fedsim.learning.data.choice import ChosenData, Federated, missing_extras, not_installed
from fedsim.learning.failures import LearningError
from fedsim.learning.problems.problem import Gradients
from fedsim.scenario.permissions import NameOfCode

MLP = "mlp"

# The index, of no client, for the draw of the initial parameters.
_INITIAL = 2**63 - 1
_FEW = 8  # features for each sample of a client, where its samples are few
_SAMPLES_AT_A_TIME = 8192  # in an evaluation: more need more memory and are no faster


@dataclass(frozen=True)
class DenseNetwork:
    """A network with layers of these widths (features, hidden layers, labels) and a regularisation (l2 / 2) |x|^2.

    Its parameters lie one layer after the other, as torch.nn.Linear keeps them: weights (out, in), then biases.
    """

    widths: tuple[int, ...]
    l2: float = 0.0
    """Strength of the regularisation (l2 / 2) |x|^2."""

    def values(self, models: Any, inputs: Any, targets: Any) -> tuple[Any, Any]:
        """Return the mean cross-entropy of each model over its own samples, shape (M,), and the gradients, (M, d).

        Models have shape (M, d), labels (M, n), and inputs (M, n, ...); the axes after n are flattened.
        """
        layers = list(self._layers(models))
        below = [inputs.flatten(2)]
        for number, (weights, biases, _) in enumerate(layers):
            outputs = torch.baddbmm(biases.unsqueeze(1), below[-1], weights.transpose(1, 2))
            if number < len(layers) - 1:
                below.append(outputs.relu_())
        logs, labels = torch.log_softmax(outputs, dim=-1), targets.unsqueeze(2)
        losses = -logs.gather(2, labels).mean(dim=(1, 2))
        slopes = logs.exp_().scatter_add_(2, labels, torch.full_like(logs[:, :, :1], -1.0)).div_(targets.shape[1])
        gradients = torch.empty_like(models)
        for (weights, _, place), activations in zip(reversed(layers), reversed(below), strict=True):
            biases_at = place + weights[0].numel()
            torch.bmm(slopes.transpose(1, 2), activations, out=gradients[:, place:biases_at].view(weights.shape))
            torch.sum(slopes, dim=1, out=gradients[:, biases_at : biases_at + weights.shape[1]])
            if place:
                slopes = torch.bmm(slopes, weights).mul_(activations > 0)
        if self.l2:
            losses = losses + self.l2 / 2 * (models * models).sum(dim=1)
            gradients.add_(models, alpha=self.l2)
        return losses, gradients

    def total(self, model: Any, parts: Iterable[tuple[Any, Any]]) -> tuple[float, Any]:
        """Return loss and gradient of one model, shape (d,), over the samples (S, ...) and labels (S,) of all parts."""
        loss, slope, count = 0.0, model * 0.0, 0
        for inputs, labels in parts:
            losses, slopes = self.values(model.unsqueeze(0), inputs.unsqueeze(0), labels.unsqueeze(0))
            loss += len(labels) * float(losses[0])
            slope += len(labels) * slopes[0]
            count += len(labels)
        return loss / count, slope / count

    def _layers(self, models: Any) -> Iterator[tuple[Any, Any, int]]:
        """Yield weights (M, out, in), biases (M, out) and the place in a model, layer by layer."""
        place = 0
        for inner, outer in pairwise(self.widths):
            biases_at = place + inner * outer
            yield (
                models[:, place:biases_at].view(len(models), outer, inner),
                models[:, biases_at : biases_at + outer],
                place,
            )
            place = biases_at + outer


@dataclass(frozen=True)
class SampleSpans:
    """Clients with far fewer samples than features, whose local steps are taken in coordinates of their samples' span.

    Without regularisation a step of gradient descent moves the first weights W of a client only within the span of its
    n samples X = L Q, where the rows of Q, (n, features), are orthonormal: descent on W for X is that on W Q' for L.
    """

    network: DenseNetwork  # for L
    bases: Any  # Q of each client, (N, n, features)
    inputs: Any  # L of each client, (N, n, n)
    targets: Any  # (N, n)

    @classmethod
    def of(cls, network: DenseNetwork, inputs: Any, targets: Any) -> "SampleSpans":
        """Return those of clients with samples (N, n, ...) and labels (N, n)."""
        bases, inner = torch.linalg.qr(inputs.flatten(2).transpose(1, 2))
        reduced = DenseNetwork((inner.shape[2], *network.widths[1:]))
        return cls(reduced, bases.transpose(1, 2).contiguous(), inner.transpose(1, 2).contiguous(), targets)

    def descend(self, clients: Any, models: Any, sizes: Any, steps: int) -> Any:
        """Return the changes of models (M, d) after steps of sizes (M, 1), each on all samples of its client."""
        bases, inputs, targets = self.bases[clients], self.inputs[clients], self.targets[clients]
        samples, hidden = self.network.widths[:2]
        outer, inner = hidden * bases.shape[2], hidden * samples
        weights = torch.bmm(models[:, :outer].view(len(models), hidden, -1), bases.transpose(1, 2))
        start = torch.cat([weights.flatten(1), models[:, outer:]], dim=1)
        changes = torch.zeros_like(start)
        for _ in range(steps):
            changes -= sizes * self.network.values(start + changes, inputs, targets)[1]
        first = torch.bmm(changes[:, :inner].view(len(models), hidden, samples), bases)
        return torch.cat([first.flatten(1), changes[:, inner:]], dim=1)


def _check_options(options: Mapping[str, object]) -> Findings:
    findings = [*not_installed("torch", "PyTorch", "torch", ("kind",)), *missing_extras(options)]
    module = str(options.get("module", MLP))
    if module != MLP and ":" not in module:
        findings.append((("module",), f"{module!r} is neither {MLP!r} nor of the form my_module:Name"))
    return findings


@dataclass(eq=False)
class TorchModule(ChosenData):
    """Clients that train a PyTorch module.

    The data seed draws the initial parameters too.

    Raises a `LearningError` if something cannot be found or built, or the module has layers whose output depends on
    more than parameters and samples: batch normalisation, dropout.
    """

    module: NameOfCode = MLP
    """`mlp`, three fully connected layers, or a class `package.module:Name` that makes a torch.nn.Module; it may have
    neither batch normalisation nor dropout.
    """
    arguments: dict[str, Any] = field(default_factory=dict)
    """Arguments of its constructor; for `mlp`, `hidden` lists the widths of the hidden layers."""
    loss: NameOfCode = "cross_entropy"
    """A function of torch.nn.functional, or `package.module:name`; it is called with outputs and targets."""
    l2: Annotated[float, Field(ge=0)] = 0.0
    """Strength of the regularisation (l2 / 2) |x|^2."""
    device: Annotated[str, Field(min_length=1)] = "auto"
    """`auto`: a GPU if there is one, else the CPU; or a name that PyTorch knows."""
    dtype: Literal["float32", "float64"] = "float32"
    """Precision of local steps; the server's models are float64 in any case."""
    threads: Annotated[int, Field(ge=1)] | None = 1
    """Threads of PyTorch on the CPU, for the whole process; null leaves PyTorch's setting. More than one slows small
    modules.
    """

    check_options = staticmethod(_check_options)

    @staticmethod
    def size(_clients: int, options: Mapping[str, Any]) -> tuple[int, int]:
        # Known beforehand only for `mlp`, taken to train on the digits.
        arguments = options.get("arguments", {})
        hidden = arguments.get("hidden", [32, 32]) if options.get("module", MLP) == MLP else []
        if not isinstance(hidden, list) or not all(isinstance(width, int) and width > 0 for width in hidden):
            return 0, 0
        parameters = sum(width * following for width, following in pairwise([64, *hidden, 10]))
        return 4 * parameters, parameters

    def __post_init__(self) -> None:
        owned = self.load()
        self._device = _device(self.device)
        if self.threads is not None:
            torch.set_num_threads(self.threads)
        self._dtype = getattr(torch, self.dtype)
        self._loss = _loss(self.loss)
        # PyTorch draws initial parameters from a state of its own, which others may be using.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(stream(self.drawn_by, 0, Purpose.PROBLEM).bits(_INITIAL, 0)[0] >> np.uint64(1)))
            module = _module(self.module, self.arguments, owned)
        self._module = module.to(device=self._device, dtype=self._dtype)
        self._shapes = [(name, parameter.shape) for name, parameter in self._module.named_parameters()]
        self._buffers = dict(self._module.named_buffers())
        if not self._shapes:
            raise LearningError(f"module {self.module!r} has no parameters to train")
        self._members = self._indices(owned.members)
        samples = owned.samples
        self._labelled = samples.labelled
        answers, kind = (self._indices, np.int64) if self._labelled else (self._numbers, np.float64)
        self._inputs, self._test_inputs = self._numbers(samples.inputs), self._numbers(samples.test_inputs)
        self._targets = answers(samples.targets.astype(kind))
        self._test_targets = answers(samples.test_targets.astype(kind))
        self._dense, self._spans = None, None
        if self.module == MLP and self.loss == "cross_entropy":  # its gradients are known
            weights = [shape for _, shape in self._shapes if len(shape) == 2]
            self._dense = DenseNetwork((weights[0][1], *(shape[0] for shape in weights)), self.l2)
            if self.counts is None and not self.l2 and self._members.shape[1] * _FEW <= weights[0][1]:
                self._spans = SampleSpans.of(self._dense, self._inputs[self._members], self._targets[self._members])
        self._each = torch.func.vmap(torch.func.grad(self._objective), in_dims=(0, 0, 0))
        self._losses = torch.func.vmap(self._objective, in_dims=(None, 0, 0))

    @property
    def dimension(self) -> int:
        return sum(shape.numel() for _, shape in self._shapes)

    def initial(self) -> Floats:
        return np.concatenate([_array(parameter.detach()).reshape(-1) for parameter in self._module.parameters()])

    def gradients(self, clients: Ints, models: Floats) -> Floats:
        return self.select(clients)(models)

    def select(self, clients: Ints, samples: Ints | None = None) -> Gradients:
        slopes = self._slopes_of(clients, samples)
        return lambda models: _array(slopes(self._numbers(models)))

    def descend(
        self, clients: Ints, models: Floats, step_sizes: Floats, steps: int, minibatches: Ints | None = None
    ) -> Floats:
        start, sizes = self._numbers(models), self._numbers(step_sizes).unsqueeze(1)
        if self._spans is not None and steps > 1 and minibatches is None and self.factors is None:
            return _array(self._spans.descend(self._indices(clients), start, sizes, steps))
        changes = start * 0.0
        for step in range(steps):
            if step == 0 or minibatches is not None:
                slopes = self._slopes_of(clients, None if minibatches is None else minibatches[step])
            changes -= sizes * slopes(start + changes)
        return _array(changes)

    def _slopes_of(self, clients: Ints, samples: Ints | None) -> Callable[[Any], Any]:
        """Return the gradients of these clients as a function of their models; `samples` as in `select`."""
        same = samples is not None or self.counts is None
        groups = [(np.arange(len(clients)), None)] if same else list(self.by_count(clients))
        every = [(rows, *self._chosen(clients[rows], samples, number)) for rows, number in groups]

        def plain(models: Any) -> Any:
            if len(every) == 1:
                return self._slopes(models, *every[0][1:])
            slopes = torch.empty_like(models)
            for rows, inputs, targets in every:
                slopes[rows] = self._slopes(models[rows], inputs, targets)
            return slopes

        if self.factors is None:
            return plain
        factors = self._numbers(self.factors[clients]).unsqueeze(1)
        return lambda models: plain(models) * factors

    def _chosen(self, clients: Ints, samples: Ints | None, number: int | None = None) -> tuple[Any, Any]:
        chosen = self._members[self._indices(clients)][:, :number]
        if samples is not None:
            chosen = chosen.gather(1, self._indices(samples))
        return self._inputs[chosen], self._targets[chosen]

    def _slopes(self, models: Any, inputs: Any, targets: Any) -> Any:
        if self._dense is not None:
            return self._dense.values(models, inputs, targets)[1]
        return self._each(models, inputs, targets).detach()

    def losses(self, clients: Ints, models: Floats) -> Floats:
        def one(model: Any, inputs: Any, target: Any) -> Any:
            return self._loss(self._outputs(model, inputs.unsqueeze(0)), target.unsqueeze(0))

        of_clients = torch.func.vmap(torch.func.vmap(one, in_dims=(None, 0, 0)))
        with torch.no_grad():
            return _array(of_clients(self._numbers(models), *self._chosen(clients, None)))

    def evaluate(self, model: Floats) -> Mapping[str, float]:
        parameters = self._numbers(model)
        if self.counts is not None:
            loss, slope = 0.0, torch.zeros_like(parameters)
            for rows, inputs, targets in self._parts():
                weights = self._numbers(np.ones(len(rows)) if self.factors is None else self.factors[rows])
                part = torch.func.grad_and_value(_weighted(self._losses, weights, inputs, targets))(parameters)
                slope, loss = slope + part[0] / self.clients, loss + float(part[1]) / self.clients
        elif self._dense is not None:
            parts = self._members.reshape(-1).split(_SAMPLES_AT_A_TIME)
            loss, slope = self._dense.total(parameters, ((self._inputs[rows], self._targets[rows]) for rows in parts))
        else:
            inputs, targets = self._inputs[self._members], self._targets[self._members]
            slope, loss = torch.func.grad_and_value(lambda x: self._losses(x, inputs, targets).mean())(parameters)
        figures = {"loss": float(loss), "grad_norm": float(torch.linalg.vector_norm(slope))}
        if self._labelled:
            with torch.no_grad():
                guesses = self._outputs(parameters, self._test_inputs).argmax(dim=-1)
            figures["accuracy"] = float((guesses == self._test_targets).double().mean())
        return figures

    def _parts(self) -> Iterator[tuple[Ints, Any, Any]]:
        """Yield clients with equally many samples, some at a time, and their samples."""
        for rows, number in self.by_count(np.arange(self.clients)):
            for part in np.array_split(rows, -(-len(rows) * number // _SAMPLES_AT_A_TIME)):
                yield (part, *self._chosen(part, None, number))

    def by_client(self, model: Floats) -> Mapping[str, Floats]:
        parameters, figures = self._numbers(model), {"loss": np.empty(self.clients), "accuracy": np.empty(self.clients)}
        with torch.no_grad():
            for rows, inputs, targets in self._parts():
                figures["loss"][rows] = _array(self._losses(parameters, inputs, targets))
                if self._labelled:
                    right = self._outputs(parameters, inputs.flatten(0, 1)).argmax(dim=-1) == targets.flatten()
                    figures["accuracy"][rows] = _array(right.view(targets.shape).double().mean(dim=1))
        return figures if self._labelled else {"loss": figures["loss"]}

    def _objective(self, model: Any, inputs: Any, targets: Any) -> Any:
        loss = self._loss(self._outputs(model, inputs), targets)
        return loss + self.l2 / 2 * (model @ model) if self.l2 else loss

    def _outputs(self, model: Any, inputs: Any) -> Any:
        parts = model.split([shape.numel() for _, shape in self._shapes])
        parameters = {name: part.view(shape) for (name, shape), part in zip(self._shapes, parts, strict=True)}
        return torch.func.functional_call(self._module, {**parameters, **self._buffers}, (inputs,))

    def _numbers(self, values: Floats) -> Any:
        return torch.as_tensor(values, dtype=self._dtype, device=self._device)

    def _indices(self, values: Ints) -> Any:
        return torch.as_tensor(values, device=self._device)


def _weighted(losses: Any, weights: Any, inputs: Any, targets: Any) -> Callable[[Any], Any]:
    return lambda model: (weights * losses(model, inputs, targets)).sum()


def _array(values: Any) -> Floats:
    return np.asarray(values.cpu().double().numpy())


def _device(name: str) -> Any:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise LearningError(f"device {name!r} cannot be used: {reason}; device: auto takes what there is") from None
    return device


def _loss(name: str) -> Any:
    function = getattr(torch.nn.functional, name, None) if ":" not in name else _named(name)
    if not callable(function):
        raise LearningError(f"loss {name!r} is no function of torch.nn.functional, nor of the form my_module:function")
    return function


def _module(name: str, arguments: Mapping[str, Any], owned: Federated) -> Any:
    module = _mlp(owned, **arguments) if name == MLP else _named(name)(**arguments)
    if not isinstance(module, torch.nn.Module):
        raise LearningError(f"module {name!r} must make a torch.nn.Module, got {type(module).__name__}")
    stateful = (torch.nn.modules.batchnorm._BatchNorm, torch.nn.modules.dropout._DropoutNd)
    for layer_name, layer in module.named_modules():
        if isinstance(layer, stateful):
            raise LearningError(
                f"layer {layer_name!r} is a {type(layer).__name__}: its output depends on more than parameters and a "
                "sample, which a gradient that can be repeated must not; GroupNorm and LayerNorm can be used"
            )
    return module


def _mlp(owned: Federated, hidden: list[int] | None = None) -> Any:
    if not owned.samples.labelled:
        raise LearningError("module 'mlp' has an output for each label, and the targets are none; name a module")
    features = int(np.prod(owned.samples.inputs.shape[1:]))
    widths = [features, *([32, 32] if hidden is None else hidden), owned.samples.classes]
    layers: list[Any] = [torch.nn.Flatten()]
    for width, following in pairwise(widths):
        layers += [torch.nn.Linear(width, following), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


def _named(name: str) -> Any:
    module_name, _, attribute = name.partition(":")
    if not all(part.isidentifier() for part in [*module_name.split("."), attribute]):
        raise LearningError(f"{name!r} is not of the form my_module:Name")
    try:
        return getattr(import_module(module_name), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise LearningError(f"cannot find {name!r}, which must be of the form my_module:Name: {error}") from None
