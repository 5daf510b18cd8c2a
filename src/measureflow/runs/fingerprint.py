"""Fingerprints: a short text that is equal for equal objects, in every process.

Classes count by their names, arrays by their bytes, functions by their code and what they hold.
"""

import dataclasses
import hashlib
import types
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import jax
import numpy as np


def fingerprint(thing: Any) -> str:
    """The fingerprint of an object: sixteen letters."""
    digest = hashlib.sha256()
    for piece in _pieces(thing, set()):
        digest.update(len(piece).to_bytes(8, "little") + piece)
    return digest.hexdigest()[:16]


def _pieces(thing: Any, seen: set[int]) -> Iterator[bytes]:
    yield type(thing).__qualname__.encode()
    match thing:
        case None | bool() | int() | float() | complex() | str() | bytes():
            yield repr(thing).encode()
        case jax.Array() if jax.numpy.issubdtype(thing.dtype, jax.dtypes.prng_key):
            yield np.asarray(jax.random.key_data(thing)).tobytes()
        case jax.Array() | np.ndarray() | np.generic():
            array = np.asarray(thing)
            yield f"{array.dtype}{array.shape}".encode() + array.tobytes()
        case Mapping():
            for key, value in thing.items():
                yield from (*_pieces(key, seen), *_pieces(value, seen))
        case list() | tuple():
            for value in thing:
                yield from _pieces(value, seen)
        case set() | frozenset():
            yield from sorted(piece for value in thing for piece in _pieces(value, seen))
        case partial():
            yield from _pieces((thing.func, thing.args, thing.keywords), seen)
        case types.FunctionType():
            if id(thing) not in seen:
                held = [cell.cell_contents for cell in thing.__closure__ or ()]
                yield from (*_code(thing.__code__), *_pieces((held, thing.__defaults__), seen | {id(thing)}))
        case types.MethodType():
            yield from _pieces((thing.__func__, thing.__self__), seen)
        case _ if dataclasses.is_dataclass(thing) and not isinstance(thing, type):
            for field in dataclasses.fields(thing):
                yield field.name.encode()
                yield from _pieces(getattr(thing, field.name, None), seen)
        case _:
            yield f"{getattr(thing, '__module__', '')}.{getattr(thing, '__qualname__', type(thing).__qualname__)}".encode()


def _code(code: types.CodeType) -> Iterator[bytes]:
    yield code.co_code
    yield repr(code.co_names).encode()
    for constant in code.co_consts:
        yield from _code(constant) if isinstance(constant, types.CodeType) else (repr(constant).encode(),)
