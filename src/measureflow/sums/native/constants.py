"""Numbers that the C++ kernels share with the sums in JAX: this file is their only home.

`build_native.py` turns them into a header for the compiler, with their digest. A library with another digest was built from
other numbers, and is not loaded.
"""

import hashlib

IN_REGISTERS = 4
"""Up to this many coordinates a tile of the kernel stays in registers."""
SCORE_ROUNDINGS = 10.0
"""Roundings of a score that a result may carry, whatever its tolerance: no engine can give more digits."""
SPAN_FLOAT32 = 60.0
"""Scores in float32 may spread over this much below their bound before exponentials vanish."""
SPAN_FLOAT64 = 600.0
"""The same in float64."""
POWER_OF_TWO = (
    *(4.435280944610336161e-10, 7.074105626245659371e-9, 1.017819803332852766e-7, 1.321543308959462904e-6),
    *(1.52527334899608046e-5, 1.540353046251461303e-4, 1.333355814678995032e-3, 9.618129107588335083e-3),
    *(5.550410866481992148e-2, 0.240226506959101562, 0.6931471805599453305, 0.9999999999999999971),
)
"""The polynomial of least relative error for `2^r`, `|r| <= 1/2`, from the highest degree down: 3e-18, for float64."""
CIRCLE_LONGEST = 1e4
"""Longer covectors would need more than a thousand modes on the circle: they are summed exactly."""
SPHERE_LONGEST = 256.0
"""Longer covectors would need more than a hundred degrees on the sphere: they are summed exactly."""
CIRCLE_PART = 1e-5
"""The part of the tolerance that the series on the circle may leave out."""
SPHERE_PART = 1e-4
"""The part of the tolerance that the series on the sphere may leave out."""
CIRCLE_ROUNDINGS = (2.0, 1.0)
"""The error of the series on the circle in roundings of the total weight: for length 0, and times the root of the length."""
SPHERE_ROUNDINGS = (4.0, 4.0)
"""The same for the series on the sphere."""


def header() -> str:
    """The constants in C++."""
    lines = [_line(name, value) for name, value in sorted(globals().items()) if name.isupper()]
    digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]
    return "\n".join(["// Made from constants.py.", "#pragma once", *lines, f'#define CONSTANTS_DIGEST "{digest}"', ""])


def digest() -> str:
    """What a library built from these constants says of them."""
    return header().split('"')[-2]


def _line(name: str, value: int | float | tuple[float, ...]) -> str:
    if isinstance(value, tuple):
        return f"constexpr double {name}[] = {{{', '.join(map(repr, value))}}};"
    return f"constexpr {type(value).__name__.replace('float', 'double')} {name} = {value!r};"
