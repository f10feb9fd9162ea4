"""What the classifier and the regressor share: reading inputs, training, choosing a method."""

import warnings
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data
from torch import Tensor

from invariance.core.batch import Batch
from invariance.core.device import resolved
from invariance.core.environment import Environment
from invariance.core.errors import BadValue, Diverged, UnknownName
from invariance.core.families import Family
from invariance.core.inputs import StoredRows
from invariance.core.rows import Rows
from invariance.estimators import defaults
from invariance.estimators.auto import choose, folds
from invariance.estimators.canonical import rows_by_content
from invariance.estimators.choice import MAX_RISK, Choice
from invariance.estimators.inputs import (
    EncodedTable,
    checked_weights,
    column,
    dense,
    environment_codes,
    fingerprint,
    to_environments,
)
from invariance.estimators.learner import Fit, Learner, Trained, subsample, validation_split
from invariance.estimators.network import Features
from invariance.estimators.predictor import Predictor
from invariance.estimators.threads import threads_for
from invariance.evaluation.metrics import criterion, relative_risk
from invariance.evaluation.scores import Scores, outputs
from invariance.methods.base import Method
from invariance.methods.subset_erm import SubsetERM
from invariance.recipes.recipe import Recipe
from invariance.tabular.frame import is_frame
from invariance.training.selection import RULES, Checkpoint, select

SINGLE_ENVIRONMENT = (
    "with one environment there is nothing to be invariant across, so this is ERM; name the environment of each row "
    "with environments="
)
COLLAPSED = (
    "the model has collapsed: on average its predictions are no better than a constant; try another method or recipe, "
    "or check that the inputs tell something about the target"
)
VALIDATION_RULES = ("training-domain", "invariant")
"""Selection rules that need validation rows."""
MAX_SCORED_ROWS = 1_000_000
"""Rows that ``scores_`` are measured on."""


class Invariant(Predictor):
    """Fits w∘θ to rows that come from several environments.

    ``method`` is the name of a method, a :class:`Method`, or ``"auto"``: ERM, unless effects of columns vary between
    environments and another method is better where they turn against the model (``choice_`` says why). ``metric`` is
    what ``"auto"`` chooses by: ``"log-loss"``, ``"accuracy"``, ``"auc"``, ``"average-precision"``, or ``"rmse"`` for
    numbers, in the worst case, or on average with ``"mean-"`` before it. ``positive`` is the positive class of two,
    which average precision is about; None is the second of ``classes_``. ``recipe`` is a name, a :class:`Recipe`, or
    ``"auto"``: full batches up to 20,000 rows, smaller ones beyond, no debiasing; a mapping such as ``{"epochs": 50}``
    changes fields of ``"auto"``. ``hidden`` are the widths of hidden layers, ``()`` for a linear model; None is a
    linear model unless ``"auto"`` finds a hidden layer better. ``features`` replaces them: an architecture such as
    ``ResNet()``, or a torch module, which is copied, not changed.

    ``selection`` is the rule that chooses the checkpoint: ``"last"``, ``"leave-one-environment-out"``, or, by a
    ``validation_fraction`` of each environment's rows, ``"training-domain"`` (the highest score) or ``"invariant"``
    (the latest that passes a test of homogeneity between environments). ``random_state`` seeds everything random; None
    draws a new seed each time. ``device`` is where the model is trained: cpu, cuda, mps, or auto for a GPU where there
    is one. ``engine="ray"`` trains the models that only serve a choice on a Ray cluster, at ``RAY_ADDRESS`` or on this
    machine. ``verbose`` prints progress.

    Columns are standardised inside, by training rows alone, and the model computes in the precision of X. A data frame
    of pandas, polars or pyarrow is a table, encoded as ``invariance fit`` encodes a file: it may hold missing values,
    categories, dates and free text (:class:`TableEncoder` says how, and lets you change it). Images may be
    :class:`Pixels`, which stay in their file and are numbers in [0, 1] to the model. There is no ``partial_fit``:
    invariance is estimated by comparing all environments at once.

    Fitted: ``module_``, which maps raw rows to outputs; ``method_``, the method with its hyperparameters;
    ``hidden_``, its hidden layers; ``history_``, its checkpoints, and ``note_``, which says so where debiasing found
    nothing to remove; ``scores_`` by environment (on validation rows, else on training rows, a million at most);
    ``environments_`` with ``counts_``, their numbers of rows; ``input_shape_`` of one row, ``fingerprint_`` of the
    data, and ``encoder_`` of a table, with ``table_columns_``, its columns (None for arrays, and for files).
    """

    __metadata_request__fit: ClassVar[dict[str, bool]] = {"environments": True}

    def __init__(
        self,
        method: str | Method = "auto",
        *,
        recipe: str | Recipe | Mapping[str, Any] = "auto",
        metric: str = "auto",
        positive: Any = None,
        hidden: Sequence[int] | None = None,
        features: Features | None = None,
        selection: str = "last",
        validation_fraction: float = 0.1,
        random_state: Any = 0,
        device: str = "cpu",
        engine: str = "local",
        verbose: bool = False,
    ) -> None:
        self.method = method
        self.recipe = recipe
        self.metric = metric
        self.positive = positive
        self.hidden = hidden
        self.features = features
        self.selection = selection
        self.validation_fraction = validation_fraction
        self.random_state = random_state
        self.device = device
        self.engine = engine
        self.verbose = verbose

    @abstractmethod
    def _targets(self, rows: Rows) -> tuple[Family, NDArray[Any]]:
        """The family, and targets encoded for it; stores what is needed to decode predictions."""

    def fit(
        self, X: Any, y: Any, *, environments: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Train on the rows of X and y; ``environments`` names the environment of each row.

        A ``sample_weight`` enters every average over an environment, so that a row of weight 2 counts as two rows;
        environments themselves count the same. This is exact for full batches, and holds in expectation otherwise.
        """
        table = EncodedTable.learned(X, y, environments) if is_frame(X) else None
        x, y = self._read_both(table.x if table else X, y)
        names, codes = environment_codes(environments, len(x))
        parts = tuple(table.encoder.parts) if table else ()
        self._fit_checked(Rows(x, y, codes, names, checked_weights(sample_weight, len(x)), parts=parts))
        if table:
            validate_data(self, X, skip_check_array=True)
            self.encoder_, self.table_columns_ = table.encoder.leaving_out(self.left_out_), table.columns
        return self

    @property
    def left_out_(self) -> tuple[int, ...]:
        """The inputs that the model does not use."""
        return self.method_.without if isinstance(self.method_, SubsetERM) else ()

    def fit_rows(self, rows: Rows) -> Self:
        """The same as :meth:`fit`, on rows whose environments have codes already."""
        x, y = self._read_both(rows.x, rows.y)
        return self._fit_checked(replace(rows, x=x, y=y))

    def _fit_checked(self, rows: Rows) -> Self:
        if rows.weight is not None and not rows.weight.all():
            rows = rows.take(rows.weight > 0)
        family, targets = self._targets(rows)
        self.encoder_ = self.table_columns_ = None
        self.input_shape_ = tuple(rows.x.shape[1:])
        self.environments_ = rows.names
        self.counts_ = rows.counts
        self.fingerprint_ = fingerprint(rows.x, targets, rows.codes, rows.weight)
        with threads_for(self._multiplications(min(len(rows), defaults.FULL_BATCH_ROWS), self._widths())):
            environments = rows_by_content(to_environments(rows, targets))
            self._learn(environments, family, [place for _, place in rows.parts])
        return self

    def _learn(self, environments: list[Environment], family: Family, parts: Sequence[slice]) -> None:
        learner = self._learner(family)
        self.choice_: Choice | None = None
        self.method_ = self._named_or_chosen(learner, environments, parts)
        if self.choice_:
            learner = replace(learner, hidden=self.choice_.hidden)
        self.hidden_ = learner.hidden
        train, validation = environments, list[Environment]()
        if self.selection in VALIDATION_RULES:
            train, validation = validation_split(environments, self.validation_fraction, learner.seed)
        held_out = []
        if RULES[self.selection].holds_out:
            splits = folds(environments, learner.seed)
            held_out = [_history(each) for each in learner.fit_all([Fit(self.method_, *split) for split in splits])]
        trained = learner.fit(self.method_, train, validation, keep=self.selection != "last", watch=self._watch)
        self.history_ = trained.history
        self.note_ = "; ".join(filter(None, (self.method_.note, trained.note)))
        chosen = select(self.selection, trained.history, held_out)
        self.module_ = trained.at(chosen.step)
        scored = subsample(validation or train, MAX_SCORED_ROWS, learner.seed)
        batch = Batch.of(scored, family)
        f = outputs(self.module_, batch.x)
        self.scores_ = Scores.of_batch(batch, f, [e.name for e in scored])
        if chosen.collapsed and not self._says_something(f, batch):
            self.note_ = "; ".join(filter(None, (self.note_, COLLAPSED)))
            warnings.warn(COLLAPSED, ConvergenceWarning, stacklevel=4)

    def _says_something(self, f: Tensor, batch: Batch) -> bool:
        """Whether probabilities are better than a constant's: those of a rare class may be, and never reach a half."""
        return batch.family.labels > 0 and relative_risk(self._answers(f), batch.y.cpu().numpy()) < MAX_RISK

    def _learner(self, family: Family) -> Learner:
        self._check_selection()
        widths = self._widths()
        seed = self.random_state
        if not isinstance(seed, int | np.integer):
            seed = int.from_bytes(check_random_state(seed).bytes(4), "little")
        return Learner(family, widths, self.features, self.recipe, int(seed), resolved(self.device), self.engine)

    def _check_selection(self) -> None:
        if self.selection not in (rules := [name for name, rule in RULES.items() if not rule.sees_test]):
            raise UnknownName.of("selection rule for a table", self.selection, rules)
        if not 0 < self.validation_fraction < 1:
            raise BadValue(f"validation_fraction is {self.validation_fraction}; expected a share between 0 and 1")

    def _widths(self) -> tuple[int, ...]:
        if self.hidden is None:
            return ()
        widths = list(self.hidden) if isinstance(self.hidden, Iterable) else [0]
        if not all(isinstance(width, int | np.integer) and width > 0 for width in widths):
            raise BadValue(f"hidden is {self.hidden!r}; expected widths of layers, for example (64, 32)")
        return tuple(int(width) for width in widths)

    def _named_or_chosen(self, learner: Learner, environments: list[Environment], parts: Sequence[slice]) -> Method:
        """The method to train: the one that was named, or the one that :func:`choose` finds best."""
        chosen_by = criterion(self.metric, classes=learner.family.labels > 0, positive=self._positive_code())
        entropy = defaults.relative_entropy(environments, learner.family)
        named = None if self.method == "auto" else defaults.named(self.method, self.recipe, entropy=entropy)
        if named and named.oracle:
            raise BadValue(f"{named.title} needs inputs without their spurious part; name another method")
        if len(environments) == 1 and not (named and named.needs_environments == 1):
            warnings.warn(SINGLE_ENVIRONMENT, UserWarning, stacklevel=5)
            return defaults.named("erm", entropy=entropy)
        if named:
            return named
        table = self.features is None and len(self.input_shape_) == 1
        layers = defaults.LAYERS if self.hidden is None and table else ()
        self.choice_ = choose(learner, environments, chosen_by, self._log, layers, parts)
        self._log(f"chose {self.choice_}: {self.choice_.reason}")
        return self.choice_.method

    def _positive_code(self) -> int:
        """Of the positive class of two."""
        classes = getattr(self, "classes_", np.arange(0)).tolist()
        if self.positive is None:
            return 1
        if len(classes) != 2:
            kind = f"{len(classes)} classes" if classes else "numbers"
            raise BadValue(f"positive is {self.positive!r}, which is for two classes; y has {kind}")
        if self.positive not in classes:
            raise UnknownName.of("class", str(self.positive), map(str, classes))
        return classes.index(self.positive)

    def _log(self, line: str) -> None:
        if self.verbose:
            print(line)

    def _watch(self, checkpoint: Checkpoint) -> None:
        train = checkpoint.train
        self._log(
            f"after {checkpoint.step} updates: score {train.mean:.4f}, {train.worst:.4f} in the worst environment"
        )

    def _read_both(self, X: Any, y: Any) -> tuple[NDArray[Any] | StoredRows, NDArray[Any]]:
        y = np.asarray(y) if hasattr(y := dense(y), "to_numpy") else y
        if isinstance(X, StoredRows):
            self.n_features_in_ = X.shape[1]
            return X, column(y, "y", len(X))
        numeric = self.__sklearn_tags__().estimator_type == "regressor"
        checks = {"dtype": [np.float64, np.float32], "allow_nd": self.features is not None, "y_numeric": numeric}
        x, y = validate_data(self, dense(X), y, **checks)
        return x, y


def _history(trained: Trained | Diverged) -> tuple[Checkpoint, ...]:
    if isinstance(trained, Diverged):
        raise trained
    return trained.history
