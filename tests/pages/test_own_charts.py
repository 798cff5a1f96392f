"""Charts of one's own: on the page of a run and of a report made afterwards, and no harm to either where they fail."""

import json
import shutil
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fedsim.cli.main import app
from fedsim.common.errors import ScenarioError
from fedsim.pages.own_charts import own_charts
from fedsim.run.files import checksums
from fedsim.run.load import load_one
from tests.conftest import SMALL, Write

OWN = """\
import numpy as np


class Waiting:
    title = "How long rounds took"
    description = "Seconds from the opening of a round to its close, in ascending order."

    def draw(self, run, axes):
        lengths = np.sort((run.rounds["closed_s"] - run.rounds["opened_s"]).to_numpy())
        axes.plot(np.linspace(0, 1, len(lengths)), lengths)
        axes.set_xlabel("share of the rounds")


class Sessions:
    title, section, notes = "Sessions of every client", "bias", "Counted."

    def __init__(self, *, color: str = "red") -> None:
        self.color = color

    def prepare(self, run):
        return run.participations.group_by("client").len().sort("client")

    def draw(self, data, axes):
        axes.bar(data["client"], data["len"], color=self.color)


class Fails:
    def draw(self, run, axes):
        raise ValueError("<b>no</b>")


class Strange:
    title = 7

    def draw(self, run, axes):
        pass
"""
CHARTS_KEY = (
    "charts: [own_charts:Waiting, {kind: 'own_charts:Sessions', color: blue}, own_charts:Fails, own_charts:Strange]\n"
)


@pytest.fixture
def scenario(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A scenario with charts, and the module that they are in beside it."""
    (tmp_path / "own_charts.py").write_text(OWN)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "own_charts", raising=False)
    return write(SMALL + CHARTS_KEY)


@pytest.mark.long
def test_they_are_drawn_by_the_run_and_by_a_report_of_it(scenario: Path, tmp_path: Path) -> None:
    """With permission the same bytes; without, the page says what is missing and how to get it."""
    out, runner = tmp_path / "run", CliRunner()
    done = runner.invoke(app, ["run", str(scenario), "--out", str(out), "--allow-plugins"])
    assert done.exit_code == 0, done.output
    module = tmp_path / "own_charts.py"
    assert f"chart 'own_charts:Fails' failed: ValueError: <b>no</b> ({module}:29)\n" in done.stderr
    assert f"chart 'own_charts:Strange' failed: TypeError: its title is 7 ({module}:35)\n" in done.stderr
    page = (out / "report.html").read_text(encoding="utf-8")
    assert '<figure id="own-waiting"' in page
    bias, own = page.index('id="own-sessions"'), page.index('id="own"')
    assert page.index('<section id="bias"') < bias < own < page.index('id="own-waiting"')
    assert "<dd>It failed: ValueError: &lt;b&gt;no&lt;/b&gt;</dd>" in page

    without = runner.invoke(app, ["report", str(out)])
    assert (without.exit_code, without.stderr) == (0, "")
    left_out = (out / "report.html").read_text(encoding="utf-8")
    assert (
        left_out.count("Left out, since it runs code of your own: `fedsim report DIR --allow-plugins` draws it.") == 4
    )
    assert '<figure id="own-' not in left_out

    again = runner.invoke(app, ["report", str(out), "--allow-plugins"])
    assert again.exit_code == 0
    assert "own_charts:Fails" in again.stderr
    assert (out / "report.html").read_text(encoding="utf-8") == page
    figures = tmp_path / "figures"
    runner.invoke(app, ["report", str(out), "--allow-plugins", "--figures", str(figures), "--format", "svg"])
    assert sorted(path.name for path in figures.glob("own-*")) == ["own-sessions.svg", "own-waiting.svg"]


@pytest.mark.parametrize(("more", "code"), [([], 0), (["--strict"], 1)])
def test_a_failure_is_told_when_all_else_is_quiet(scenario: Path, tmp_path: Path, more: list[str], code: int) -> None:
    """And costs the exit code with ``--strict``; a chart that is drawn does not."""
    asked = ["run", str(scenario), "--out", str(tmp_path / "run"), "--allow-plugins", "-q", *more]
    done = CliRunner().invoke(app, [*asked, "--set", "charts=[own_charts:Waiting, own_charts:Fails]"])
    assert (done.exit_code, done.stdout) == (code, f"{tmp_path / 'run'}\n")
    assert done.stderr == f"chart 'own_charts:Fails' failed: ValueError: <b>no</b> ({tmp_path / 'own_charts.py'}:29)\n"
    well = CliRunner().invoke(app, [*asked, "--set", "charts=[own_charts:Waiting]"])
    assert (well.exit_code, well.stderr) == (0, "")


def test_nothing_is_imported_without_permission(scenario: Path, tmp_path: Path) -> None:
    out, runner = tmp_path / "run", CliRunner()
    runner.invoke(app, ["run", str(scenario), "--out", str(out), "--allow-plugins"])
    del sys.modules["own_charts"]
    kinds = [each.chart.title for each in own_charts(load_one(out), plugins=False)]
    assert kinds == ["own_charts:Waiting", "own_charts:Sessions", "own_charts:Fails", "own_charts:Strange"]
    assert "own_charts" not in sys.modules


@pytest.mark.parametrize(
    ("charts", "complaint"),
    [
        ("own_charts:Waitng", "charts[0].kind: module 'own_charts' has no 'Waitng'; did you mean 'Waiting'?"),
        (
            "{kind: 'own_charts:Sessions', colour: blue}",
            "charts[0].colour: unknown option 'colour'; did you mean 'color'",
        ),
        ("distance", "charts[0].kind: 'distance' is a chart of every report already"),
        ("waits", "charts[0].kind: unknown chart 'waits'"),
    ],
)
def test_mistakes_are_told_before_anything_runs(scenario: Path, tmp_path: Path, charts: str, complaint: str) -> None:
    for command in (["run", str(scenario), "--out", str(tmp_path / "out")], ["validate", str(scenario)]):
        done = CliRunner().invoke(app, [*command, "--set", f"charts=[{charts}]", "--allow-plugins"])
        assert isinstance(done.exception, ScenarioError)
        assert complaint in str(done.exception)


def test_the_page_has_a_table_of_own_metrics(scenario: Path, tmp_path: Path) -> None:
    """As the manifest describes them: the report needs no code for that."""
    out = tmp_path / "run"
    CliRunner().invoke(app, ["run", str(scenario), "--out", str(out), "--set", "charts=[]"])
    assert 'id="own"' not in (out / "report.html").read_text(encoding="utf-8")
    manifest, metrics = (json.loads((out / name).read_text()) for name in ("manifest.json", "metrics.json"))
    told = [("share.of.it", "share", "A <share>."), ("length", "s", "A time."), ("none", "", "Nothing.")]
    manifest["own_metrics"] = [dict(zip(("name", "unit", "meaning"), each, strict=True)) for each in told]
    figures = json.dumps(metrics | {"share.of.it": 0.25, "length": 90.0, "none": None})
    (out / "manifest.json").write_text(json.dumps(manifest | {"checksums": checksums(manifest, figures)}))
    (out / "metrics.json").write_text(figures)
    shutil.rmtree(out / "series")
    (out / "facts.parquet").unlink()  # as an earlier version left it, which measures again from the tables
    done = CliRunner().invoke(app, ["report", str(out)])
    assert done.exit_code == 0, done.output
    page = (out / "report.html").read_text(encoding="utf-8")
    own = page[page.index('<section id="own"') :]
    assert all(
        text in own for text in ("A &lt;share&gt;.", "25.0\N{NARROW NO-BREAK SPACE}%", "90\N{NARROW NO-BREAK SPACE}s")
    )
