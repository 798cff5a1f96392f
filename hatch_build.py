"""What the build adds to the metadata: addresses, and a README that can be read away from the repository.

``FEDSIM_HOME`` names where the repository can be seen, such as ``https://HOST/OWNER/fedsim``. With it, links and
pictures of the README are absolute, and the project has addresses. Without it nothing is made up: links become the
names of the files.
"""

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

PAPER = "https://arxiv.org/abs/2410.01209"
_PICTURE = re.compile(r"!\[([^\]]*)\]\((?!https?:)([^)\s]+)\)")
_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\((?!https?:|#)([^)\s]+)\)")


class ReleaseMetadata(MetadataHookInterface):
    """Fills in ``readme`` and ``urls``."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        """Add both to the metadata that ``pyproject.toml`` declares dynamic."""
        root = Path(self.root)
        found = re.search(r'__version__ = "([^"]+)"', (root / "fedsim/_version.py").read_text(encoding="utf-8"))
        if found is None:
            raise ValueError("fedsim/_version.py has no __version__")
        home = home_of(os.environ.get("FEDSIM_HOME", ""))
        text = (root / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": readme(text, home, f"v{found[1]}")}
        metadata["urls"] = urls(home)


def home_of(said: str) -> str:
    """Return the address without a slash at its end; empty if there is none.

    Raises
    ------
    ValueError
        If it is not the address of a web page.
    """
    if said and not re.fullmatch(r"https://[\w.-]+(:\d+)?(/[\w.~-]+)+/?", said):
        raise ValueError(f"FEDSIM_HOME must be an address such as https://HOST/OWNER/fedsim, not {said!r}")
    return said.rstrip("/")


def urls(home: str) -> dict[str, str]:
    """Return the project's addresses: the paper's, and those of the repository if it has one."""
    if not home:
        return {"Paper": PAPER}
    return {
        "Source": home,
        "Documentation": f"{home}/tree/HEAD/docs",
        "Changelog": f"{home}/blob/HEAD/CHANGELOG.md",
        "Issues": f"{home}/issues",
        "Paper": PAPER,
    }


def readme(text: str, home: str, tag: str) -> str:
    """Return the README with links that do not depend on where it is read: those of a `tag`, or names of files."""
    if home:
        text = _PICTURE.sub(rf"![\1]({home}/raw/{tag}/\2)", text)
        return _LINK.sub(rf"[\1]({home}/blob/{tag}/\2)", text)
    return _LINK.sub(_named, _PICTURE.sub(r"*Picture: \2 in the repository. \1.*", text))


def _named(link: "re.Match[str]") -> str:
    """Write a link as its words and the file that they lead to."""
    words, file = link[1], link[2].partition("#")[0]
    return words if words == file else f"{words} (`{file}`)"
