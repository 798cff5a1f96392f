"""Commands that pages name: each key is set once, and each writes to a folder of its own."""

from pathlib import Path
from shlex import split

from fedsim.pages.commands import command_of, in_own_folders, log_command, longer, with_seeds
from fedsim.run.check import Check, Grade
from fedsim.scenario.log import ProductionLog
from fedsim.scenario.stop import Stop

RUN = "fedsim run a.yaml --out runs/a --set stop.rounds=60 --set 'name=a b' --seed 3"


def test_a_setting_replaces_the_one_that_there_is() -> None:
    command = longer({"command": RUN}, Stop(rounds=60), 2)
    assert split(command) == split("fedsim run a.yaml --out runs/a-2 --set 'name=a b' --seed 3 --set stop.rounds=120")
    assert longer({"command": command}, Stop(rounds=120), 2).count("stop.rounds") == 1


def test_another_verb_has_a_folder_of_its_own() -> None:
    command = with_seeds({"command": RUN}, 5)
    assert command.startswith("fedsim sweep a.yaml --set stop.rounds=60")
    assert command.endswith("--set sweep.seeds=5")
    assert with_seeds({"command": "fedsim decide a.yaml"}, 5) == "fedsim decide a.yaml --set decide.seeds=5"


def test_no_two_commands_of_a_page_write_to_one_folder() -> None:
    commands = [
        "fedsim run a.yaml --out a-2 --set x=1",
        "fedsim run a.yaml --out a-2 --set y=1",
        "",
        "fedsim run a.yaml",
    ]
    commands += ["fedsim run a.yaml --out a --seed 2", "fedsim run a.yaml --out a-2 --set z=1", commands[0]]
    shown = in_own_folders([Check("x", Grade.NONE, "", command=each) for each in commands])
    folders = [each.command.partition("--out ")[2].partition(" ")[0] for each in shown]
    assert folders == ["a-2", "a-3", "", "", "a", "a-4", "a-2"]
    both = Check("x", Grade.NONE, "", command="fedsim run a --out a\nfedsim run b --out b\nfedsim compare a b")
    assert in_own_folders([both]) == (both,)


def test_what_has_no_command_proposes_none() -> None:
    assert command_of({}) == command_of({"command": "make all"}) == command_of({"command": RUN}, "decide") == ""


def test_a_log_is_read_as_it_was_and_by_one_more_option() -> None:
    """All that was given of it, as the options have it: two words of one meaning too."""
    told = {"file": "a b.csv", "columns": {"client": "id"}, "outcomes": {"OK": "reported", "FINE": "reported"}}
    more = {"base": "2026-01-05T00:00:00Z", "unit": "ms", "check_ins": "there.csv"}
    log = ProductionLog.model_validate(told | more)
    words = split(log_command("measure", log, "--clients FILE"))
    here = log.model_copy(update={"file": str(Path("a b.csv").absolute()), "clients": "all.csv"})
    assert words[:3] == split(log_command("measure", here, ""))[:3] == ["fedsim", "measure", "a b.csv"]
    assert "--clients" not in split(log_command("calibrate", here, ""))
    assert dict(zip(words[3::2], words[4::2], strict=True)) == {
        "--columns": "client=id",
        "--outcomes": "reported=OK|FINE",
        "--base": "2026-01-05T00:00:00Z",
        "--unit": "ms",
        "--check-ins": "there.csv",
        "--clients": "FILE",
    }
