"""What the commands that make a run directory share: the run, its figures, its answer and its exit code."""

from pathlib import Path
from typing import TYPE_CHECKING

from typer import Exit

from fedsim.cli.replay import show_verdict
from fedsim.common.errors import ScenarioError
from fedsim.common.messages import complain, keep_quiet, say, say_json

if TYPE_CHECKING:
    from fedsim.pages.answer import Answer
    from fedsim.run.files import Provenance
    from fedsim.scenario import Scenario


def record_and_tell(
    scenario: "Scenario",
    directory: Path,
    provenance: "Provenance",
    *,
    resume: bool = False,
    as_json: bool = False,
    quiet: bool = False,
    page: bool = True,
    strict: bool = False,
) -> None:
    """Write a run directory with its page, tell its outcome, and end with its exit code."""
    import matplotlib.artist

    from fedsim.common.files import pasteable
    from fedsim.common.progress import on_stderr
    from fedsim.measure.limits import judge

    # Texts for `help`, which nobody asks of a command: without them a small run takes 7 % less time.
    matplotlib.artist.kwdoc = lambda artist: ""  # noqa: ARG005
    from fedsim.pages.page import answer_of
    from fedsim.pages.terminal import spoken
    from fedsim.run.check import exit_code
    from fedsim.run.files import PAGE
    from fedsim.run.run import figure_lines
    from fedsim.run.simulate import record

    check_charts_of(scenario)
    hear, failed = keep_quiet if quiet else complain, list[str]()
    answers: list[Answer] = []
    try:
        with on_stderr(quiet=quiet) as progress:
            done = record(
                scenario,
                directory,
                provenance,
                resume=resume,
                page=page,
                progress=progress,
                tell=hear,
                chart_failed=failed.append,
                answered=answers.append,
            )
    except KeyboardInterrupt:
        complain(f"To go on: {provenance.command('run', '--out', pasteable(str(directory)), '--resume')}")
        raise
    for failure in failed:
        complain(failure)
    answers = answers or [answer_of(done)]  # without a page, or of a run that was complete before
    verdict, written = judge(scenario, [done.metrics], done.own_metrics), directory / PAGE
    if done.failure:
        complain(f"error: {done.failure}", red=True)
    if as_json:
        judged = [judgement.as_dict() for judgement in verdict]
        report_file = str(written) if written.exists() else None
        say_json({"directory": str(directory), "report": report_file, "metrics": done.metrics, "verdict": judged})
    else:
        for line in figure_lines(done):
            hear(line)
        for text in (line for answer in answers for line in spoken(answer)):
            hear(text)
        if written.exists():
            hear(f"Report: {written}")
        say(str(directory))
    if verdict:
        show_verdict(verdict, Path(provenance.file or directory), quiet=quiet)
    raise Exit(exit_code(answers[0].checks) or int(strict and bool(failed)))


def check_charts_of(scenario: "Scenario") -> None:
    """Refuse a scenario whose own charts cannot be drawn."""
    if not scenario.charts:
        return
    from fedsim.pages.charts import check_charts

    if mistakes := check_charts(scenario):
        raise ScenarioError(mistakes)
