"""A session of a buffered server that has ended."""

from typing import NamedTuple


class EndedSession(NamedTuple):
    """A session that has ended; in the order of rows, which is that of versions and positions.

    Attributes
    ----------
    row
        The recorder's.
    client
        Whose it was.
    version
        Of the server, when it began.
    outcome
        ``reported``, which is still for the server to judge, ``dropped``, ``late`` or ``aborted``.
    """

    row: int
    client: int
    version: int
    outcome: str
