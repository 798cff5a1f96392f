"""The shell completes commands and options, once it was told how."""

from pathlib import Path

import pytest

from tests.command import fedsim


@pytest.mark.parametrize(
    ("typed", "word", "offered"),
    [("fedsim va", 1, ["validate"]), ("fedsim run --se", 2, ["--set", "--seed"]), ("fedsim export s", 2, ["schedule"])],
)
def test_completion(typed: str, word: int, offered: list[str]) -> None:
    done = fedsim(_FEDSIM_COMPLETE="complete_bash", COMP_WORDS=typed, COMP_CWORD=str(word))
    assert (done.returncode, done.stdout.split()) == (0, offered)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_it_is_installed_into_the_home_folder(tmp_path: Path, shell: str) -> None:
    done = fedsim("--install-completion", shell, HOME=str(tmp_path), _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert done.returncode == 0, done.stderr
    written = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert any("_FEDSIM_COMPLETE" in file.read_text(encoding="utf-8") for file in written)


def test_without_a_home_folder_it_says_so(homeless: None) -> None:
    done = fedsim("--install-completion", "bash", _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert (done.returncode, done.stderr) == (2, "error: Could not determine home directory.\n")


def test_help_says_where_a_run_is_written() -> None:
    words = " ".join(fedsim("run", "--help", COLUMNS="400").stdout.split())
    assert "by default runs/NAME, and with --set, --seed or --engine runs/NAME-HASH" in words
