"""What a finished page may do: show what it holds. Its Content-Security-Policy says so to the browser."""

import re
from base64 import b64encode
from collections.abc import Iterable
from hashlib import sha256

_CHARSET = '<meta charset="utf-8">'
_STYLED = re.compile(r'(<[a-zA-Z][^<>]*?) style="([^"<>{}]*)"([^<>]*>)')
_CLASS = re.compile(r' class="([^"]*)"')
_STYLE, _SCRIPT = (re.compile(rf"<{tag}>(.*?)</{tag}>", re.DOTALL) for tag in ("style", "script"))


def restricted(page: str) -> str:
    """Put a Content-Security-Policy into a page that allows its own styles and scripts, by their hashes, alone.

    A policy of hashes knows no `style` attributes, which figures are full of: they become classes. Data in a
    ``<script type="application/json">`` are no script. Nothing may be requested; pictures may be in the page itself.
    """
    page, rules = _classed(page)
    page = page.replace("</style>", f"{rules}</style>", 1)
    directives = [
        "default-src 'none'",
        *_sources("style-src", _STYLE.findall(page)),
        *_sources("script-src", _SCRIPT.findall(page)),
        *(["img-src data:"] if '"data:image/' in page else []),
        "base-uri 'none'",
        "form-action 'none'",
    ]
    policy = f'<meta http-equiv="Content-Security-Policy" content="{"; ".join(directives)}">'
    return page.replace(_CHARSET, f"{_CHARSET}\n{policy}", 1)


def _classed(page: str) -> tuple[str, str]:
    """Give what has a style attribute a class instead, and return the rules of these classes too."""
    names: dict[str, str] = {}

    def classed(match: re.Match[str]) -> str:
        name = names.setdefault(match[2], f"s{len(names) + 1}")
        before, after = match[1], match[3]
        for part in (before, after):
            if own := _CLASS.search(part):
                joined = f"{part[: own.start()]} class={chr(34)}{own[1]} {name}{chr(34)}{part[own.end() :]}"
                return joined + after if part is before else before + joined
        return f'{before} class="{name}"{after}'

    page = _STYLED.sub(classed, page)
    return page, "".join(f".{name} {{ {_plain(style)} }}\n" for style, name in names.items())


def _plain(style: str) -> str:
    return style.replace("&quot;", '"').replace("&#34;", '"').replace("&#39;", "'").replace("&amp;", "&")


def _sources(directive: str, contents: Iterable[str]) -> list[str]:
    hashes = [f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'" for text in contents]
    return [f"{directive} {' '.join(dict.fromkeys(hashes))}"] if hashes else []
