"""Builds the native kernel when the package is built; without a compiler the package installs all the same."""

import os
import pathlib
import runpy
import shutil
import subprocess
import sysconfig
import tempfile
from concurrent.futures import ThreadPoolExecutor

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

HOME = "measureflow/sums/native"
CONSTANTS = "constants.py"


class NativeKernel(BuildHookInterface):
    """Compiles the kernels into one library beside their sources and adds it to the wheel."""

    def initialize(self, version, build_data):
        """Compile, or say why not."""
        folder = pathlib.Path(self.root, "src", HOME)
        library = folder / ("_attend" + sysconfig.get_config_var("EXT_SUFFIX"))
        try:
            compile_kernel(sorted(folder.glob("*.cc")), library)
        except Exception as problem:  # an install never fails for want of a compiler
            library.unlink(missing_ok=True)
            self.app.display_warning(f"measureflow: native kernel not built ({problem}); the JAX engine will be used.")
        else:
            build_data |= {"pure_python": False, "infer_tag": True}
            build_data["force_include"][str(library)] = f"{HOME}/{library.name}"


def compile_kernel(sources: list[pathlib.Path], library: pathlib.Path) -> None:
    """Compile the kernels for every instruction set that they choose from when they run."""
    if os.environ.get("MEASUREFLOW_NATIVE") == "0":
        raise RuntimeError("switched off by MEASUREFLOW_NATIVE=0")
    compiler = os.environ.get("CXX") or shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        raise RuntimeError("no C++ compiler on the path")
    import jaxlib

    include = pathlib.Path(jaxlib.__file__).parent / "include"
    flags = ["-O3", "-std=c++17", "-fPIC", "-pthread", "-ffp-contract=fast", "-fno-math-errno", "-w", f"-I{include}"]

    def run(*words) -> None:
        subprocess.run([compiler, *flags, *map(str, words)], check=True, capture_output=True, timeout=300)

    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor() as pool:
        # The constants that the kernels share with Python become a header.
        constants = runpy.run_path(str(library.parent / CONSTANTS))
        pathlib.Path(folder, "constants.h").write_text(constants["header"]())
        flags.append(f"-I{folder}")
        objects = [pathlib.Path(folder, source.stem + ".o") for source in sources]
        list(pool.map(lambda pair: run("-c", pair[0], "-o", pair[1]), zip(sources, objects, strict=True)))
        partial = library.with_suffix(".partial")
        run("-shared", *objects, "-o", partial)
        partial.replace(library)
