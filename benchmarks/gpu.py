"""What a GPU does, as `measureflow bench --device gpu` says, with JAX and the core of the package alone.

python benchmarks/gpu.py [FILE.json]
"""

import json
import sys
from pathlib import Path

import jax

jax.config.update("jax_enable_x64", True)

from measureflow.commands.bench.gpu import table

rows = []
for row in table():
    error = "" if row["error"] is None else f"{row['error']:.1e}"
    size = f"{row['n']:>10} {row['dim']:>4} {row['dtype']:<9}"
    print(
        f"{row['work']:<24} {row['name']:<24} {size} {1e3 * row['seconds']:>10.3f} ms {row['per_second']:>10.2e}/s {error}",
        flush=True,
    )
    rows.append(row)
    if sys.argv[1:]:
        Path(sys.argv[1]).write_text(json.dumps(rows, indent=2) + "\n")
