"""The command line: `measureflow COMMAND`.

Each command is a module with a `main(argv) -> exit code`, imported when it is called for. Exit codes: 0 ran, 1 ran and
something asked to hold did not, 2 bad input, 130 interrupted.
"""

import importlib
import os
import sys

COMMANDS = {
    "simulate": "move tokens under attention; save data, table and picture",
    "train": "train attention heads as a measure flow, and certify what came out",
    "sweep": "simulate or train over grids, lists and draws of settings; one table, one picture, nothing twice",
    "interpolate": "map several measures to their targets by one schedule of weights; save it all, with the movie",
    "inspect": "look at a pretrained transformer through the same objects: clusters, slopes, heads, verdicts",
    "smooth": "how fast a graph network loses the features of your graph, and what keeps them",
    "resume": "go on with an interrupted run, to the same bits",
    "plot": "draw the pictures of runs again, from their folders",
    "rerun": "run again what a run was asked for, and compare",
    "compare": "set runs side by side: tables, and a picture",
    "study": "list published claims, run them, print verdicts",
    "bench": "time kernel sums against what a user would pick instead",
}

USAGE = "usage: measureflow COMMAND [options]\n\ncommands:\n" + "".join(
    f"  {name:<11} {what}\n" for name, what in COMMANDS.items()
)


def main(argv: list[str] | None = None) -> int:
    """Run a command and return its exit code; what it raises becomes a sentence."""
    command, *rest = (sys.argv[1:] if argv is None else argv) or ["--help"]
    if command in ("-h", "--help"):
        print(USAGE + "\n`measureflow COMMAND --help` lists the options of a command.")  # noqa: T201
        return 0
    if command == "--version":
        from measureflow import __version__

        print(f"measureflow {__version__}")  # noqa: T201
        return 0
    from measureflow.words.settings import InputError
    from measureflow.words.table import nearest

    if command not in COMMANDS:
        return complain(f"{command!r} is not a command{nearest(command, list(COMMANDS))}.", "", USAGE.rstrip())
    try:
        return importlib.import_module(f"measureflow.cli.{command}").main(rest)
    except InputError as error:
        return complain(*error.sentences)
    except RuntimeError as error:
        if type(error).__name__ not in ("StorageError", "PeerError"):  # their modules need what most commands do not
            raise
        complain(str(error))
        return 1
    except KeyboardInterrupt:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(130)  # a leg may still be computing in its thread; what was saved is safe


def program() -> None:
    """The command line as a process of its own, which ends at once: the system frees what it holds faster than Python would."""
    import gc

    gc.set_threshold(100_000, 20, 100)  # tracing makes much that stays
    try:
        code = main()
        sys.stdout.flush()
        sys.stderr.flush()
    except BrokenPipeError:  # whoever read our output has enough, as `head` does
        code = 0
    os._exit(code)


def complain(*sentences: str) -> int:
    """Say what is wrong and return the exit code for it."""
    print(*sentences, sep="\n", file=sys.stderr)  # noqa: T201
    return 2


def prepare_jax() -> None:
    """Float64, and compiled programs kept between runs: where JAX was told to, or in a folder of our own."""
    import jax

    jax.config.update("jax_enable_x64", True)
    if jax.config.jax_compilation_cache_dir is None:  # pyright: ignore[reportAttributeAccessIssue]
        cache = os.path.join(os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache")), "measureflow")
        jax.config.update("jax_compilation_cache_dir", cache)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
