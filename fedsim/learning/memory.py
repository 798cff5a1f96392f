"""Memory that an optimizer needs for every client, refused where there is not so much."""

from fedsim.common.memory import SHARE, free_bytes, readable
from fedsim.learning.failures import LearningError


def require(what: str, needed: int, hint: str) -> None:
    """Refuse to allocate more than is free.

    Raises
    ------
    LearningError
        With what is needed, what there is, and the hint, which says what to do about it.
    """
    free = free_bytes()
    if free is not None and needed > SHARE * free:
        raise LearningError(f"{what} would take {readable(needed)}, and {readable(free)} are free; {hint}")
