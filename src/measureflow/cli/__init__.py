"""The command line: `measureflow COMMAND`.

Commands are those of the table in `runs/catalogue.py`. One that makes runs is served by `cli/run.py`; each other is a module with
a `main(argv) -> exit code`, imported when it is called for. `CODES` says what exit codes mean.
"""

import importlib
import os
import sys

from measureflow.cli.terminal import Outlet, complain, open_streams, say
from measureflow.runs.catalogue import COMMANDS

CODES = """exit codes:
  0    it came to its end: a run to the time that was asked for, or to a blow-up, after which there is no time
  1    it ran, and what was asked did not come out: a run or a cell of a sweep gave up before its time, a claim is not as
       expected, what was run again differs, what was certified is not optimal
  2    bad input, with a sentence; nothing was computed
  70   an error of measureflow itself, with a log file to report
  130  interrupted; what was saved is safe"""

USAGE = "usage: measureflow COMMAND [options]\n\ncommands:\n" + "".join(
    f"  {name:<11} {entry.help}\n" for name, entry in COMMANDS.items() if entry.help
)


def main(argv: list[str] | None = None) -> int:
    """Run a command and return its exit code; what it raises becomes a sentence."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        return _ran(*(words or ["--help"]))
    except KeyboardInterrupt:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(130)  # a leg may still be computing in its thread; what was saved is safe
    except Exception as error:
        from measureflow.cli.failures import DEBUG, explain

        if os.environ.get(DEBUG):
            raise
        return explain(error, words)


def _ran(command: str, *words: str) -> int:
    """Run a command; what is wrong with its input, and what ended its run, becomes a sentence."""
    if command in ("-h", "--help"):
        say(f"{USAGE}\n{CODES}\n\n`measureflow COMMAND --help` lists the options of a command.")
        return 0
    if command == "--version":
        from measureflow import __version__

        say(f"measureflow {__version__}")
        return 0
    from measureflow.words.settings import InputError
    from measureflow.words.table import nearest

    known = [name for name, entry in COMMANDS.items() if entry.help]
    if command not in known:
        return complain(f"{command!r} is not a command{nearest(command, known)}.", "", USAGE.rstrip())
    try:
        os.getcwd()
    except FileNotFoundError:
        return complain("The working folder is gone: change to one that is there.")
    try:
        return _dispatched(command, list(words))
    except InputError as error:
        return complain(*error.sentences)
    except RuntimeError as error:
        if type(error).__name__ not in ("StorageError", "PeerError"):  # their modules need what most commands do not
            raise
        complain(str(error))
        return 1


def _dispatched(command: str, argv: list[str]) -> int:
    """Run a command that makes runs as all of them are, and any other by its own module."""
    if COMMANDS[command].declared is not None:
        return importlib.import_module("measureflow.cli.run").main(command, argv)
    return importlib.import_module(f"measureflow.cli.{command}").main(argv)


def program() -> None:
    """The command line as a process of its own, which ends at once: the system frees what it holds faster than Python would."""
    import gc

    gc.set_threshold(100_000, 20, 100)  # tracing makes much that stays
    out, _ = open_streams()
    try:
        code = main()
    except SystemExit as left:  # the parser of options has said what there is to say
        code = left.code if isinstance(left.code, int) else 0
    sys.stdout.flush()
    code = code or _heard(out)
    sys.stderr.flush()
    os._exit(code)


def _heard(out: Outlet) -> int:
    """The exit code of a command that ended well: 1 if what it said was lost, but not if its reader had enough, as `head` has."""
    if out.lost is None or isinstance(out.lost, BrokenPipeError):
        return 0
    complain(f"What was printed is lost: {out.lost.strerror}. Everything else was done.")
    return 1


def prepare_jax() -> None:
    """Float64, and compiled programs kept between runs: where JAX was told to, or in a folder of our own."""
    import jax

    jax.config.update("jax_enable_x64", True)
    if jax.config.jax_compilation_cache_dir is None:  # pyright: ignore[reportAttributeAccessIssue]
        cache = os.path.join(os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache")), "measureflow")
        jax.config.update("jax_compilation_cache_dir", cache)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
