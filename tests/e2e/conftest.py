"""A real browser without a network."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest


class Visit:
    """A page that was opened, and everything that should not have happened."""

    def __init__(self, page) -> None:
        self.page = page
        self.wrong: list[str] = []
        page.on("console", lambda message: self.wrong.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: self.wrong.append(str(error)))
        page.on("dialog", lambda dialog: (self.wrong.append(dialog.message), dialog.dismiss()))
        page.on("request", self._request)

    def _request(self, request) -> None:
        if not request.url.startswith(("file:", "data:", "blob:")) or request.url.count("file:") > 1:
            self.wrong.append(request.url)

    def open(self, path: Path) -> None:
        self.page.goto(path.absolute().as_uri())

    def see(self, selector: str) -> None:
        """Scroll there and wait until its charts are drawn."""
        self.page.locator(selector).scroll_into_view_if_needed()
        self.page.wait_for_selector(f"{selector} .main-svg")

    def visible(self, article: str) -> list[list[tuple[str, bool]]]:
        """The curves and bands of every chart of an article, and whether they are on."""
        script = "charts => charts.map(c => c.data.map(t => [t.meta, t.visible !== false]))"
        return self.page.locator(f"{article} .chart").evaluate_all(script)

    def overflow(self) -> int:
        """By how many pixels the page is wider than the window."""
        return self.page.evaluate("document.documentElement.scrollWidth - window.innerWidth")


@pytest.fixture(scope="module")
def chromium() -> Iterator:
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if not path:
        pytest.skip("no Chromium here: apt-get install chromium")
    api = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install playwright")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


@pytest.fixture
def visit(chromium) -> Iterator[Callable[..., Visit]]:
    """Open a page from disk in a window of some width, without a network."""
    contexts = []

    def opened(path: Path, width: int = 1280, scheme: str = "light") -> Visit:
        context = chromium.new_context(
            viewport={"width": width, "height": 844}, color_scheme=scheme, offline=True, has_touch=width < 500
        )
        contexts.append(context)
        visit = Visit(context.new_page())
        visit.open(path)
        return visit

    yield opened
    for context in contexts:
        context.close()
