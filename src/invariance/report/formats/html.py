"""HTML."""

from typing import ClassVar, final

from invariance.report.formats.base import FileFormat
from invariance.report.html_page import render
from invariance.report.page import Page


@final
class HTML(FileFormat):
    """A page that needs nothing but itself."""

    about: ClassVar[str] = "one page that opens in a browser, with interactive charts"
    output: ClassVar[str] = "report.html"

    def text(self, page: Page) -> str:
        return render(page)
