"""Check every internal link, anchor and picture of the built site; external addresses are not visited."""

import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The links of a page, and the anchors that others may link to."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect what a tag points to, and what it may be found by."""
        values = dict(attrs)
        self.anchors |= {value for name in ("id", "name") if (value := values.get(name))}
        names = {"a": "href", "img": "src", "link": "href", "script": "src"}
        if tag in names and (target := values.get(names[tag])):
            self.links.append(target)


def dead(site: Path) -> Iterator[str]:
    """Links that lead nowhere, with the pages that they are on."""
    pages = {path: Page(path) for path in site.rglob("*.html")}
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path.resolve()
            anchor = unquote(parts.fragment)
            there = target.exists() and (not anchor or target not in pages or anchor in pages[target].anchors)
            if not there:
                yield f"{path.relative_to(site)}: {link}"


def main(site: Path) -> int:
    """Print dead links; the exit code says whether there is one."""
    found = sorted(set(dead(site.resolve())))
    print("\n".join(found) or f"no dead internal link on {len(list(site.rglob('*.html')))} pages")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
