"""A fitted estimator on disk: opens wherever the package is, whatever its version, and nothing is unpickled."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import TypeAdapter
from safetensors.torch import load as unpacked
from safetensors.torch import save as packed
from sklearn.utils.validation import check_is_fitted

from invariance.core.errors import BadValue, DataError
from invariance.core.model_folder import MANIFEST, WEIGHTS, reading, write
from invariance.core.provenance import provenance
from invariance.core.seeding import generator
from invariance.estimators.auto import Choice
from invariance.estimators.base import Invariant
from invariance.estimators.card import CARD, card, readme
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
from invariance.training.selection import Checkpoint

FORMAT, REVISION = "invariance estimator", 1
KINDS = {"classifier": InvariantClassifier, "regressor": InvariantRegressor}
DTYPES = {"float32": torch.float32, "float64": torch.float64}
HISTORY: TypeAdapter[tuple[Checkpoint, ...]] = TypeAdapter(tuple[Checkpoint, ...])


class Saved(NamedTuple):
    """What lies in a folder: the estimator, its card, and what its writer put beside it."""

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
) -> None:
    """Write weights, manifest and model card to ``folder``.

    ``about`` is what else the card should say, ``extra`` any plain data that belong to the model.
    """
    check_is_fitted(estimator)
    weights = packed({k: v.cpu().contiguous() for k, v in estimator.module_.state_dict().items()})
    content = {
        "format": FORMAT,
        "revision": REVISION,
        "versions": provenance()["versions"],
        "card": (said := card(estimator, licence, about or {})),
        "extra": dict(extra or {}),
        **_described(estimator),
        "weights": _hash(weights),
    }
    try:
        content = json.loads(json.dumps(content))
    except (TypeError, ValueError) as error:
        raise BadValue(f"what was given as about or extra cannot be saved ({error}); give plain data") from None
    text = json.dumps(content | {"seal": _seal(content)}, indent=2, ensure_ascii=False) + "\n"
    write(Path(folder), {WEIGHTS: weights, CARD: readme(said).encode(), MANIFEST: text.encode()})


def load(folder: Path | str, *, features: Features | None = None) -> Any:
    """The estimator that was saved, ready to predict, bit for bit as it did.

    A model with features of the user's own needs them again: a module of the same architecture.
    """
    return read(folder, features=features).estimator


def read(folder: Path | str, *, features: Features | None = None) -> Saved:
    """Everything that was saved."""
    folder = Path(folder)
    with reading(folder, "estimator", "'invariance fit' or invariance.save"):
        content, weights = _checked(folder)
        estimator = KINDS[content["kind"]](**_parameters(content["parameters"], features, folder))
        _restore(estimator, content)
        estimator.module_ = _module(estimator, content, unpacked(weights))
    return Saved(estimator, content["card"], content["extra"])


def _described(estimator: Invariant) -> dict[str, Any]:
    """Everything but the weights, as plain data."""
    kind = next(kind for kind, cls in KINDS.items() if isinstance(estimator, cls))
    names = getattr(estimator, "feature_names_in_", None)
    choice = estimator.choice_
    standard = next(part for part in estimator.module_.modules() if isinstance(part, Standard))
    return {
        "kind": kind,
        "parameters": _plain_parameters(estimator),
        "columns": int(estimator.n_features_in_),
        "column_names": None if names is None else list(names),
        "environments": _plain_array(estimator.environments_, "environments"),
        "counts": estimator.counts_,
        "classes": _plain_array(estimator.classes_, "classes") if kind == "classifier" else None,
        "target": None if kind == "classifier" else [estimator.target_mean_, estimator.target_scale_],
        "objective": METHODS.dump(estimator.objective_),
        "choice": choice and choice.to_json(),
        "history": HISTORY.dump_python(estimator.history_, mode="json"),
        "scores": estimator.scores_.by_environment,
        "fingerprint": estimator.fingerprint_,
        "network": {
            "standard": list(standard.get_buffer("mean").shape),
            "dtype": str(standard.get_buffer("mean").dtype).removeprefix("torch."),
            "input": list(estimator.input_shape_),
            "width": int(next(iter(estimator.module_.head.parameters())).shape[1]),
        },
    }


def _restore(estimator: Invariant, content: dict[str, Any]) -> None:
    """Fitted state, but for the module."""
    estimator.n_features_in_ = content["columns"]
    estimator.input_shape_ = tuple(content["network"].get("input", (content["columns"],)))
    if content["column_names"] is not None:
        estimator.feature_names_in_ = np.array(content["column_names"], dtype=object)
    estimator.environments_ = _array(content["environments"])
    estimator.counts_ = content["counts"]
    if content["kind"] == "classifier":
        estimator.classes_ = _array(content["classes"])
    else:
        estimator.target_mean_, estimator.target_scale_ = content["target"]
    estimator.objective_ = METHODS.load(content["objective"])
    estimator.choice_ = content["choice"] and Choice.from_json(content["choice"])
    estimator.history_ = HISTORY.validate_python(content["history"])
    estimator.scores_ = Scores(content["scores"])
    estimator.fingerprint_ = content["fingerprint"]


def _module(estimator: Invariant, content: dict[str, Any], weights: dict[str, torch.Tensor]) -> Model:
    network = content["network"]
    blank = torch.zeros(network["standard"])
    standard, features = Standard(blank, blank.clone()), estimator.features
    classes = getattr(estimator, "classes_", ())
    outputs = len(classes) if len(classes) > 2 else 1
    if isinstance(features, Architecture):
        model = around(features, standard, estimator.input_shape_, outputs, seed=0)
    else:
        model = assemble(standard, network["width"], outputs, hidden=estimator.hidden, features=features, seed=0)
    model = model.to(DTYPES[network["dtype"]])
    model = estimator.objective_.prepare(model, len(estimator.environments_), generator(0, "objective"))
    model.load_state_dict(weights)
    return model.eval()


def _checked(folder: Path) -> tuple[dict[str, Any], bytes]:
    """Manifest and weights, if they are as they were written."""
    content = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise DataError(f"{folder} holds something else than an estimator; give a folder that invariance.save wrote")
    if content["revision"] > REVISION:
        made = content["versions"]["invariance"]
        raise DataError(f"{folder} was written by invariance {made}, which is newer; install that or a later one")
    weights = (folder / WEIGHTS).read_bytes()
    seal = content.pop("seal", None)
    for name, whole in ((MANIFEST, seal == _seal(content)), (WEIGHTS, content["weights"] == _hash(weights))):
        if not whole:
            raise DataError(f"{folder / name} is not as it was written; save the estimator again")
    return content, weights


def _seal(content: dict[str, Any]) -> str:
    """A hash that finds accidents and edits; it is no signature."""
    return _hash(json.dumps(content, sort_keys=True).encode())


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _parameters(plain: dict[str, Any], features: Features | None, folder: Path) -> dict[str, Any]:
    if isinstance(plain["features"], dict):
        features = MODELS.load(plain["features"])
    elif plain["features"] is not None and features is None:
        raise BadValue(f"the model in {folder} has features of its own; give load a {plain['features']} as features=")
    method, how = plain["method"], plain["recipe"]
    method = METHODS.load(method) if isinstance(method, dict) else method
    how = recipe("full-batch", changes=how) if isinstance(how, dict) else how
    return {**plain, "method": method, "recipe": how, "features": features, "hidden": tuple(plain["hidden"])}


def _plain_parameters(estimator: Invariant) -> dict[str, Any]:
    seed, own = estimator.random_state, estimator.features
    return {
        "method": _plain_method(estimator.method),
        "recipe": _plain_recipe(estimator.recipe),
        "hidden": [int(width) for width in estimator.hidden],
        "features": _plain_features(own),
        "selection": estimator.selection,
        "validation_fraction": float(estimator.validation_fraction),
        "random_state": int(seed) if isinstance(seed, int | np.integer) else None,
        "device": str(estimator.device),
        "verbose": bool(estimator.verbose),
    }


def _plain_method(method: str | Method) -> str | dict[str, Any]:
    return method if isinstance(method, str) else METHODS.dump(method)


def _plain_features(own: Features | None) -> str | dict[str, Any] | None:
    if not isinstance(own, Architecture):
        return None if own is None else type(own).__name__
    plain = MODELS.dump(own)
    return plain | {"weights": None} if "weights" in plain else plain  # these are the model's by now


def _plain_recipe(how: str | Recipe) -> str | dict[str, Any]:
    return TypeAdapter(Recipe).dump_python(how, mode="json") if isinstance(how, Recipe) else how


def _plain_array(array: NDArray[Any], what: str) -> dict[str, Any]:
    values = array.tolist()
    if not all(isinstance(value, str | int | float) for value in values):
        kind = type(values[0]).__name__
        raise BadValue(f"{what} of kind {kind} cannot be saved; fit again with them as text or numbers")
    return {"dtype": str(array.dtype), "values": values}


def _array(plain: dict[str, Any]) -> NDArray[Any]:
    return np.array(plain["values"], dtype=np.dtype(plain["dtype"]))
