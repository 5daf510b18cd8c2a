"""The command line: `measureflow COMMAND`.

Commands are those of the table in `runs/catalogue.py`. One that makes runs is served by `cli/run.py`; each other is a module with
a `main(argv) -> exit code`, imported when it is called for. Exit codes: 0 ran, 1 ran and
something asked to hold did not, 2 bad input, 130 interrupted.
"""

import importlib
import os
import sys

from measureflow.runs.catalogue import COMMANDS

USAGE = "usage: measureflow COMMAND [options]\n\ncommands:\n" + "".join(
    f"  {name:<11} {entry.help}\n" for name, entry in COMMANDS.items() if entry.help
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

    known = [name for name, entry in COMMANDS.items() if entry.help]
    if command not in known:
        return complain(f"{command!r} is not a command{nearest(command, known)}.", "", USAGE.rstrip())
    try:
        return _dispatched(command, rest)
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


def _dispatched(command: str, argv: list[str]) -> int:
    """Run a command that makes runs as all of them are, and any other by its own module."""
    if COMMANDS[command].declared is not None:
        return importlib.import_module("measureflow.cli.run").main(command, argv)
    return importlib.import_module(f"measureflow.cli.{command}").main(argv)


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
