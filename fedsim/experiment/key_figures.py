"""The figures of a run that a person wants to see first."""

from collections.abc import Iterator, Mapping

from fedsim.analysis.metrics import describe

_FIRST = (
    ("rounds", "rounds.count", "{:,.0f}"),
    ("L1 distance from uniform, measured", "participation.l1_uniform", "{:.6f}"),
    ("... that equal chances for all would give", "participation.l1_chance", "{:.6f}"),
    ("L1 distance from uniform, theory", "participation.l1_uniform_theory", "{:.6f}"),
    ("L1 distance between the two", "participation.l1_chain", "{:.6f}"),
    ("... that sampling noise alone would give", "participation.l1_noise", "{:.6f}"),
    ("time that rounds waited for clients", "rounds.waiting_share", "{:.1%}"),
)
_UNDER = {
    "participation.l1_chance": "participation.l1_uniform",
    "participation.l1_noise": "participation.l1_chain",
}
"""Lines that go on with another, and say nothing without it."""


def key_figures(metrics: Mapping[str, float]) -> Iterator[tuple[str, str]]:
    """Yield what they are and what they were, in words: rounds, distances, waits, losses, one's own metrics."""
    for words, name, form in _FIRST:
        idle = name == "rounds.waiting_share" and metrics.get(name) == 0
        if name in metrics and _UNDER.get(name, name) in metrics and not idle:
            yield words, form.format(metrics[name])
    for name, loss in metrics.items():
        if name.startswith("learning.") and name.endswith(".loss"):
            settled = metrics.get(name.replace(".loss", ".converged")) == 1.0
            optimizer = name.removeprefix("learning.").removesuffix(".loss")
            yield f"loss of {optimizer}{'' if settled else ' (not converged)'}", f"{loss:.6f}"
    yield from ((name, f"{value:.6g}") for name, value in metrics.items() if describe(name) is None)
