"""results.html: results.md as one self-contained page, with its figures inside, a table of contents, light, dark and printable.

The text is made by markdown-it-py from the very Markdown that results.md holds, so the two cannot differ. Raw HTML is off: what
comes from a file is shown, never run.
"""

import base64
import html
import re
from importlib.resources import files
from itertools import pairwise
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

from slca.errors import DataError


def render(text: str, folder: Path) -> str:
    """The page. text: Markdown with level-2 headings and figures as paragraphs of their own. folder: where figures' paths begin.

    Raises DataError for a figure that is not there.
    """
    reader = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = reader.parse(text)
    title, contents = "Results", []
    for heading, inline in pairwise(tokens):
        if heading.type == "heading_open":
            words = "".join(token.content for token in inline.children or [])
            if heading.tag == "h1":
                title = words
            else:
                heading.attrSet("id", anchor(words))
                contents.append(f'<li><a href="#{anchor(words)}">{html.escape(words)}</a></li>')
    body = reader.renderer.render(_framed(tokens, folder), reader.options, {})
    page = files(__package__).joinpath("page.html").read_text(encoding="utf-8")
    parts = {"title": html.escape(title), "contents": "\n".join(contents), "body": body}
    return re.sub(r"\{(title|contents|body)\}", lambda found: parts[found[1]], page)


def anchor(heading: str) -> str:
    """A heading's id, as forges make it of Markdown, so that one link leads to it here and there."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _framed(tokens: list[Token], folder: Path) -> list[Token]:
    """The tokens, with wide tables in a box that scrolls and figures in their files' stead."""
    framed: list[Token] = []
    for token in tokens:
        if token.type == "table_open":
            framed += [_raw('<div class="wide" role="region" aria-label="Table" tabindex="0">\n'), token]
        elif token.type == "table_close":
            framed += [token, _raw("</div>\n")]
        elif token.type == "inline" and [child.type for child in token.children or []] == ["image"]:
            framed[-1] = _raw(_figure((token.children or [])[0], folder))  # in place of the paragraph that opens
        elif token.type == "paragraph_close" and framed[-1].content.startswith("<figure"):
            continue
        else:
            framed.append(token)
    return framed


def _figure(image: Token, folder: Path) -> str:
    path = folder / str(image.attrs["src"])
    if not path.is_file():
        raise DataError(f"{path} does not exist; run the stage 'report', which draws it.")
    data = base64.b64encode(path.read_bytes()).decode()
    return f'<figure><img alt="{html.escape(image.content)}" src="data:image/svg+xml;base64,{data}"></figure>\n'


def _raw(content: str) -> Token:
    return Token("html_block", "", 0, content=content)
