"""MLflow: a folder of runs, without a server."""

import re
from collections.abc import Mapping
from typing import ClassVar, final

from pydantic.dataclasses import dataclass

from invariance.experiments.trackers.base import Tracker

ENDED = {"finished": "FINISHED", "collapsed": "FINISHED"}
"""How MLflow calls the end of a run; every other one is FAILED, and the tag 'status' has our own word."""
MAX_CHARACTERS = 500
"""Of a parameter's value."""


@final
@dataclass
class MLflow(Tracker):
    """Parameters, metrics by step, and the status as a tag."""

    package: ClassVar[str] = "mlflow"
    viewer: ClassVar[str] = "MLFLOW_ALLOW_FILE_STORE=true mlflow ui --backend-store-uri {folder}"
    environ: ClassVar[Mapping[str, str]] = {
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_ALLOW_FILE_STORE": "true",  # a database would need more packages
    }

    def open(self, name: str, config: Mapping[str, str]) -> None:
        from mlflow import MlflowClient

        client = MlflowClient(tracking_uri=self.folder.absolute().as_uri())
        experiment = client.get_experiment_by_name("invariance")
        number = experiment.experiment_id if experiment else client.create_experiment("invariance")
        run = client.create_run(number, run_name=name).info.run_id
        for key, value in config.items():
            client.log_param(run, _allowed(key), value[:MAX_CHARACTERS])
        self.state = client, run

    def log(self, step: int, values: Mapping[str, float]) -> None:
        client, run = self.state
        for name, value in values.items():
            client.log_metric(run, _allowed(name), value, step=step)

    def close(self, status: str) -> None:
        client, run = self.state
        client.set_tag(run, "status", status)
        client.set_terminated(run, ENDED.get(status, "FAILED"))


def _allowed(name: str) -> str:
    """A name with those characters alone that MLflow takes: environments may be called β=0.1."""
    return re.sub(r"[^\w./: -]", "_", name.replace("β", "beta"), flags=re.ASCII)
