"""What the site is made of: the files of the repository under their own names, so that every link between them holds.

A hook of MkDocs (``mkdocs.yml``). Pages are README.md, the changelog and the Markdown of the folders below; beside them
the pages of reports, pictures, and whatever else a page links to. The reference is made of docstrings.
"""

import os
import re
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)\s#]+)(?:#[^)\s]*)?\)")
MATH = re.compile(r"^```.*?^```|`[^`]*`|\$\$(.+?)\$\$|\$([^$]+?)\$", re.DOTALL | re.MULTILINE)
"""Code, which is left as it is, a displayed formula, or one within a line."""
FOLDERS = ("docs", "benchmarks", "reports", "examples")
"""Folders whose Markdown is shown."""
GALLERY = "reports/gallery.html"
"""Where reports/index.html is: the name belongs to the page made of reports/README.md."""
REFERENCE = "docs/reference/python.md"
"""In the repository signatures and first words, on the site the docstrings."""
STYLE = "site.css"
_CONTRAST = """\
.md-typeset a:not(.headerlink):not(.md-button) { text-decoration: underline; }
[data-md-color-scheme=default] {
  --md-default-fg-color--light: #595959; --md-default-fg-color--lighter: #6b6b6b;
  --md-code-hl-number-color: #b71c1c; --md-code-hl-keyword-color: #2f5cb0;
}
[data-md-color-scheme=slate] {
  --md-default-fg-color--light: #b8bdc9; --md-default-fg-color--lighter: #a0a6b4; --md-typeset-a-color: #9fb0ff;
}
"""
"""Text that stands out from what is behind it by 4.5 to 1, and links that are known by more than their colour."""
GUIDES = {
    "Describe a federation": ("scenario-file", "availability", "shocks", "traces", "buffered-server"),
    "Ask and read": ("report", "run-directory", "sweeps", "expectations", "ci", "scaling"),
    "Learning and privacy": ("learning", "privacy", "schedules", "frameworks"),
    "Extend": ("api", "extending", "own-learning", "untrusted-files"),
}
LEARN = ("tutorial", "glossary", "notebooks")
BACKGROUND = (
    *(
        "theory/README",
        "chain",
        "simultaneous-events",
        "independence",
        "studies",
        "paper-results",
        "validation",
        "design",
    ),
    *("promises", "releasing"),
)
ROOMS = {
    "Theory": (
        "fedsim.theory",
        "The laws and what follows from them, for arrays of weights; [the theory](../chain.md) explains them.",
    ),
    "Privacy": ("fedsim.privacy", "Matrix mechanisms; [privacy](../privacy.md) says what they promise."),
}


def pages() -> list[Path]:
    """Return the Markdown files of the site, relative to the repository."""
    files = [ROOT / "README.md", ROOT / "CHANGELOG.md"]
    files += [file for folder in FOLDERS for file in sorted((ROOT / folder).rglob("*.md"))]
    return [file.relative_to(ROOT) for file in files]


def linked(page: Path) -> set[Path]:
    """Return the files that a page links to, relative to the repository; a folder is shown by none."""
    there = (ROOT / page).parent
    files = {(there / link).resolve() for link in LINK.findall((ROOT / page).read_text(encoding="utf-8"))}
    return {file.relative_to(ROOT) for file in files if file.is_file() and file.is_relative_to(ROOT)}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Order the pages; those about questions are all in their folder."""
    listed = {page for pages_of in GUIDES.values() for page in pages_of} | {*LEARN, *BACKGROUND}
    rest = sorted(file.stem for file in (ROOT / "docs").glob("*.md") if file.stem not in listed)
    guides = [{title: [f"docs/{name}.md" for name in names]} for title, names in GUIDES.items()]
    questions = sorted((ROOT / "docs/questions").glob("*.md"), key=lambda file: (file.name != "README.md", file.name))
    examples = [file.as_posix() for file in pages() if file.parts[0] == "examples"]
    config.nav = [
        {"Home": "README.md"},
        {"Learn": [f"docs/{name}.md" for name in LEARN]},
        {"Questions": [file.relative_to(ROOT).as_posix() for file in questions]},
        {"Guide": [*guides, *(f"docs/{name}.md" for name in rest)]},
        {"Reference": [f"docs/reference/{file.name}" for file in sorted((ROOT / "docs/reference").glob("*.md"))]},
        *([{"Examples": examples}] if examples else []),
        {"Gallery": ["reports/README.md", "reports/claims.md", "reports/studies.md"]},
        {"Understand": [*(f"docs/{name}.md" for name in BACKGROUND), "benchmarks/RESULTS.md", "CHANGELOG.md"]},
    ]
    return config


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Put the repository's files in the place of those of the folder docs."""
    docs = os.fspath(ROOT / "docs")
    for file in list(files):
        if file.src_dir == docs:
            files.remove(file)
    shown = [page for page in pages() if page.as_posix() != REFERENCE]
    beside = {file.relative_to(ROOT) for file in (ROOT / "reports").glob("*.html")}
    for page in shown:
        beside |= linked(page)
    for file in sorted({*shown, *beside} - {Path("reports/index.html"), Path(REFERENCE)}):
        files.append(File.generated(config, file.as_posix(), abs_src_path=os.fspath(ROOT / file)))
    gallery = (ROOT / "reports/index.html").read_text(encoding="utf-8")
    gallery = re.sub(r'(<a href="\.\./[^":]*)\.md"', r'\1.html"', gallery)
    files.append(File.generated(config, GALLERY, content=gallery))
    files.append(File.generated(config, REFERENCE, content=reference()))
    files.append(File.generated(config, STYLE, content=_CONTRAST))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: object) -> str:
    """Write formulas as MathML, and change the few links to folders, which a site cannot show."""
    place = Path(page.file.src_uri)
    if place.is_relative_to("docs/theory"):
        markdown = MATH.sub(formula, markdown)
    if place.as_posix() == "reports/README.md":
        markdown = markdown.replace("(index.html)", f"({Path(GALLERY).name})")

    def link(match: "re.Match[str]") -> str:
        folder = (ROOT / place).parent / match[2]
        return f"`{os.path.relpath(folder, ROOT)}`" if folder.is_dir() else match[0]

    return re.sub(r"\[([^\]]*)\]\((?!https?:|#)([^)\s#]+)\)", link, markdown)


def formula(match: "re.Match[str]") -> str:
    """Return a formula of `MATH` as browsers show it; in a span, as Markdown would begin a block with <math>."""
    source = match[1] or match[2]
    return f"<span>{convert(source, display='block' if match[1] else 'inline')}</span>" if source else match[0]


def reference() -> str:
    """Return the page that MkDocs fills with the docstrings of what is public."""
    parts = [
        "# Reference",
        "What `import fedsim` offers; [the Python interface](../api.md) shows how it goes together.",
        "## fedsim",
        *(f"::: fedsim.{name}" for name in offered("fedsim")),
    ]
    for title, (module, words) in ROOMS.items():
        parts += [f"## {title}", words, *(f"::: {module}.{name}" for name in offered(module))]
    return "\n\n".join(parts) + "\n"


def offered(module: str) -> list[str]:
    """Return the public names of a package."""
    source = (ROOT / module.replace(".", "/") / "__init__.py").read_text(encoding="utf-8")
    names = re.findall(r'^    "(\w+)",$', source.partition("__all__")[2].partition("]")[0], re.MULTILINE)
    return [name for name in names if not name.startswith("_")]
