"""How a method is trained, whatever it is: batches, learning rate, gradient, optimiser."""

from math import ceil
from typing import Annotated, ClassVar, Literal, final

from pydantic import BeforeValidator, Field, NonNegativeInt, PositiveInt
from pydantic.dataclasses import dataclass

from invariance.core.fields import STRICT, NonNegative, Positive, Share
from invariance.recipes.augment import Augment
from invariance.recipes.gradient import AnyGradient, Plain
from invariance.recipes.optimiser import Adam, AnyOptimiser
from invariance.recipes.schedules import AnySchedule, Clock, Constant, ramp

Part = Annotated[float, Field(ge=0, lt=1)]


def _named(value: object) -> object:
    """``"sam"`` is short for ``{"kind": "sam"}``."""
    return {"kind": value} if isinstance(value, str) else value


@final
@dataclass(frozen=True, config=STRICT)
class Recipe:
    """Independent slots; any combination runs every method.

    ``batch_size`` counts all environments together, equal shares of each; None is everything at once. The learning
    rate is ``lr`` · ``lr_scale`` · ``schedule``, and rises to it over the share ``lr_ramp`` of the run; l2 is the
    method's times ``l2_scale``. ``warmup`` is the share of the epochs before the penalty sets in, ``reset`` starts a
    fresh optimiser there, and ``penalty_batch_size`` is the batch size from there on: small batches learn features,
    large ones estimate a penalty. ``average`` is the share of the run, at its end, over which weights are averaged.
    ``dropout`` is the share of the inputs' entries that an update does not see, ``penalty_dropout`` that share from
    the switch on, where it is another one. ``augment`` mirrors and shifts images anew in every update. ``debias`` is
    the number of epochs, before all others, in which an environment classifier is trained; its logit offset removes
    environment-specific cues (`training/debiasing.py`). 0 is without debiasing. ``precision`` is that of the
    features' matrix products: ``full`` is the inputs' own, ``bf16`` leaves weights, head, loss and penalty in that
    and is for 32-bit inputs. ``compile`` has torch compile the features; the first update then takes long.
    """

    later_fields: ClassVar[tuple[str, ...]] = (
        "penalty_batch_size",
        "penalty_dropout",
        "precision",
        "lr_ramp",
        "compile",
    )

    batch_size: PositiveInt | None = None
    epochs: PositiveInt = 500
    lr: Positive = 4.898536566546834e-4
    lr_scale: Positive = 1.0
    lr_ramp: Share = 0.0
    l2_scale: NonNegative = 1.0
    schedule: Annotated[AnySchedule, BeforeValidator(_named)] = Field(default_factory=Constant)
    warmup: Share = 0.38
    gradient: Annotated[AnyGradient, BeforeValidator(_named)] = Field(default_factory=Plain)
    step: Annotated[AnyOptimiser, BeforeValidator(_named)] = Field(default_factory=Adam)
    reset: bool = False
    penalty_batch_size: PositiveInt | None = None
    debias: NonNegativeInt = 0
    dropout: Part = 0.0
    penalty_dropout: Part | None = None
    average: Share = 0.0
    augment: Augment | None = None
    precision: Literal["full", "bf16"] = "full"
    compile: bool = False

    def rate(self, clock: Clock) -> float:
        """The learning rate of an update."""
        return self.lr * self.lr_scale * self.schedule(clock) * ramp(clock, self.lr_ramp)

    def dropout_at(self, clock: Clock) -> float:
        """The share of the inputs' entries that an update does not see."""
        if self.penalty_dropout is None or not clock.annealed:
            return self.dropout
        return self.penalty_dropout

    def updates(self, rows: int) -> tuple[int, int]:
        """After how many updates on so many samples the penalty sets in, and how many there are in all."""
        sizes = self.batch_size, self.penalty_batch_size or self.batch_size
        before, after = (self.epochs * ceil(rows / min(rows, size or rows)) for size in sizes)
        switch = round(self.warmup * before)
        return switch, switch + after - round(self.warmup * after)
