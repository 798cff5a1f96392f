"""(n, b, k)-participation: what matrix mechanisms assume about who takes part."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ParticipationBounds:
    """n rounds; two participations of a client are at least b rounds apart, and it has at most k.

    A `ValueError` is raised if one of them is less than 1.
    """

    rounds: int  # n
    min_separation: int = 1  # b: rounds t < t' have t' - t >= b; an enforced separation R gives b = R + 1
    most: int | None = None  # k; None for no cap

    def __post_init__(self) -> None:
        for name in ("rounds", "min_separation", "most"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, not {value}")

    @property
    def participations(self) -> int:
        """Most participations that are possible: min(k, ceil(n / b))."""
        return self._fitting if self.most is None else min(self.most, self._fitting)

    @property
    def capped(self) -> bool:
        """Whether k allows fewer participations than n and b alone would."""
        return self.most is not None and self.most < self._fitting

    @property
    def _fitting(self) -> int:
        return -(-self.rounds // self.min_separation)
