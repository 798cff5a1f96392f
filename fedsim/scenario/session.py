"""A session of a device: how long it takes, and how often there may be one."""

from typing import Annotated, Any

from pydantic import Discriminator, Field, Tag

from fedsim.scenario.sources import NumberSource, RoundsSource, TimeSource
from fedsim.scenario.strict import Model, SparseModel
from fedsim.scenario.work import Fails, Work


class Session(SparseModel):
    """How long each part of a session takes."""

    unwritten = frozenset({"fails"})

    download: TimeSource = Field(default="10s", validate_default=True)
    """From selection until the device holds the model."""
    train: TimeSource = Field(default="60s", validate_default=True)
    """Local training."""
    upload: TimeSource = Field(default="20s", validate_default=True)
    """Until the server holds the report."""
    speed: NumberSource = Field(default=1, validate_default=True)
    """How fast each device is: all three lengths are divided by it."""
    fails: Fails | None = None
    """Sessions that fail while their device stays available; none, where this is not given."""

    @property
    def instant(self) -> bool:
        """Whether a session surely takes no time."""
        return all(part.kind == "constant" and part.value == 0 for part in (self.download, self.train, self.upload))


def _kind_of_session(session: Any) -> str:
    worked = Work.model_fields.keys() - Session.model_fields.keys() if isinstance(session, dict) else ()
    return "work" if isinstance(session, Work) or any(key in session for key in worked) else "times"


AnySession = Annotated[Annotated[Session, Tag("times")] | Annotated[Work, Tag("work")], Discriminator(_kind_of_session)]


class Participations(Model):
    """How often a client may take part."""

    most: RoundsSource
    """The cap: a client that has taken part so often is out for good; 1 or more. Selections count or, with
    ``cooldown_from: reported`` of the server, reports that were taken."""
