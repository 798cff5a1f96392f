"""The Content-Security-Policy of a page: what it allows is what the page holds, by hash, and nothing else."""

import re
from base64 import b64encode
from hashlib import sha256

from fedsim.pages.html import restricted

HEAD = '<head>\n<meta charset="utf-8">\n<title>t</title>\n<style>\np { color: red; }\n</style>\n</head>'


def policy(page: str) -> dict[str, str]:
    (content,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    return dict(directive.partition(" ")[::2] for directive in content.split("; "))


def hashed(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def test_a_page_without_scripts_may_run_none_and_fetch_nothing() -> None:
    page = restricted(f"{HEAD}<p>text</p>")
    assert policy(page) == {
        "default-src": "'none'",
        "style-src": hashed("\np { color: red; }\n"),
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    assert page.index("Content-Security-Policy") < page.index("<style>")


def test_scripts_are_allowed_by_their_hash_and_data_are_no_script() -> None:
    page = restricted(f'{HEAD}<script type="application/json">{{"a": 1}}</script><script>\nlet a;\n</script>')
    assert policy(page)["script-src"] == hashed("\nlet a;\n")


def test_style_attributes_become_names_which_the_hash_covers() -> None:
    svg = (
        '<path d="M0 0" style="fill: var(--ink)" /><text class="a" style="font: 9px &quot;Sans&quot;">style="b"</text>'
        '<use style="fill: var(--ink)" class="b"/>'
    )
    page = restricted(f"{HEAD}{svg}")
    assert '<path d="M0 0" data-s="0" /><text class="a" data-s="1">style="b"</text><use data-s="0" class="b"/>' in page
    style = page.partition("<style>")[2].partition("</style>")[0]
    assert style.endswith('[data-s="0"] { fill: var(--ink) }\n[data-s="1"] { font: 9px "Sans" }\n')
    assert policy(page)["style-src"] == hashed(style)


def test_a_style_that_would_leave_its_rule_is_not_taken_over() -> None:
    page = restricted(HEAD + '<p style="} body { color: red">text</p>')
    assert "body" not in page.partition("<style>")[2].partition("</style>")[0]


def test_pictures_in_the_page_are_allowed_where_there_are_some() -> None:
    assert policy(restricted(f'{HEAD}<image href="data:image/png;base64,AAAA"/>'))["img-src"] == "data:"
