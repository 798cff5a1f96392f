"""Selection laws by name: what is wrong with a scenario's choice, and the law that it means."""

from functools import partial
from typing import Final

from fedsim.common.arrays import Floats
from fedsim.common.errors import ChainError
from fedsim.common.keyed import stream
from fedsim.common.registry import Findings, Registry, brought
from fedsim.scenario.component import Component, chosen
from fedsim.scenario.server import Selection, Server
from fedsim.selection.checked import CheckedLaw
from fedsim.selection.law import Law

_BUILT_IN = {
    "midzuno": "fedsim.selection.midzuno:Midzuno",
    "uniform": "fedsim.selection.uniform:Uniform",
    "successive": "fedsim.selection.successive:Successive",
    "groups": "fedsim.selection.groups:Groups",
    "cyclic": "fedsim.selection.cyclic:Cyclic",
    "bernoulli": "fedsim.selection.bernoulli:Bernoulli",
    "poisson": "fedsim.selection.poisson:Poisson",
    "age": "fedsim.selection.age:Age",
    "stratified": "fedsim.selection.stratified:Stratified",
    "inverse_availability": "fedsim.selection.inverse_availability:InverseAvailability",
}
_KNOWN_TO_THEORY = [name for name in _BUILT_IN if name not in {"age", "stratified", "inverse_availability"}]
LAWS: Final = Registry[Law]("a selection law", Law, _BUILT_IN, offered=("weights", "cohort", "streams"))


def check_law(choice: Selection | Component) -> Findings:
    """Return every mistake in a scenario's choice of a law, without building it: pairs (path, message)."""
    findings = LAWS.check(*chosen(choice))
    if not findings and theory_of(choice) not in (None, *_KNOWN_TO_THEORY):
        known = ", ".join(_KNOWN_TO_THEORY)
        message = f"{choice.kind!r} has the theory {theory_of(choice)!r}; it must be None or one of {known}"
        findings.append((("kind",), message))
    return findings


def theory_of(choice: Selection | Component) -> str | None:
    """Return the name under which theory knows the law that a scenario chooses; None where no theory covers it."""
    theory: str | None = getattr(LAWS.find(choice.kind), "theory", None)
    return theory


def law_of(server: Server) -> str:
    """Return the name by which theory knows a server's selection law.

    Raises
    ------
    ChainError
        If no theory covers it.
    """
    law = theory_of(server.selection)
    if law is None:
        raise ChainError(
            f"no theory covers the selection law {server.selection.kind!r}: its class would have to say by an "
            "attribute `theory` which law of the chain it is; another one can be asked about by --law"
        )
    return law


def selection_law(choice: Selection | Component, weights: Floats, cohort: int, seed: int, replicate: int) -> Law:
    """Return the law that a scenario chooses.

    Parameters
    ----------
    choice
        Its name, and its options.
    weights
        (N,) p_i.
    cohort
        Size of a selection group.
    seed, replicate
        Keys of the draws.

    Raises
    ------
    PluginError
        When `check_law` finds a mistake, or the constructor fails.
    """
    shown = weights.view()
    shown.setflags(write=False)
    streams = partial(stream, seed, replicate)
    law = LAWS.build(*chosen(choice), weights=shown, cohort=cohort, streams=streams)
    return CheckedLaw(law, choice.kind) if brought(choice.kind) else law
