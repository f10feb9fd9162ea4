"""Models that do not lean on what changes between environments.

>>> from invariance import ColoredDigits, IRMv1, MLP, evaluate, recipe, train
>>> benchmark = ColoredDigits(draws=2000).load(seed=0)
>>> model = MLP(width=64).build(benchmark.input_shape, benchmark.family.outputs)
>>> for snapshot in train(model, IRMv1(), benchmark.train, recipe("short"), family=benchmark.family):
...     scores = evaluate(snapshot.model, benchmark)

Names are imported when they are first used, so that ``import invariance`` costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from invariance.core import Batch, Benchmark, Environment, Mechanism, generator
    from invariance.data.colored_digits import ColoredDigits
    from invariance.data.colored_fmnist import ColoredFMNIST
    from invariance.data.colored_mnist import ColoredMNIST
    from invariance.data.two_bit import TwoBit
    from invariance.errors import BadValue, DataError, Diverged, InvarianceError, UnknownName
    from invariance.evaluation import Scores, evaluate, exact, sampled, score
    from invariance.experiments.run import Run, execute
    from invariance.experiments.spec import Spec
    from invariance.families import Bernoulli, Categorical, Gaussian
    from invariance.models.base import Model
    from invariance.models.linear import Linear
    from invariance.models.mlp import MLP
    from invariance.objectives.base import Move, Objective, Penalised, Player
    from invariance.objectives.birm import BIRM
    from invariance.objectives.bloc_irm import BLOCIRM
    from invariance.objectives.erm import ERM
    from invariance.objectives.fishr import Fishr
    from invariance.objectives.grayscale import GrayScale
    from invariance.objectives.irm_game import IRMGame
    from invariance.objectives.irmv0 import IRMv0
    from invariance.objectives.irmv1 import IRMv1
    from invariance.objectives.rex import REx
    from invariance.objectives.sparse_irm import SparseIRM
    from invariance.recipes.gradient import SAM, Plain
    from invariance.recipes.presets import recipe
    from invariance.recipes.recipe import Recipe
    from invariance.recipes.step import LALR, SGD, Adam
    from invariance.schedules import Clock, Constant, Decay, Ramp, Steps
    from invariance.selection import Checkpoint, select
    from invariance.training import Snapshot, train

__version__ = "0.1.0"

_HOMES = {
    "core": "Batch Benchmark Environment Mechanism generator",
    "data.colored_digits": "ColoredDigits",
    "data.colored_fmnist": "ColoredFMNIST",
    "data.colored_mnist": "ColoredMNIST",
    "data.two_bit": "TwoBit",
    "errors": "BadValue DataError Diverged InvarianceError UnknownName",
    "evaluation": "Scores evaluate exact sampled score",
    "experiments.run": "Run execute",
    "experiments.spec": "Spec",
    "families": "Bernoulli Categorical Gaussian",
    "models.base": "Model",
    "models.linear": "Linear",
    "models.mlp": "MLP",
    "objectives.base": "Move Objective Penalised Player",
    "objectives.birm": "BIRM",
    "objectives.bloc_irm": "BLOCIRM",
    "objectives.erm": "ERM",
    "objectives.fishr": "Fishr",
    "objectives.grayscale": "GrayScale",
    "objectives.irm_game": "IRMGame",
    "objectives.irmv0": "IRMv0",
    "objectives.irmv1": "IRMv1",
    "objectives.rex": "REx",
    "objectives.sparse_irm": "SparseIRM",
    "recipes.gradient": "Plain SAM",
    "recipes.presets": "recipe",
    "recipes.recipe": "Recipe",
    "recipes.step": "Adam LALR SGD",
    "schedules": "Clock Constant Decay Ramp Steps",
    "selection": "Checkpoint select",
    "training": "Snapshot train",
}
_HOME = {name: home for home, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'invariance' has no attribute {name!r}")
    return getattr(import_module(f"invariance.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
