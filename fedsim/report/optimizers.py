"""What the learning table says of the optimizers: who they are, which are references, which still descend.

A drift relative to the loss is small for every run that has hardly begun to fall; relative to the descent so far it
is not. The two together let a reader see whether curves have settled or are merely slow.
"""

from collections.abc import Mapping, Sequence

from fedsim.report.finished_run import FinishedRun

REFERENCE = "_uniform"
"""What the name of an optimizer gets behind it where it was trained under uniform participation."""


def optimizers(run: FinishedRun) -> tuple[str, ...]:
    """Name the optimizers in the order of the learning table."""
    if run.learning is None:
        return ()
    return tuple(str(name) for name in run.learning["optimizer"].unique(maintain_order=True))


def references(names: Sequence[str]) -> Mapping[str, str]:
    """Tell which of the optimizers is there to compare with: one trained under uniform participation -> its own."""
    return {name + REFERENCE: name for name in names if name + REFERENCE in names}


def late_descents(run: FinishedRun) -> Mapping[str, float]:
    """Share of each optimizer's descent that fell between the third quarter of the run and the fourth.

    `fedsim.learning.summarise` defines it. An optimizer without a descent, or without values there, is left out.
    """
    shares = {name: run.metrics.get(f"learning.{name}.late_descent") for name in optimizers(run)}
    return {name: share for name, share in shares.items() if share is not None}


def slow_descents(run: FinishedRun) -> Mapping[str, float]:
    """Those late descents of which so much fell so late that they are still going on."""
    if not (late := late_descents(run)):
        return {}
    from fedsim.learning.summary import CONVERGED_DESCENT

    return {name: share for name, share in late.items() if share > CONVERGED_DESCENT}
