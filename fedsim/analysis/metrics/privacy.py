"""Privacy: what the scenario's mechanism promises, and how far apart the contributions of a client were."""

from fedsim.analysis.metrics.metric import described
from fedsim.analysis.metrics.view import LogView


class Separation:
    """How far apart a client's contributions were."""

    metrics = described(
        "participation",
        """
        separation.least | rounds | Fewest rounds from one report of a client that was taken to its next: b, observed.
    """,
    )

    def measure(self, run: LogView) -> dict[str, float]:
        """Return it; nothing where nobody contributed twice."""
        least = run.tally.least_separation
        return {} if least is None else {"participation.separation.least": float(least)}


class Promised:
    """What the scenario's ``privacy`` promises: it follows from the scenario alone, not from the log."""

    metrics = described(
        "privacy",
        """
        epsilon | | Promised at the scenario's delta: one client, zeroed out; exact for the Gaussian mechanism.
        rho | | The zCDP of the same promise: 1 / (2 noise_multiplier^2).
        sensitivity | | Of the mechanism, for the rounds, separation and cap that the scenario enforces.
        noise_multiplier | | Standard deviation of the noise over clip norm and sensitivity.
        rounds | rounds | Most rounds that the scenario allows: n, promised.
        separation | rounds | Fewest rounds from one participation of a client to its next: b, promised.
        most | | Most participations of a client: k, promised.
    """,
    )

    def measure(self, run: LogView) -> dict[str, float]:
        """Return the promise; nothing where the scenario has no ``privacy``."""
        return {f"privacy.{name}": value for name, value in run.setting.privacy.items()}
