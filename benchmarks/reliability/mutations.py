"""Damage to bytes, to text and to plain data; everything is drawn from one generator, so a number repeats a case."""

import random
from collections.abc import Sequence
from typing import Any

ODD: tuple[Any, ...] = (
    *(None, True, [], {}, "", "x", -1, 0, 1.5, 2**63, 10**30, 1e308, -1e-308, float("nan"), float("inf")),
    *("é\u202e", "\x00", "\ud800", "a" * 5000, [[]], {"name": []}, "NaN", [1, "x", None]),
)
"""Values that stand where others are expected."""


def damaged(data: bytes, rng: random.Random) -> bytes:
    """One to three changes: bytes flipped, changed, cut, doubled, exchanged, put in, or the rest thrown away."""
    for _ in range(rng.randint(1, 3)):
        data = _once(data, rng)
    return data


def _once(data: bytes, rng: random.Random) -> bytes:
    i, j = sorted(rng.randrange(len(data) + 1) for _ in range(2))
    changed = bytearray(data)
    match rng.randrange(8):
        case 0 | 1 if data:
            changed[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        case 2 if data:
            changed[rng.randrange(len(data))] = rng.randrange(256)
        case 3:
            del changed[i : min(j, i + 64)]
        case 4:
            changed[j:j] = changed[i : min(j, i + 64)]
        case 5:
            changed[i:i] = bytes(rng.randrange(256) for _ in range(rng.randint(1, 16)))
        case 6:
            del changed[i:]
        case _:
            number = rng.choice((0, 1, 255, 2**31 - 1, 2**32 - 1, 2**40))
            changed[i : i + 4] = number.to_bytes(8, rng.choice(("big", "little")))[-4:]
    return bytes(changed)


def altered(value: Any, rng: random.Random) -> Any:
    """Plain data with one value, somewhere, replaced, removed, or given another name."""
    if isinstance(value, dict) and value and rng.random() < 0.85:
        name = rng.choice(list(value))
        match rng.randrange(10):
            case 0:
                return {key: inner for key, inner in value.items() if key != name}
            case 1:
                return {f"{key}x" if key == name else key: inner for key, inner in value.items()}
            case _:
                return value | {name: altered(value[name], rng)}
    if isinstance(value, list) and value and rng.random() < 0.7:
        place = rng.randrange(len(value))
        return [altered(inner, rng) if i == place else inner for i, inner in enumerate(value)]
    return rng.choice(ODD)


def neighbour(value: Any, rng: random.Random) -> Any:
    """Another value of the same kind, which is mostly a sound one."""
    if isinstance(value, bool):
        return rng.random() < 0.5
    if isinstance(value, int):
        return rng.choice((value, value + 1, 2 * value, value // 2, max(1, value - 1)))
    if isinstance(value, float):
        return rng.choice((value, value / 2, 2 * value, 0.9 * value, 0.5))
    return value


def spoiled(words: Sequence[str], rng: random.Random) -> str:
    """Some words put together, with signs that mean something somewhere."""
    parts = rng.choices([*words, "=", ".", "[", "{", '"', "-", "--", "\x00", "é", "1e999", "9" * 5000, " "], k=4)
    return "".join(parts[: rng.randint(1, 4)])
