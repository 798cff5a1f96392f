"""Which law of the chain is a scenario's selection law."""

from fedsim.common.errors import ChainError
from fedsim.scenario.server import Server
from fedsim.selection import theory_of


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
