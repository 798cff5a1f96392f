"""What people bring: a kind of their own beside the built-in ones, with options that its class takes."""

from typing import Annotated, Any, get_args

from pydantic import ConfigDict, Discriminator, Field

from fedsim.common.registry import brought
from fedsim.scenario.model import Model

KNOWN, OWN = "known", "own"
"""Tags of the built-in kinds and of one's own in a union that is open to both."""


class Component(Model):
    """Something by name: one that fedsim or an installed package knows, or ``package.module:Name``; and its options."""

    model_config = ConfigDict(extra="allow")

    kind: Annotated[str, Field(min_length=1)]
    """A known name, or ``package.module:Name`` for one of your own."""

    @property
    def options(self) -> dict[str, Any]:
        """The keys beside `kind`."""
        return dict(self.model_extra or {})


def open_to_own(*known: type[Model]) -> Discriminator:
    """Return what tells the built-in kinds of a union from one's own.

    Parameters
    ----------
    known
        Its models, each with a literal `kind`.
    """
    kinds = {kind for model in known for kind in get_args(model.model_fields["kind"].annotation)}

    def tag(value: Any) -> str:
        kind = value.get("kind") if isinstance(value, dict) else getattr(value, "kind", None)
        return OWN if isinstance(kind, str) and kind not in kinds and brought(kind) else KNOWN

    return Discriminator(tag)
