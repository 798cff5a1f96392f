"""What a scenario means once it is read."""

import json
import re

import pytest

from fedsim.common.errors import ScenarioError
from fedsim.scenario import Scenario, scenario_schema, starter
from tests.conftest import Load, Write


def test_a_resolved_scenario_reads_as_itself(small: Load) -> None:
    scenario = small("population.0.availability={kind: renewal, on: 1d12h, off: 90s}", "server.deadline=1.25s")
    resolved = json.loads(json.dumps(scenario.model_dump(mode="json")))
    assert Scenario.model_validate(resolved).model_dump() == scenario.model_dump()


@pytest.mark.parametrize(
    ("cohort", "over", "wanted"), [(100, 1.3, 130), (10, 1.0, 10), (3, 1.1, 4), (7, 1.0 + 1 / 7, 8)]
)
def test_over_selection_rounds_up_and_no_further(small: Load, cohort: int, over: float, wanted: int) -> None:
    assert small(f"server.cohort={cohort}", f"server.over_select={over}").server.wanted == wanted


def test_a_question_is_one_line(small: Load) -> None:
    assert small("question=Who wins?").question == "Who wins?"
    assert "question" not in small().model_dump(mode="json")
    with pytest.raises(ScenarioError, match="question: must be one line; `description` takes more"):
        small('question="Who wins?\\nAnd why?"')


def test_yaml_1_2(write: Write) -> None:
    """No sexagesimal numbers, no yes and no, underscores in numbers: as YAML 1.2 has it."""
    path = write(
        """\
        name: 12:30
        description: no
        stop: {rounds: 4_000}
        population: [{devices: 1_0}]
        server: {cohort: 2}
        """
    )
    scenario = Scenario.load(path)
    assert (scenario.name, scenario.description, scenario.stop.rounds, scenario.devices) == ("12:30", "no", 4000, 10)


@pytest.mark.parametrize(("value", "kind"), [("!!int x", "a number"), ("!!bool x", "true or false")])
def test_what_a_tag_announces_must_be_there(small: Load, value: str, kind: str) -> None:
    with pytest.raises(ScenarioError, match=f"'x' cannot be read as {kind}"):
        small(f"seed={value}")


def test_the_schema_lists_every_key_with_a_description() -> None:
    schema = scenario_schema()
    assert set(schema["properties"]) == {*Scenario.model_fields, "extends"}
    for model in (schema, *schema["definitions"].values()):
        if model.get("additionalProperties") is not False or OF_A_NAME.search(model["title"]):
            continue
        without = [name for name, entry in model["properties"].items() if "description" not in entry]
        assert set(without) <= {"kind", "schema_version"}, model.get("title")
    assert "renewal" in json.dumps(schema)


OF_A_NAME = re.compile(r"(Problem|Optimizer|ServerUpdate|Mechanism|Metric|Mnist|DataFile|Shards|Tied|Partition)$")
"""Options of problems, optimizers and the like, which pages describe."""


@pytest.mark.parametrize("name", ["my-first", "a: b # c", "true", "12"])
def test_a_starter_is_a_scenario(write: Write, name: str) -> None:
    for template in ("phones", "paper", "buffered", "privacy", "fleet"):
        assert Scenario.load(write(starter(name, template))).name == name
