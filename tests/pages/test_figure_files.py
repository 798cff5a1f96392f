"""Figures on demand: formats, sizes, places, and what is said of a wish that cannot be met."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from matplotlib.axes import Axes
from PIL import Image

from fedsim.pages import report_figures, write_report
from fedsim.pages.charts import Chart
from fedsim.pages.charts.marks import finish
from fedsim.pages.page import FigureStyle, figure_style, write_figures
from fedsim.pages.render import LEAST_TEXT, figure_file, picture
from tests.command import fedsim

from .runs import comparison_of, one_client, write_run
from .sweeps import write_sweep

SVG = "{http://www.w3.org/2000/svg}"


def draw(axes: Axes) -> None:
    (drawn,) = axes.plot([0, 1], [0, 1])
    finish(axes, "", "", [(drawn, "a line")])


SHOWN = Chart("name", "A title that says in so many words what is to be seen here", "Seen.", (), None, draw)


def texts(svg: bytes) -> list[tuple[str, float]]:
    """Return the texts of an SVG file, and their sizes in points."""
    root = ElementTree.fromstring(svg)
    _, _, width, _ = map(float, root.attrib["viewBox"].split())
    assert root.attrib["width"] == f"{width:g}pt"
    styles = [(each.text or "", each.attrib["style"]) for each in root.iter(f"{SVG}text")]
    return [(text, float(re.findall(r"font-size: ([\d.]+)px", style)[0])) for text, style in styles]


@pytest.mark.parametrize(
    ("width", "inches"), [("3.25in", 3.25), ("84 mm", 84 / 25.4), ("8.4cm", 8.4 / 2.54), ("240pt", 240 / 72)]
)
def test_a_width_has_a_unit(width: str, inches: float) -> None:
    style = figure_style("pdf", width, 600)
    assert (style.form, style.dpi) == ("pdf", 600)
    assert style.width == pytest.approx(inches)


@pytest.mark.parametrize("width", [2.5, 3.25, 4.4, 7.0])
def test_a_figure_has_the_width_that_was_asked_for_and_no_text_below_seven_points(width: float) -> None:
    svg = figure_file(SHOWN, "svg", width, 200)
    assert float(ElementTree.fromstring(svg).attrib["width"].removesuffix("pt")) == pytest.approx(72 * width)
    sizes = [size for _, size in texts(svg)]
    assert len(sizes) > 10
    assert min(sizes) >= LEAST_TEXT - 1e-9


@pytest.mark.long
def test_every_chart_of_a_run_keeps_its_texts_large_enough_for_a_column(written: Path, tmp_path: Path) -> None:
    files = report_figures([written], tmp_path / "figures", FigureStyle("svg", 3.25))
    assert len(files) > 5
    for path in files:
        assert min(size for _, size in texts(path.read_bytes())) >= LEAST_TEXT, path.name


def test_a_long_title_is_whole_on_as_many_lines_as_it_takes(tmp_path: Path) -> None:
    def titled(title: str) -> list[str]:
        svg = figure_file(Chart("name", title, "Seen.", (), None, draw), "svg", 3.25, 200)
        return [text for text, _ in texts(svg) if text != "a line" and re.search("[a-z]{3}", text)]

    assert titled("Short enough") == ["Short enough"]
    assert len(titled("A title that says in so many words what is to be seen here")) == 2
    long = "Participation of the clients that are least available, compared with their fair share, over three seeds"
    assert " ".join(titled(long)) == long
    endless = titled("and so on " * 40)
    assert len(endless) == 4
    assert endless[-1].endswith("…")


def test_the_page_has_a_heading_for_the_title_that_files_have() -> None:
    shown, svg = picture(SHOWN), figure_file(SHOWN, "svg", 3.5, 200)
    assert "A title" in " ".join(text for text, _ in texts(svg))
    assert "A title" not in shown.inline
    assert "patch_1" in svg.decode()
    assert "patch_1" not in shown.inline
    assert "a line" in shown.inline


def test_png_has_the_dots_that_were_asked_for(tmp_path: Path) -> None:
    (tmp_path / "x.png").write_bytes(figure_file(SHOWN, "png", 3.25, 600))
    with Image.open(tmp_path / "x.png") as image:
        image.load()
        assert image.width == 1950
        assert image.info["dpi"] == pytest.approx((600, 600), rel=1e-3)
        assert set(image.info) <= {"dpi"}


def test_pdf_has_the_width_and_embedded_fonts() -> None:
    pdf = figure_file(SHOWN, "pdf", 3.25, 600)
    (box,) = re.findall(rb"/MediaBox \[ 0 0 ([\d.]+) [\d.]+ \]", pdf)
    assert float(box) == pytest.approx(234)
    assert b"/FontFile2" in pdf
    assert b"/Type3" not in pdf


@pytest.mark.parametrize("form", ["png", "svg", "pdf"])
def test_the_same_chart_gives_the_same_bytes_without_a_date(form: str) -> None:
    first = figure_file(SHOWN, form, 3.25, 100)
    assert figure_file(SHOWN, form, 3.25, 100) == first
    assert b"CreationDate" not in first
    assert b"date>" not in first


@pytest.mark.filterwarnings("error")
def test_names_in_letters_that_the_font_lacks_are_left_to_the_fonts_of_the_reader() -> None:
    def named(axes: Axes) -> None:
        axes.plot([0, 1], [0, 1])
        axes.set_yticks([0, 1], labels=["北京", "上海 1"])

    chart = Chart("name", "In 北京", "Seen.", (), None, named)
    assert "北京" in picture(chart).inline
    assert "北京" in figure_file(chart, "svg", 3.5, 200).decode()
    assert figure_file(chart, "png", 3.5, 100) == figure_file(chart, "png", 3.5, 100)


def test_a_report_is_its_page_alone(run_directory: Path) -> None:
    before = set(run_directory.iterdir())
    write_report(run_directory)
    assert set(run_directory.iterdir()) - before == {run_directory / "report.html"}


@pytest.mark.long
def test_sweeps_and_comparisons_have_figures_too(tmp_path: Path) -> None:
    runs = [write_run(tmp_path / name / "run", rounds=30) for name in ("a", "b")]
    sweep = write_sweep(tmp_path / "sweep", cohorts=(5,))
    written = report_figures([*runs, sweep], tmp_path / "out", FigureStyle("svg"))
    folders = {path.parent.name for path in written}
    assert folders == {"run", "run-2", "sweep"}
    assert tmp_path / "out" / "sweep" / "trade-off.svg" in written
    compared = write_figures(comparison_of(runs[0], runs[1]), tmp_path / "compared", FigureStyle("svg"))
    assert tmp_path / "compared" / "frequencies.svg" in compared


@pytest.mark.long
def test_a_figure_that_no_longer_applies_is_removed(run_directory: Path, tmp_path: Path) -> None:
    folder = tmp_path / "figures"
    first = report_figures([run_directory], folder, FigureStyle("svg"))
    (folder / "mine.svg").write_text("kept")
    one_client(run_directory)
    second = report_figures([run_directory], folder, FigureStyle("svg"))
    assert {path.name for path in second} < {path.name for path in first}
    assert {path.name for path in folder.iterdir()} == {"mine.svg", *(path.name for path in second)}


@pytest.mark.long
def test_the_command_line_writes_figures(run_directory: Path, tmp_path: Path) -> None:
    folder = tmp_path / "figures"
    asked = ("--figures", folder, "--format", "pdf", "--width", "3.25in", "--dpi", 600)
    done = fedsim("report", run_directory, *asked)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [str(folder / f"{path.stem}.pdf") for path in map(Path, done.stdout.split())]
    assert not (run_directory / "report.html").exists()
    done = fedsim("compare", run_directory, run_directory, *asked)
    assert done.returncode == 0, done.stderr
    assert (folder / "frequencies.pdf").exists()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--format", "gif"], "'gif' is not a format of figures, which are png, svg and pdf"),
        (["--format", "png"], "is of figures; name a folder for them with --figures"),
        (["--width", "3in"], "is of figures; name a folder for them with --figures"),
        (["--dpi", "300"], "is of figures; name a folder for them with --figures"),
        (["--figures", "f", "--format", "html"], "'html' is not a format of figures, which are png, svg and pdf"),
        (["--figures", "f", "--width", "3"], "'3' is not a width: a number and its unit, such as 3.25in, 84mm"),
        (["--figures", "f", "--width", "1cm"], "1cm is out of range: a figure is from 2.5in to 30in wide"),
        (["--figures", "f", "--dpi", "9"], "9 dots an inch are out of range: a resolution is from 50 to 2,400"),
        (["--figures", "f", "--width", "20in", "--dpi", "2400"], "are 48,000 dots: a figure has at most 15,000"),
        (["--figures", "f", "--out", "x.html"], "is for pages and summaries; --figures names a folder itself"),
    ],
)
def test_a_wish_that_cannot_be_met_is_told(
    run_directory: Path, tmp_path: Path, arguments: list[str], complaint: str
) -> None:
    done = fedsim("report", run_directory, *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert complaint in done.stderr
    assert not (tmp_path / "f").exists()
