"""(n, b, k)-participation: what differential privacy by matrix mechanisms is told about who takes part."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ParticipationBounds:
    """n rounds; two participations of a client are at least b rounds apart, and it has at most k.

    Attributes
    ----------
    rounds
        n, at least 1.
    min_separation
        b, at least 1, which means any two rounds: participations in rounds t < t' have t' - t >= b. A separation R that
        is enforced gives b = R + 1.
    most
        k, at least 1; no cap where it is None.

    Raises
    ------
    ValueError
        If one is less than 1.
    """

    rounds: int
    min_separation: int = 1
    most: int | None = None

    def __post_init__(self) -> None:
        for name in ("rounds", "min_separation", "most"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, not {value}")

    @property
    def participations(self) -> int:
        """Most participations that are possible: min(k, ceil(n / b))."""
        fitting = -(-self.rounds // self.min_separation)
        return fitting if self.most is None else min(self.most, fitting)

    @property
    def capped(self) -> bool:
        """Whether k allows fewer participations than n and b alone would."""
        return self.most is not None and self.most < -(-self.rounds // self.min_separation)
