"""Flower strategies that weight each client's message by how often it takes part.

The weights are those of fedsim's optimizers, which count participations here as in a simulation::

    DebiasedFedAvg   nu_i = 1 / (N lambda_i), lambda_i counted, or pi from theory        Sun et al., arXiv:2410.01209
    FedAU            omega_i, the mean interval between participations, over N           Wang and Ji, arXiv:2306.03401

A client is known by its partition, so that it is the same one in every run.
"""

from collections.abc import Iterable, Sequence
from copy import deepcopy
from typing import Any, Final, Literal, TypeAlias

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg

from fedsim.bridges.flower.of_schedule import CohortGrid, Partitions
from fedsim.common.arrays import Floats
from fedsim.common.errors import RunError
from fedsim.learning.optimizers.debiased_fedavg import DebiasedFedAvg, OracleWeighted
from fedsim.learning.optimizers.fedau import FedAu
from fedsim.learning.optimizers.optimizer import Cohort

STEP_SCALE: Final = "step-scale"
"""Key of the factor on a client's step size, in the config of its message and in the metrics of its reply."""
_Scaling: TypeAlias = DebiasedFedAvg | OracleWeighted | FedAu


class _Weighted(FedAvg):
    """FedAvg by an optimizer of fedsim that is linear in the clients' changes.

    x_{t+1} = x_t + sum over S_t of w_i (x_i - x_t), where w are the weights of the optimizer. Metrics are aggregated as
    FedAvg does.
    """

    def __init__(self, optimizer: _Scaling, clients: int | None, *, scales_steps: bool, **fedavg: Any) -> None:
        super().__init__(**fedavg)
        self.clients = clients
        self._optimizer, self._scales_steps = optimizer, scales_steps
        self._partitions = Partitions()
        self._state: Any = None
        self._arrays: ArrayRecord | None = None
        self._members: dict[int, int] = {}
        self._scales: dict[int, float] = {}

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Return FedAvg's messages; where steps are scaled, each with the factor of its client."""
        messages = list(super().configure_train(server_round, arrays, config, grid))
        nodes = [each.metadata.dst_node_id for each in messages]
        self._arrays = arrays
        if isinstance(grid, CohortGrid):
            self._members, population = grid.members, grid.population
            expected = [node for node in nodes if node in grid.reporting]
        else:
            self._members = dict(zip(nodes, self._partitions.clients(grid, nodes), strict=True))
            population, expected = len(list(grid.get_node_ids())), nodes
        if self._state is None:
            self.clients = population if self.clients is None else self.clients
            self._state = self._optimizer.init(self.clients, 0)
        if not self._scales_steps:
            return messages
        # What is known when messages go out: the reports so far, and those that are to be expected.
        _, scales = self._optimizer.prepare(deepcopy(self._state), self._cohort(server_round, expected))
        self._scales = dict(zip(expected, map(float, scales), strict=True))
        for node, message in zip(nodes, messages, strict=True):
            settings = ConfigRecord({**config, STEP_SCALE: self._scales.get(node, 1.0)})
            message.content = RecordDict({self.arrayrecord_key: arrays, self.configrecord_key: settings})
        return messages

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Return the model moved by the weighted changes, and FedAvg's metrics."""
        valid, _ = self._check_and_log_replies(replies, is_train=True)
        if not valid:
            return None, None
        cohort = self._cohort(server_round, [each.metadata.src_node_id for each in valid])
        for reply in valid if self._scales_steps else ():
            self._check_scale(reply)
        self._state, scales = self._optimizer.prepare(self._state, cohort)
        # Linear in the changes, so what it does to unit vectors are the weights; steps that no client scaled are here.
        units = np.eye(len(valid)) if self._scales_steps else np.diag(scales)
        self._state, weights = self._optimizer.apply(self._state, np.zeros(len(valid)), cohort, units)
        assert self._arrays is not None
        contents = [each.content for each in valid]
        return _moved(self._arrays, contents, weights), self.train_metrics_aggr_fn(contents, self.weighted_by_key)

    def _cohort(self, server_round: int, nodes: Sequence[int]) -> Cohort:
        clients = np.array([self._members[node] for node in nodes], dtype=np.int64)
        assert self.clients is not None
        if len(clients) and clients.max() >= self.clients:
            raise RunError(f"a node has partition {clients.max()}, and the strategy was told of {self.clients} clients")
        return Cohort(server_round - 1, clients)

    def _check_scale(self, reply: Message) -> None:
        node = reply.metadata.src_node_id
        sent, echo = self._scales[node], next(iter(reply.content.metric_records.values())).get(STEP_SCALE)
        if not isinstance(echo, int | float) or abs(echo - sent) > 1e-6 * sent:
            raise RunError(
                f"client {self._members[node]} was to multiply its step size by {sent:.6g} (config, {STEP_SCALE!r}), "
                f"and the metrics of its reply say {STEP_SCALE!r}: {echo!r}; a client that cannot scale its steps goes "
                "with scale='changes'"
            )


class DebiasedFedAvgStrategy(_Weighted):
    """FedAvg that weights a client more the less often it takes part, so that in the long run all count alike.

    `clients`, N, is by default that of the schedule of a `Replay`, or as many as there are nodes in the first round.
    `pi`, (N,) by partition, is the long-run share of the participations of each client, from `fedsim.chain`; it is
    counted while training where it is None. `clip`, `warm_up`, `prior` and `counts` are as for fedsim's
    ``debiased_fedavg``, none of the first three with `pi`. The rest goes to FedAvg; the number of examples weights
    metrics, and not models: the aim is the mean of the clients' objectives.

    `scale` says what nu_i multiplies. ``changes``: what the client sends back, x_{t+1} = x_t + mean of
    nu_i (x_i - x_t); clients need not know of it. ``steps``, as in the paper: the client's step size. Its message has
    nu_i under ``step-scale`` in the config, and its reply must have the same number there in its metrics.

    Raises a `ValueError` if options do not go together, or `pi` is no distribution over the clients.
    """

    def __init__(
        self,
        *,
        clients: int | None = None,
        scale: Literal["changes", "steps"] = "changes",
        pi: Sequence[float] | Floats | None = None,
        clip: float | None = None,
        warm_up: int = 0,
        prior: float = 0.0,
        counts: Literal["pulls", "shares"] = "pulls",
        **fedavg: Any,
    ) -> None:
        if scale not in {"changes", "steps"}:
            raise ValueError(f"scale is {scale!r}; it is 'changes' or 'steps'")
        if clip is not None and clip < 1:
            raise ValueError(f"clip is {clip}; it must be at least 1")
        if warm_up < 0 or prior < 0:
            raise ValueError("warm_up and prior must be at least 0")
        optimizer: _Scaling = DebiasedFedAvg(clip=clip, warm_up=warm_up, prior=prior, counts=counts)
        if pi is not None:
            if clip is not None or warm_up or prior:
                raise ValueError("clip, warm_up and prior are for weights that are counted, and pi is given")
            shares = np.asarray(pi, dtype=np.float64)
            if shares.ndim != 1 or not np.isfinite(shares).all() or shares.min() < 0 or abs(shares.sum() - 1) > 1e-6:
                raise ValueError("pi must hold a share for each client, and their sum must be 1")
            if clients not in {None, len(shares)}:
                raise ValueError(f"pi has {len(shares)} shares, and there are {clients} clients")
            clients, optimizer = len(shares), OracleWeighted(pi=shares)
        super().__init__(optimizer, clients, scales_steps=scale == "steps", **fedavg)


class FedAU(_Weighted):
    """FedAvg that weights a client's change by the mean interval between its participations: fedsim's ``fedau``.

    An interval is closed after `cutoff` rounds, never where that is None; see `DebiasedFedAvgStrategy` for the rest.
    """

    def __init__(self, *, clients: int | None = None, cutoff: int | None = 50, **fedavg: Any) -> None:
        if cutoff is not None and cutoff < 1:
            raise ValueError(f"cutoff is {cutoff}; it must be at least 1")
        super().__init__(FedAu(cutoff), clients, scales_steps=False, **fedavg)


def _moved(arrays: ArrayRecord, replies: Sequence[RecordDict], weights: Floats) -> ArrayRecord:
    """Return x + sum of w_i (x_i - x), summed in double precision, in the types of x."""
    records = [next(iter(each.array_records.values())) for each in replies]
    moved = {}
    for name, array in arrays.items():
        values = array.numpy()
        start = values.astype(np.float64)
        total = start.copy()
        for weight, record in zip(weights.tolist(), records, strict=True):
            total += weight * (record[name].numpy() - start)
        moved[name] = Array(total.astype(values.dtype))
    return ArrayRecord(moved)
