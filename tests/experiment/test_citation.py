"""What to cite for a run: every built-in method that has a source in its module has one here."""

import re
import sys

import fedsim
from fedsim.experiment.citation import _SOURCES
from fedsim.learning.optimizers import OPTIMIZERS
from fedsim.privacy.mechanisms import MECHANISMS
from fedsim.scenario import Scenario


def test_a_run_is_told_the_sources_of_its_methods() -> None:
    changes = ["stop.rounds=5", "learning.optimizers=[scaffold, {kind: debiased_fedavg, server: adam}]"]
    result = fedsim.simulate(Scenario.load("scenarios/paper/synthetic.fedsim.yaml", changes))
    first, model, *methods = fedsim.citation(result).splitlines()
    assert first.startswith(f"fedsim {fedsim.__version__}, ")
    assert model.endswith("ICLR 2025, arXiv:2410.01209")
    assert methods == [
        "adam: Reddi et al. ICLR 2021, arXiv:2003.00295",
        "robust_regression: Sun and Wei NeurIPS 2022, arXiv:2206.01132",
        "scaffold: Karimireddy et al. ICML 2020, arXiv:1910.06378",
    ]


def test_sources_are_those_of_the_modules() -> None:
    found = dict(each.split(": ") for each in " ".join(_SOURCES.split()).split("; "))
    without = {"debiased_fedavg", "oracle_weighted", "independent"}  # of the model's paper, and of everybody
    for registry in (OPTIMIZERS, MECHANISMS):
        for kind in set(registry.built_in) - without:
            told = sys.modules[registry[kind].__module__].__doc__ or ""
            assert re.search(rf"arXiv:{found[kind].rsplit(' ', 1)[1]}\b", told), kind
