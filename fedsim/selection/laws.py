"""Selection laws by name: mistakes in a scenario's choice, and the law that it means; a user's own law is checked."""

from functools import partial
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from fedsim.common.arrays import Floats, Ints
from fedsim.common.errors import ChainError, PluginError
from fedsim.common.keyed import stream
from fedsim.common.registry import Findings, Registry, is_own
from fedsim.scenario.component import Choice
from fedsim.scenario.server import Server
from fedsim.selection.law import Candidates, Feedback, Informed, Law, Memory, Remembering, Request

_BUILT_IN = {
    "midzuno": "fedsim.selection.built_in:Midzuno",
    "uniform": "fedsim.selection.built_in:UniformSelection",
    "successive": "fedsim.selection.built_in:Successive",
    "groups": "fedsim.selection.built_in:Groups",
    "cyclic": "fedsim.selection.built_in:Cyclic",
    "bernoulli": "fedsim.selection.built_in:Bernoulli",
    "poisson": "fedsim.selection.built_in:Poisson",
    "cyclic_poisson": "fedsim.selection.built_in:CyclicPoisson",
    "age": "fedsim.selection.built_in:Age",
    "stratified": "fedsim.selection.built_in:Stratified",
    "inverse_availability": "fedsim.selection.built_in:InverseAvailability",
    "oort": "fedsim.selection.oort:Oort",
    "power_of_choice": "fedsim.selection.by_loss:PowerOfChoice",
    "loss_proportional": "fedsim.selection.by_loss:LossProportional",
    "refl": "fedsim.selection.refl:LeastAvailable",
}
LAWS: Final = Registry[Law](
    "a selection law",
    Law,
    _BUILT_IN,
    offered=("weights", "cohort", "streams"),
    at="server.selection",
    chance="draw from request.uniforms(clients)",
)


def check_law(choice: Choice) -> Findings:
    """Return every mistake in a scenario's choice of a law, without building it: pairs (path, message)."""
    findings = LAWS.check(choice.kind, choice.options)
    if not findings and is_own(choice.kind):
        theory, covered = theory_of(choice), [name for name in LAWS.built_in if hasattr(LAWS[name], "theory")]
        if theory not in (None, *covered):
            message = f"{choice.kind!r} has the theory {theory!r}; it must be None or one of {', '.join(covered)}"
            findings.append((("kind",), message))
    return findings


def theory_of(choice: Choice) -> str | None:
    """Return the name under which theory knows the law that a scenario chooses; None where no theory covers it."""
    theory: str | None = getattr(LAWS.find(choice.kind), "theory", None)
    return theory


def needs_feedback(choice: Choice) -> bool:
    """Say whether the law that a scenario chooses goes by what came of the rounds before."""
    return hasattr(LAWS.find(choice.kind), "take_feedback")


def law_of(server: Server) -> str:
    """Return the name by which theory knows a server's selection law.

    Raises a `ChainError` if no theory covers it.
    """
    law = theory_of(server.selection)
    if law is None:
        raise ChainError(
            f"no theory covers the selection law {server.selection.kind!r}: its class would have to say by an "
            "attribute `theory` which law of the chain it is; another one can be asked about by --law"
        )
    return law


def selection_law(choice: Choice, weights: Floats, cohort: int, seed: int, replicate: int) -> Law:
    """Return the law that a scenario chooses, for the clients' weights (N,) and the size of a selection group.

    Raises a `PluginError` when `check_law` finds a mistake, or the constructor fails.
    """
    shown = weights.view()
    shown.setflags(write=False)
    streams = partial(stream, seed, replicate)
    law = LAWS.build(choice.kind, choice.options, weights=shown, cohort=cohort, streams=streams)
    return CheckedSelection(law, choice.kind) if is_own(choice.kind) else law


class CheckedSelection:
    """A law whose failures and wrong answers are reported with its `kind`."""

    def __init__(self, law: Law, kind: str) -> None:
        self._law, self._named = law, f"selection law {kind!r}"
        self.finds_shortage = bool(getattr(law, "finds_shortage", False)) and not isinstance(law, Remembering)

    def select(self, request: Request, candidates: Candidates) -> Ints:
        """Return what the law selects; raise a `PluginError` if it fails, or does not select as `Law.select` says."""
        with LAWS.reraise_as_plugin_error(f"{self._named}, round {request.round:,}", self._law.select):
            chosen = np.array(self._law.select(request, candidates))
            if wrong := _wrong(chosen, request.count, candidates):
                raise PluginError(wrong)
        return chosen.astype(np.int64)

    def take_feedback(self, feedback: Feedback) -> None:
        """Pass on what came of a round."""
        law: Informed = cast("Informed", self._law)
        where = f"{self._named}, take_feedback, round {feedback.round:,}"
        with LAWS.reraise_as_plugin_error(where, law.take_feedback):
            law.take_feedback(feedback)

    def state(self) -> Memory:
        """Return what the law remembers; nothing, where it does not say so."""
        if not isinstance(self._law, Remembering):
            return {}
        with LAWS.reraise_as_plugin_error(f"{self._named}, state", self._law.state):
            return {name: np.asarray(array) for name, array in self._law.state().items()}

    def restore(self, state: Memory) -> None:
        """Go on from what `state` returned."""
        if isinstance(self._law, Remembering):
            with LAWS.reraise_as_plugin_error(f"{self._named}, restore", self._law.restore):
                self._law.restore(state)


def _wrong(chosen: NDArray[Any], count: int, candidates: Candidates) -> str | None:
    """Say what is wrong with the clients that a law returned, if anything is."""
    if chosen.ndim != 1 or (chosen.size and chosen.dtype.kind not in "iu"):
        found = f"an array of {chosen.dtype} and shape {chosen.shape}" if chosen.ndim else repr(chosen.item())
        return f"must return the indices of clients, a list or array of whole numbers, not {found}"
    outside = chosen[(chosen < 0) | (chosen >= len(candidates))]
    if outside.size:
        return f"returned client {outside[0]}, and clients are numbered from 0 to {len(candidates) - 1:,}"
    clients, times = np.unique(chosen.astype(np.int64), return_counts=True)
    if len(clients) < len(chosen):
        return f"returned client {clients[times > 1][0]} more than once"
    ineligible = clients[~candidates.eligible(clients)]
    if ineligible.size:
        return f"returned client {ineligible[0]}, which is not eligible"
    if len(clients) != count:
        eligible = int(candidates.all_eligible().sum())
        if len(clients) != min(count, eligible):
            return f"returned {len(clients):,} clients; {count:,} are wanted, and {eligible:,} are eligible"
    return None
