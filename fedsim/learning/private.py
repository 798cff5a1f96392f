"""Training with privacy: clipped updates, a fixed divisor, the mechanism's noise on their sum, and what that promises.

::

    x_{t+1} = x_t + (1/B) (sum_{i in S_t} Delta_i min(1, clip / |Delta_i|) + (C^{-1} Z)_t)

B is the wanted cohort, however many reports came, so each report weighs 1/B: clients pull on the model by their shares
of the reports, where without privacy each report weighs 1/|S_t|. Changes are clipped last, after the local steps have
been scaled, so Debiased FedAvg needs no more noise than FedAvg, but clipping a rare client's long update undoes some of
the debiasing. A round without any report takes no step; its row of the noise comes with the next step, so that the sums
of all rows, which correlated noise keeps small, are those of the mechanism. Where the schedule is to stay secret, it is
a step of noise. An update that is not finite counts as
zero.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import islice
from typing import Any

import numpy as np

from fedsim.common.arrays import Floats
from fedsim.common.keyed import Stream
from fedsim.common.memory import SHARE, free_bytes, readable_bytes
from fedsim.common.registry import is_own
from fedsim.learning.failures import LearningError
from fedsim.learning.optimizers import OPTIMIZERS
from fedsim.learning.optimizers.fedavg import MeanChange
from fedsim.learning.optimizers.optimizer import Cohort, Footprint, LocalSteps, Optimizer
from fedsim.learning.server_updates import Composed
from fedsim.population import Population
from fedsim.privacy.bounds import ParticipationBounds, enforced_bounds
from fedsim.privacy.epsilon import epsilon_of, epsilon_of_best, noise_for
from fedsim.privacy.mechanisms import MECHANISMS
from fedsim.privacy.mechanisms.mechanism import Mechanism, checked_rows, correlated_rows, rows_kept
from fedsim.scenario import Scenario
from fedsim.scenario.learning import Learning
from fedsim.scenario.privacy import AdaptiveClip, Privacy


@dataclass(frozen=True)
class Noise:
    """The noise of a run, the same for each of its optimizers."""

    # mechanism, bounds: C, and what it is made for
    mechanism: Mechanism
    bounds: ParticipationBounds
    scale: float  # standard deviation of Z: clip norm times noise multiplier times sensitivity
    draws: Stream  # Z: coordinate j of row t is the normal draw of client j at index t

    def rows(self, dimension: int) -> Iterator[Floats]:
        """Return the rows of C^{-1} Z, one for each round; a `LearningError` if they need too much memory."""
        kept, free = rows_kept(self.mechanism, self.bounds), free_bytes()
        if free is not None and 8 * kept * dimension > SHARE * free:
            raise LearningError(
                f"the noise keeps {kept:,} rows of {dimension:,} parameters, {readable_bytes(8 * kept * dimension)}, "
                f"and {readable_bytes(free)} are free; blt keeps one for each of its buffers"
            )
        z = (self.scale * _normals(self.draws, dimension, t) for t in range(self.bounds.rounds))
        if not hasattr(self.mechanism, "correlate"):
            return correlated_rows(self.mechanism, z, self.bounds)
        direction = self.draws.normals(np.arange(dimension), self.bounds.rounds)
        return checked_rows(self.mechanism, z, self.bounds, direction)


@lru_cache(1)  # the optimizers of a log take the same draws one after the other
def _normals(draws: Stream, dimension: int, t: int) -> Floats:
    return draws.normals(np.arange(dimension), t)


@dataclass
class _State:
    optimizer: Any
    noise: Iterator[Floats] | None
    clip: float
    row: int = -1

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the noise, which is made anew up to its row."""
        return vars(self) | {"noise": None}


@dataclass(frozen=True)
class Private:
    """An optimizer whose server takes the mean of clipped changes, with noise on it."""

    optimizer: Optimizer  # its server takes the mean of the changes
    clip: float  # largest norm of a change, at the beginning
    divisor: int  # B
    noise: Noise | None  # none to clip alone
    adaptive: AdaptiveClip | None = None  # how the clip changes; the noise is that of a clip of 1 then
    steps_alone: bool = False  # whether rounds without a report are steps too, so that nobody sees which these are
    clips: list[float] = field(default_factory=list)  # an adaptive clip after each step
    not_finite: list[int] = field(default_factory=list)  # clients whose update was not finite, one for each of them

    @property
    def footprint(self) -> Footprint | None:
        """That of the optimizer."""
        return getattr(self.optimizer, "footprint", None)

    def init(self, clients: int, dimension: int) -> _State:
        """Return the optimizer's state, and the noise from its beginning."""
        rows = None if self.noise is None else self.noise.rows(dimension + (self.adaptive is not None))
        return _State(self.optimizer.init(clients, dimension), rows, self.clip)

    def prepare(self, state: _State, cohort: Cohort) -> tuple[_State, Floats | LocalSteps]:
        """Ask the optimizer how the clients train."""
        state.optimizer, local = self.optimizer.prepare(state.optimizer, replace(cohort, divisor=self.divisor))
        return state, local

    def apply(self, state: _State, model: Floats, cohort: Cohort, deltas: Floats) -> tuple[_State, Floats]:
        """Return the model moved by the clipped changes, and by the noise of all rounds since its last step."""
        if not len(deltas):
            return self._moved(state, model, cohort, np.zeros_like(model), 0.0)
        lengths = np.linalg.norm(deltas, axis=1)
        if not (finite := np.isfinite(lengths)).all():
            self.not_finite.extend(cohort.clients[~finite].tolist())
            deltas, lengths = np.where(finite[:, None], deltas, 0.0), np.where(finite, lengths, 0.0)
        clipped = deltas * np.minimum(1.0, state.clip / np.maximum(lengths, 1e-300))[:, None]
        quantile = 0.0 if self.adaptive is None else self.adaptive.quantile
        shorter = float(np.sum((lengths[finite] <= state.clip) - quantile))
        state.optimizer, wanted = self.optimizer.apply(state.optimizer, model, cohort, clipped)
        return self._moved(state, model, cohort, (wanted - model) * len(cohort.clients), shorter)

    def _moved(
        self, state: _State, model: Floats, cohort: Cohort, total: Floats, shorter: float
    ) -> tuple[_State, Floats]:
        """Return the model moved by a sum of changes; `shorter` is by how many more than wanted are below the clip.

        With an adaptive clip C a client sends sqrt(1 - s) Delta / C, and sqrt(s) (1{|Delta| <= C} - q) / max(q, 1 - q),
        of norm 1 at most together, so that sensitivity, noise and epsilon are those of one update.
        """
        adaptive, length = self.adaptive, len(model)
        if self.noise is not None:
            if state.noise is None:  # that of a state that was kept
                state.noise = islice(self.noise.rows(length + (adaptive is not None)), state.row + 1, None)
            while state.row < cohort.round:
                if (made := next(state.noise, None)) is None:
                    raise LearningError(f"the noise is made for {state.row + 1:,} rounds (n), and this is one more")
                state.row += 1
                if adaptive is None:
                    total = total + made
                else:
                    total = total + made[:length] * state.clip / math.sqrt(1.0 - adaptive.share)
                    most = max(adaptive.quantile, 1.0 - adaptive.quantile)
                    shorter += float(made[length]) * most / math.sqrt(adaptive.share)
        if adaptive is not None:
            step = float(np.clip(shorter / self.divisor, -1.0, 1.0))  # whatever the noise, a round moves it by e^rate
            state.clip *= math.exp(-adaptive.rate * step)
            self.clips.append(state.clip)
        return state, model + total / self.divisor


def can_be_private(optimizer: type) -> bool:
    """Say whether an optimizer's server takes the mean of the changes: noise can be added to nothing else here."""
    return issubclass(optimizer, MeanChange)


def with_privacy(made: Callable[[Optimizer], Private], optimizer: Optimizer) -> Optimizer:
    """Return an optimizer with clipping and noise before its server update, which sees only private changes."""
    if isinstance(optimizer, Composed):
        return Composed(made(optimizer.optimizer), optimizer.server)
    return made(optimizer)


def caveats(scenario: Scenario, population: Population) -> list[str]:
    """Say in sentences what the guarantee of a scenario does not cover, and what else it rests on."""
    clocked = bool(np.any(population.cooldown_s > 0))
    return caveats_of(scenario, enforced_bounds(scenario, population), clocked=clocked)


def caveats_of(scenario: Scenario, bounds: ParticipationBounds, *, clocked: bool) -> list[str]:
    """Return the `caveats` of a scenario with these bounds; `clocked`: some client has a cool-down by the clock."""
    server, privacy, texts = scenario.server, scenario.privacy, list[str]()
    if clocked:
        texts.append(
            "cool-downs by the clock count for nothing: how many rounds pass meanwhile is not enforced, so "
            f"b = {bounds.min_separation} is what the separations alone promise"
        )
    if privacy is not None and privacy.amplification != "none":
        texts.append(
            "epsilon counts on amplification by sampling: it holds only if the schedule stays secret (who took part in "
            "which round, and all that shows it: run directories, their pages, how long rounds took), late and lost "
            "reports do not depend on other clients, and rounds without a report are steps of noise, as they are here"
        )
    if not server.selects_once:
        texts.append("a round is a version of the buffered server: n, b and k count the versions that take a report")
    if is_own(server.selection.kind):
        texts.append(f"it holds only if the selection law {server.selection.kind!r} does not look at the clients' data")
    if privacy is not None:
        if privacy.delta * scenario.devices >= 1:
            texts.append(
                f"delta = {privacy.delta:g} is not below one over the number of clients ({scenario.devices:,}): "
                "somebody's data could be published outright"
            )
        if bounds.capped and _has(MECHANISMS, privacy.mechanism.kind, "ignores_caps"):
            texts.append(f"the cap of {bounds.most} binds, and b bands make little of it: blt needs less noise then")
    training = "none" if privacy is None else privacy.training
    if privacy is not None and training == "noise" and scenario.learning is not None:
        texts += _of_releases(scenario, privacy, scenario.learning)
    if privacy is not None and (adaptive := privacy.adaptive_clip) is not None:
        texts.append(
            f"the clip adapts: the noise on updates is {1 / math.sqrt(1 - adaptive.share):.3g} times the stated one, "
            "since noisy counts are under the same epsilon, and in units of the clip of its round, which is public"
        )
    if training == "clip":
        texts.append("training here clips each update but adds no noise: its losses are those without privacy")
    if scenario.learning is not None and training == "none":
        texts.append(
            "training here neither clips nor adds noise, so its losses are those without privacy; the guarantee is of "
            "a server that clips each update last, after all weighting, and divides their sum by a fixed number"
        )
        texts += [
            f"the optimizer {each.label!r} releases stored updates again in later rounds: it is not covered"
            for each in scenario.learning.optimizers
            if _has(OPTIMIZERS, each.kind, "reuses_updates")
        ]
    return texts


def _of_releases(scenario: Scenario, privacy: Privacy, learning: Learning) -> Iterator[str]:
    """Say which models a guarantee covers where noise is added in training."""
    sigma = privacy.noise_multiplier or noise_for(privacy.epsilon or 0.0, privacy.delta)
    swept = 1 if scenario.sweep is None else scenario.sweep.count
    count, settings = len(learning.optimizers), max(swept, math.prod(map(len, scenario.choose.values())))

    def cost(epsilon: Callable[[], float]) -> str:
        return f"would cost {'more' if privacy.amplification != 'none' else f'epsilon = {epsilon():.4g}'}"

    def together(count: int) -> str:
        return cost(lambda: epsilon_of(sigma / math.sqrt(count), privacy.delta))

    yield "the noise is simulated: it follows from the seed (SplitMix64), as in all runs with it, and protects nobody"
    if count > 1:
        yield (
            f"it covers the models of one of {', '.join(each.label for each in learning.optimizers)}: they are trained "
            "with the same noise to be compared, so that the difference of two can be free of it; releasing all "
            f"{count} {together(count)}, with noise of their own for each"
        )
    if settings > 1:
        best = cost(lambda: epsilon_of_best(sigma, privacy.delta, settings))
        yield (
            f"it covers the model of one of {settings:,} settings, chosen without their losses: with noise of their "
            f"own for each, all {together(settings)}, and the best of a geometric number of runs, {settings:,} on "
            f"average, {best} (arXiv:2110.03620); runs that tune a setting count too"
        )
    if learning.start is not None:
        yield (
            "it covers what is trained from learning.start on: if as much was promised for that model, to the same "
            f"clients, both {together(2)}"
        )
    if learning.stop_at_target:
        yield "training stops by losses that no noise hides (stop_at_target), which how many models there are shows"
    for each in learning.optimizers:
        if is_own(each.kind):
            yield (
                f"it holds for {each.label!r} only if its own code takes nothing of the clipped updates but their "
                "mean, and in their round alone"
            )


def _has(registry: Mapping[str, type], kind: str, property_of_class: str) -> bool:
    """Say whether a built-in class has a property; classes of users, whose code must not run for this, do not."""
    return not is_own(kind) and getattr(registry[kind], property_of_class, False)
