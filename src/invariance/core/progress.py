"""Progress bars: of rich in a terminal, as HTML in a notebook, and none where nobody looks."""

import io
import time
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID, TextColumn, TimeRemainingColumn

from invariance.core.html import html_bar

REFRESH_SECONDS = 0.1


def progress_bar(*columns: str | ProgressColumn, console: Console | None = None, disable: bool = False) -> Progress:
    """A bar on a console, by default standard error. In a terminal it is gone when done; a notebook keeps its end."""
    console = console or Console(stderr=True)
    if console.is_jupyter:
        return NotebookProgress(disable=disable)
    columns = columns or (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    return Progress(*columns, console=console, transient=True, disable=disable or not console.is_terminal)


class NotebookProgress(Progress):
    """Tasks as bars of HTML that the page updates in place. Widgets, which rich would use, need another package."""

    def __init__(self, *, disable: bool = False) -> None:
        nowhere = Console(file=io.StringIO(), force_jupyter=False)
        super().__init__(console=nowhere, auto_refresh=False, disable=disable)
        self._display: Any = None
        self._refreshed = 0.0

    def start(self) -> None:
        """Show the bars."""
        from IPython.display import HTML, display

        if not self.disable and self._display is None:
            self._display = display(HTML(self._html()), display_id=True)

    def stop(self) -> None:
        """Show how it ended."""
        self.refresh()

    def refresh(self) -> None:
        """Show the bars as they are now."""
        if self._display is not None:
            from IPython.display import HTML

            self._refreshed = time.monotonic()
            self._display.update(HTML(self._html()))

    def update(self, task_id: TaskID, **changes: Any) -> None:
        """Change a task, as in rich."""
        super().update(task_id, **changes)
        self._refresh_now_and_then()

    def advance(self, task_id: TaskID, advance: float = 1) -> None:
        """Move a task on."""
        super().advance(task_id, advance)
        self._refresh_now_and_then()

    def _refresh_now_and_then(self) -> None:
        if time.monotonic() - self._refreshed > REFRESH_SECONDS:
            self.refresh()

    def _html(self) -> str:
        return "".join(html_bar(task.description, task.completed, task.total, _state(task)) for task in self.tasks)


def _state(task: Task) -> str:
    """How far a task is, and how long it still takes if that can be said."""
    if task.total is None:
        return ""
    left = "" if task.finished or task.time_remaining is None else f", {task.time_remaining:.0f} s left"
    return f"{task.percentage:.0f} %{left}"
