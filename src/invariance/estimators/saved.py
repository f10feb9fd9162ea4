"""A fitted estimator in a model folder: how it is described as plain data, and how it is restored."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import PositiveInt, TypeAdapter
from safetensors.torch import load as unpacked
from safetensors.torch import save as packed
from sklearn.utils.validation import check_is_fitted

from invariance.core import model_folder
from invariance.core.errors import BadValue, DataError
from invariance.core.model_folder import CARD, Manifest
from invariance.core.seeding import generator
from invariance.estimators import defaults
from invariance.estimators.base import Invariant
from invariance.estimators.card import card, readme
from invariance.estimators.choice import Choice
from invariance.estimators.classifier import InvariantClassifier
from invariance.estimators.network import Features, Standard, around, assemble
from invariance.estimators.regressor import InvariantRegressor
from invariance.evaluation.scores import Scores
from invariance.methods import METHODS
from invariance.methods.base import Method
from invariance.models import MODELS
from invariance.models.base import Architecture, Model
from invariance.recipes.presets import recipe
from invariance.recipes.recipe import Recipe
from invariance.tabular.encoder import Encoder
from invariance.training.selection import dump_history, load_history

KINDS = {"classifier": InvariantClassifier, "regressor": InvariantRegressor}
CHANGED = "changed"
"""The key of changes to the default recipe, in place of a whole one."""
SIZES = TypeAdapter(tuple[PositiveInt, ...])
DTYPES = {"float32": torch.float32, "float64": torch.float64}


class Saved(NamedTuple):
    """What a folder holds: the estimator, its card, and the plain data that were saved with it."""

    estimator: Any
    card: dict[str, Any]
    extra: dict[str, Any]


def save(
    estimator: Invariant,
    folder: Path | str,
    *,
    licence: str = "not stated",
    about: Mapping[str, Any] | None = None,
    extra: Mapping[str, Any] | None = None,
    assessment: Mapping[str, Any] | None = None,
) -> None:
    """Write weights, manifest and model card to ``folder``.

    ``about`` and ``assessment`` are added to the card, ``extra`` is plain data that is saved with the model.
    """
    if not isinstance(estimator, Invariant):
        kind = type(estimator).__name__
        raise BadValue(
            f"a {kind} cannot be saved; give an estimator of this package, such as the last step of a pipeline"
        )
    check_is_fitted(estimator)
    model_card = card(estimator, licence, about or {}, assessment)
    described = {"card": model_card, "extra": _table(estimator) | dict(extra or {})}
    content = described | _described(estimator)
    weights = packed({k: v.cpu().contiguous() for k, v in estimator.module_.state_dict().items()})
    model_folder.save(Path(folder), _kind(estimator), content, weights, {CARD: readme(model_card).encode()})


def read(folder: Path | str, *, features: Features | None = None) -> Saved:
    """The estimator in a folder, with its card and extra data."""
    manifest = model_folder.read(folder)
    if manifest.kind not in KINDS:
        raise DataError(f"{folder} holds a {manifest.kind}, expected an estimator; open it with invariance.load")
    estimator = model_folder.restore(manifest, features)
    return Saved(estimator, manifest.content["card"], manifest.content["extra"])


def restore(manifest: Manifest, features: Features | None) -> Invariant:
    """The estimator of a manifest, ready to predict, bit for bit as it did."""
    content = manifest.content
    estimator: Invariant = KINDS[manifest.kind](**_parameters(content["parameters"], features, manifest.folder))
    _restore(estimator, content)
    weights = model_folder.finite(unpacked(manifest.weights), manifest.folder)
    estimator.module_ = _module(estimator, content, weights)
    return estimator


def _table(estimator: Invariant) -> dict[str, Any]:
    """How an estimator of tables reads a table, under the keys that models of files have had from the start."""
    return {} if estimator.encoder_ is None else {"reader": "table", "table": estimator.encoder_.to_json()}


def _kind(estimator: Invariant) -> str:
    return next(kind for kind, cls in KINDS.items() if isinstance(estimator, cls))


def _described(estimator: Invariant) -> dict[str, Any]:
    """Everything except the weights, as plain data."""
    kind = _kind(estimator)
    names = getattr(estimator, "feature_names_in_", None)
    choice = estimator.choice_
    standard = next(part for part in estimator.module_.modules() if isinstance(part, Standard))
    return {
        "parameters": _plain_parameters(estimator),
        "columns": int(estimator.n_features_in_),
        "table_columns": None if estimator.table_columns_ is None else list(estimator.table_columns_),
        "column_names": None if names is None else list(names),
        "environments": _plain_array(estimator.environments_, "environments"),
        "counts": estimator.counts_,
        "classes": _plain_array(estimator.classes_, "classes") if kind == "classifier" else None,
        "target": None if kind == "classifier" else [estimator.target_mean_, estimator.target_scale_],
        "objective": METHODS.dump(estimator.method_),
        "choice": choice and choice.to_json(),
        "history": dump_history(estimator.history_),
        "note": estimator.note_,
        "scores": estimator.scores_.by_environment,
        "fingerprint": estimator.fingerprint_,
        "network": {
            "standard": list(standard.get_buffer("mean").shape),
            "dtype": str(standard.get_buffer("mean").dtype).removeprefix("torch."),
            "input": list(estimator.input_shape_),
            "hidden": list(estimator.hidden_),
            "width": int(next(iter(estimator.module_.head.parameters())).shape[1]),
        },
    }


def _restore(estimator: Invariant, content: dict[str, Any]) -> None:
    """Set the fitted state, except the module."""
    estimator.n_features_in_ = content["columns"]
    estimator.input_shape_ = SIZES.validate_python(content["network"].get("input", (content["columns"],)))
    estimator.hidden_ = SIZES.validate_python(content["network"].get("hidden", estimator.hidden or ()))
    if content["column_names"] is not None:
        estimator.feature_names_in_ = np.array(content["column_names"], dtype=object)
    table, columns = content["extra"].get("table"), content.get("table_columns")
    estimator.encoder_ = Encoder.from_json(table) if table else None
    estimator.table_columns_ = None if columns is None else tuple(columns)
    estimator.environments_ = _array(content["environments"])
    estimator.counts_ = content["counts"]
    if content["kind"] == "classifier":
        estimator.classes_ = _array(content["classes"])
    else:
        estimator.target_mean_, estimator.target_scale_ = content["target"]
    estimator.method_ = METHODS.load(content["objective"])
    estimator.choice_ = content["choice"] and Choice.from_json(content["choice"])
    estimator.history_ = load_history(content["history"])
    estimator.note_ = content.get("note", "")
    estimator.scores_ = Scores(content["scores"])
    estimator.fingerprint_ = content["fingerprint"]


def _module(estimator: Invariant, content: dict[str, Any], weights: Mapping[str, torch.Tensor]) -> Model:
    network = content["network"]
    blank = torch.zeros(network["standard"])
    standard, features = Standard(blank, blank.clone()), estimator.features
    classes = getattr(estimator, "classes_", ())
    outputs = len(classes) if len(classes) > 2 else 1
    if isinstance(features, Architecture):
        model = around(features, standard, estimator.input_shape_, outputs, seed=0)
    else:
        model = assemble(standard, network["width"], outputs, hidden=estimator.hidden_, features=features, seed=0)
    model = model.to(DTYPES[network["dtype"]])
    model = estimator.method_.prepare(model, len(estimator.environments_), generator(0, "objective"))
    model.load_state_dict(weights)
    return model.eval()


def _parameters(plain: dict[str, Any], features: Features | None, folder: Path) -> dict[str, Any]:
    if isinstance(plain["features"], dict):
        features = MODELS.load(plain["features"])
    elif plain["features"] is not None and features is None:
        raise BadValue(
            f"the model in {folder} has features of its own; pass a {plain['features']} to load as features="
        )
    method, fields = plain["method"], plain["recipe"]
    method = METHODS.load(method) if isinstance(method, dict) else method
    if isinstance(fields, dict):
        fields = fields[CHANGED] if CHANGED in fields else recipe("full-batch", changes=fields)
    hidden = None if plain["hidden"] is None else tuple(plain["hidden"])
    return {**plain, "method": method, "recipe": fields, "features": features, "hidden": hidden}


def _plain_parameters(estimator: Invariant) -> dict[str, Any]:
    seed, positive = estimator.random_state, estimator.positive
    return {
        "method": _plain_method(estimator.method),
        "recipe": _plain_recipe(estimator.recipe),
        "metric": estimator.metric,
        **({} if positive is None else {"positive": getattr(positive, "tolist", lambda: positive)()}),
        "hidden": None if estimator.hidden is None else [int(width) for width in estimator.hidden],
        "features": _plain_features(estimator.features),
        "selection": estimator.selection,
        "validation_fraction": float(estimator.validation_fraction),
        "random_state": int(seed) if isinstance(seed, int | np.integer) else None,
        "device": str(estimator.device),
        "verbose": bool(estimator.verbose),
    }


def _plain_method(method: str | Method) -> str | dict[str, Any]:
    return method if isinstance(method, str) else METHODS.dump(method)


def _plain_features(features: Features | None) -> str | dict[str, Any] | None:
    if not isinstance(features, Architecture):
        return None if features is None else type(features).__name__
    plain = MODELS.dump(features)
    return plain | {"weights": None} if "weights" in plain else plain  # they are in the folder


def _plain_recipe(given: defaults.GivenRecipe) -> str | dict[str, Any]:
    if isinstance(given, Mapping):
        return {CHANGED: dict(given)}
    return TypeAdapter(Recipe).dump_python(given, mode="json") if isinstance(given, Recipe) else given


def _plain_array(array: NDArray[Any], what: str) -> dict[str, Any]:
    values = array.tolist()
    if not all(isinstance(value, str | int | float) for value in values):
        kind = type(values[0]).__name__
        raise BadValue(f"{what} of kind {kind} cannot be saved; fit again with them as text or numbers")
    return {"dtype": str(array.dtype), "values": values}


def _array(plain: dict[str, Any]) -> NDArray[Any]:
    return np.array(plain["values"], dtype=np.dtype(plain["dtype"]))
