"""Selection laws by name: mistakes in a scenario's choice, and the law that it means; a user's own law is checked."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from fedsim.common.arrays import Floats, Ints
from fedsim.common.errors import ChainError, FedsimError, PluginError, told
from fedsim.common.keyed import stream
from fedsim.common.registry import Findings, Registry, is_own
from fedsim.scenario.component import Choice
from fedsim.scenario.server import Server
from fedsim.selection.law import Candidates, Feedback, Informed, Law, Memory, Remembering, Request
from fedsim.selection.rules import RULES, SelectionRule, rule_of

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
    if not findings:
        theory = getattr(LAWS.find(choice.kind), "theory", None)
        if not (theory is None or isinstance(theory, SelectionRule) or (isinstance(theory, str) and theory in RULES)):
            choices = f"None, a SelectionRule, or one of {', '.join(RULES)}"
            findings.append((("kind",), f"{choice.kind!r} has the theory {theory!r}; it must be {choices}"))
    return findings


def theory_of(choice: Choice) -> SelectionRule | None:
    """Return how the law that a scenario chooses draws clients; None where no theory covers it."""
    theory: SelectionRule | str | None = getattr(LAWS.find(choice.kind), "theory", None)
    return None if theory is None else rule_of(theory)


def needs_feedback(choice: Choice) -> bool:
    """Say whether the law that a scenario chooses goes by the outcome of the rounds before."""
    return hasattr(LAWS.find(choice.kind), "take_feedback")


def law_of(server: Server) -> SelectionRule:
    """Return how a server's selection law draws clients.

    Raises a `ChainError` if no theory covers it.
    """
    rule = theory_of(server.selection)
    if rule is None:
        raise ChainError(
            f"no theory covers the selection law {server.selection.kind!r}: its class would have to say by an "
            "attribute `theory` how it draws; another one can be asked about by --law"
        )
    return rule


@contextmanager
def failing_in_words(rule: SelectionRule) -> Iterator[None]:
    """Turn what a rule of the user's own raises, or what its answers make theory raise, into a `PluginError`."""
    try:
        yield
    except FedsimError:
        raise
    except Exception as error:
        if rule is RULES.get(rule.name):
            raise
        raise PluginError(f"the theory of the selection law {rule.name!r}: {told(error)}") from error


def selection_law(choice: Choice, weights: Floats, cohort: int, seed: int, replicate: int) -> Law:
    """Return the law that a scenario chooses, for the clients' weights (N,) and the size of a selection group.

    Raises a `PluginError` when `check_law` finds a mistake, or the constructor fails.
    """
    shown = weights.view()
    shown.setflags(write=False)
    streams = partial(stream, seed, replicate)
    selection = LAWS.build(choice.kind, choice.options, weights=shown, cohort=cohort, streams=streams)
    return CheckedSelection(selection, choice.kind) if is_own(choice.kind) else selection


class CheckedSelection:
    """A law whose failures and wrong answers are reported with its `kind`."""

    def __init__(self, selection: Law, kind: str) -> None:
        self._selection, self._named = selection, f"selection law {kind!r}"
        remembers = isinstance(selection, Remembering)
        self.finds_shortage = bool(getattr(selection, "finds_shortage", False)) and not remembers

    def select(self, request: Request, candidates: Candidates) -> Ints:
        """Return what the law selects; raise a `PluginError` if it fails, or does not select as `Law.select` says."""
        with LAWS.reraise_as_plugin_error(f"{self._named}, round {request.round:,}", self._selection.select):
            chosen = np.array(self._selection.select(request, candidates))
            if wrong := _wrong(chosen, request.count, candidates):
                raise PluginError(wrong)
        return chosen.astype(np.int64)

    def take_feedback(self, feedback: Feedback) -> None:
        """Pass on the outcome of a round."""
        informed: Informed = cast("Informed", self._selection)
        where = f"{self._named}, take_feedback, round {feedback.round:,}"
        with LAWS.reraise_as_plugin_error(where, informed.take_feedback):
            informed.take_feedback(feedback)

    def state(self) -> Memory:
        """Return what the law remembers; nothing, where it does not say so."""
        if not isinstance(self._selection, Remembering):
            return {}
        with LAWS.reraise_as_plugin_error(f"{self._named}, state", self._selection.state):
            return {name: np.asarray(array) for name, array in self._selection.state().items()}

    def restore(self, state: Memory) -> None:
        """Go on from what `state` returned."""
        if isinstance(self._selection, Remembering):
            with LAWS.reraise_as_plugin_error(f"{self._named}, restore", self._selection.restore):
                self._selection.restore(state)


def _wrong(chosen: NDArray[Any], count: int, candidates: Candidates) -> str | None:
    """Say what is wrong with the clients that a law returned, if anything is."""
    if chosen.ndim != 1 or (chosen.size and chosen.dtype.kind not in "iu"):
        returned = f"an array of {chosen.dtype} and shape {chosen.shape}" if chosen.ndim else repr(chosen.item())
        return f"must return the indices of clients, a list or array of whole numbers, not {returned}"
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
