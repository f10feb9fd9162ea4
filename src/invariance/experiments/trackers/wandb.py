"""Weights & Biases, offline: files that ``wandb sync`` may send later, if the user wants that."""

from collections.abc import Mapping
from typing import ClassVar, final

from pydantic.dataclasses import dataclass

from invariance.experiments.trackers.base import Tracker


@final
@dataclass
class WeightsAndBiases(Tracker):
    """A run with its configuration and its history.

    wandb writes by a service process, which may still be busy when a run is closed; it ends with this process, and
    only then is every row on disk.
    """

    package: ClassVar[str] = "wandb"
    viewer: ClassVar[str] = "wandb sync {folder}/wandb/offline-run-*"
    environ: ClassVar[Mapping[str, str]] = {"WANDB_MODE": "offline", "WANDB_ERROR_REPORTING": "false"}

    def open(self, name: str, config: Mapping[str, str]) -> None:
        import wandb

        self.folder.mkdir(parents=True, exist_ok=True)
        settings = wandb.Settings(
            console="off",
            silent=True,
            disable_git=True,
            disable_code=True,
            save_code=False,
            x_disable_meta=True,
            x_disable_stats=True,
            x_disable_machine_info=True,
        )
        self.state = wandb.init(
            project="invariance",
            name=name,
            config=dict(config),
            dir=str(self.folder),
            mode="offline",
            reinit="create_new",
            settings=settings,
        )

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self.state.log(dict(values), step=step, commit=True)

    def close(self, status: str) -> None:
        self.state.summary["status"] = status
        self.state.finish(exit_code=0 if status in ("finished", "collapsed") else 1)
