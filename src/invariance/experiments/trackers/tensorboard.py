"""TensorBoard: one folder of events per run."""

from collections.abc import Mapping
from typing import ClassVar, final

from pydantic.dataclasses import dataclass

from invariance.experiments.trackers.base import Tracker


@final
@dataclass
class TensorBoard(Tracker):
    """Scalars by step, and what decided the run as text."""

    package: ClassVar[str] = "torch.utils.tensorboard"
    viewer: ClassVar[str] = "tensorboard --logdir {folder}"

    def open(self, name: str, config: Mapping[str, str]) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self.state = SummaryWriter(str(self.folder / name))
        rows = "\n".join(f"| {key} | {value} |" for key, value in config.items())
        self.state.add_text("spec", f"| field | value |\n|---|---|\n{rows}")

    def log(self, step: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self.state.add_scalar(name, value, step)

    def close(self, status: str) -> None:
        self.state.add_text("status", status)
        self.state.close()
