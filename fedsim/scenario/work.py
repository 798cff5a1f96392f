"""Sessions from work: bytes over a link, and samples on a class of devices, instead of plain times."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field, WithJsonSchema

from fedsim.scenario.component import Choice, Kinds
from fedsim.scenario.devices import PLACES, check_device_class
from fedsim.scenario.sources import Column, LinkSource, NumberSource, RateSource
from fedsim.scenario.strict import Model, Positive, SparseModel, value_as
from fedsim.scenario.units import Grams, Size

DeviceName = Annotated[
    str, AfterValidator(check_device_class), WithJsonSchema({"type": "string", "enum": list(PLACES)})
]


class ConstantDevice(Choice):
    """The same class for every device of the group."""

    kind: Literal["constant"]
    value: DeviceName
    """What it is."""


class DeviceShares(Choice):
    """Each device belongs to one of several classes, by chance."""

    kind: Literal["shares"]
    shares: Annotated[dict[DeviceName, Positive], Field(min_length=1)]
    """Chance of each class; taken relative to their sum."""


def _short_device(value: Any) -> Any:
    if isinstance(value, dict) and "kind" not in value:
        return {"kind": "shares", "shares": value}
    return value_as("constant", "value")(value)


DeviceSource = Annotated[
    ConstantDevice | DeviceShares | Column, Kinds(_short_device, DeviceName | dict[DeviceName, Positive])
]


class WorkLink(Model):
    """The network at work: a share of the sessions goes over it, both ways."""

    share: Annotated[float, Field(gt=0, le=1)]
    """Chance of each session that the device is at work."""
    down: RateSource
    """From the server to the device, in bits a second."""
    up: RateSource
    """From the device to the server, in bits a second."""


class Link(SparseModel):
    """How fast bytes go: laws of speeds in bits a second, drawn anew for each session, or a speed for each device."""

    unwritten = frozenset({"work"})

    down: LinkSource
    """Bits per second from the server to the device; a column has one for each device, in all of its sessions."""
    up: LinkSource
    """Bits per second from the device to the server."""
    work: WorkLink | None = None
    """Another network, over which some of the sessions go; then `down` and `up` are of the one at home."""


class Fails(Model):
    """Sessions that end as dropped at a random time, by a crash or a lost connection; the device stays available."""

    per_hour: Annotated[float, Field(gt=0, le=3600)]
    """Failures in an hour of session."""

    losses: ClassVar[Mapping[str, str]] = {"dropped": "sessions fail by themselves (session.fails)"}
    """The outcomes with which such sessions end, each with its cause."""


class Work(SparseModel):
    """What a participation has to do; it takes as long as the device and its link need for that."""

    elsewhere: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("download", "train", "upload", "speed"),
        "is of a session in plain times; this one follows from work (model, samples, device, link)",
    )
    unwritten = frozenset({"update", "needs", "fails"})

    model: Size
    """Bytes that are downloaded."""
    update: Size | None = None
    """Bytes that are uploaded; as many as downloaded, where this is not given."""
    samples: NumberSource
    """Samples (a number) that a device trains on in a session, over all local epochs."""
    cost: Positive = 1.0
    """What a training step on a sample costs, relative to MobileNet-V2 on an image of 224 x 224 pixels."""
    device: DeviceSource
    """The class of each device, of those that `docs/questions/fleet.md` lists; for a mixture the share of each."""
    link: Link
    """Speeds of the network."""
    needs: Size | None = None
    """Bytes of memory that training needs: devices of classes that have less never take part."""
    fails: Fails | None = None
    """Sessions that fail while their device stays available; none, where this is not given."""

    instant: ClassVar[bool] = False
    """Whether a session surely takes no time."""

    @property
    def sent(self) -> float:
        """Bytes that are uploaded."""
        return self.model if self.update is None else self.update


class Prices(Model):
    """What a fleet is paid for, all in one currency of your choice, and the carbon dioxide of its energy."""

    gigabyte: Annotated[float, Field(ge=0, le=1e9)] = 0.0
    """Money for a gigabyte (10^9 bytes), up or down."""
    kilowatt_hour: Annotated[float, Field(ge=0, le=1e9)] = 0.0
    """Money for a kilowatt-hour that devices spend in sessions."""
    device_hour: Annotated[float, Field(ge=0, le=1e9)] = 0.0
    """Money for an hour of a device in a session."""
    carbon: Grams | None = None
    """Mass of CO2 for a kilowatt-hour (such as 400g); none are told, where this is not given."""
