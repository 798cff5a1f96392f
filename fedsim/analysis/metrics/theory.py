"""The measured frequencies against those that theory predicts."""

from fedsim.analysis.metrics.metric import described
from fedsim.analysis.metrics.view import LogView
from fedsim.analysis.participation import l1


class AgainstTheory:
    """Distances from the predicted frequencies."""

    metrics = described(
        "participation",
        """
        l1_uniform_theory | L1 | Distance from uniform that theory predicts.
        l1_chain | L1 | Distance of the measured frequencies from those that theory predicts.
    """,
    )

    def measure(self, run: LogView) -> dict[str, float]:
        """Return the distances; nothing where there is no theory."""
        if run.clients["pi"].null_count():
            return {}
        pi = run.clients["pi"].to_numpy()
        metrics = {"participation.l1_uniform_theory": l1(pi, 1.0 / len(run.clients))}
        if run.clients["participations"].sum():
            metrics["participation.l1_chain"] = l1(run.clients["frequency"].to_numpy(), pi)
        return metrics
