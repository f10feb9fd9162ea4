"""The command, in this process and as it was installed; a real browser without a network."""

import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple

import pytest

from invariance.cli import main

COMMAND = Path(sys.executable).with_name("invariance")


class Done(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self):
        assert self.code == 0, self.err
        return json.loads(self.out)

    @property
    def error(self) -> str:
        """The one line that an error is."""
        assert self.code in {1, 2}
        assert self.out == ""
        assert self.err.startswith("error: ")
        assert self.err.endswith("\n")
        assert self.err.count("\n") == 1
        return self.err.removeprefix("error: ").removesuffix("\n")


@pytest.fixture(scope="session")
def invariance() -> Callable[..., Done]:
    """Run the command in this process."""

    def run(*arguments: str | Path) -> Done:
        out, err = io.StringIO(), io.StringIO()
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
            patch.setattr(sys, "argv", ["invariance", *map(str, arguments)])
            with pytest.raises(SystemExit) as caught:
                main()
        return Done(caught.value.code, out.getvalue(), err.getvalue())

    return run


@pytest.fixture(scope="session")
def installed() -> Callable[..., Done]:
    """Run the command that was installed."""

    def run(*arguments: str | Path) -> Done:
        single = os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "200"}
        done = subprocess.run([COMMAND, *arguments], capture_output=True, text=True, check=False, env=single)
        return Done(done.returncode, done.stdout, done.stderr)

    return run


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

    def unfold(self, chapter: str) -> None:
        """Open a chapter of long data and wait until it is there."""
        self.page.locator(f"{chapter} details.folded > summary").click()
        self.page.locator(f"{chapter} details.folded article").first.wait_for()

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
        pytest.skip("needs Chromium: apt-get install chromium")
    api = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install playwright")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"], timeout=0)
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
        context.set_default_timeout(0)  # a busy machine takes its time
        contexts.append(context)
        visit = Visit(context.new_page())
        visit.open(path)
        return visit

    yield opened
    for context in contexts:
        context.close()
