"""The standard streams: closed, full, abandoned or of few letters, and text that a terminal would obey."""

import os
import subprocess
import sys

import pytest

from measureflow.cli.terminal import plain

HELP = f"{sys.executable} -m measureflow --help"


def shell(line: str, **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run(["bash", "-c", line], capture_output=True, env=os.environ | environment)


def test_text_is_shown_and_not_obeyed():
    assert plain("x\x1b[31mred\x07\r\n\u202ey\udcff [bold]β[/bold]") == (
        "x\\x1b[31mred\\x07\\r\n\\u202ey\\udcff [bold]β[/bold]"
    )
    assert plain("as it is") == "as it is"


def test_a_closed_stream_is_no_error_and_its_number_goes_to_no_file(tmp_path):
    code = "from measureflow.cli.terminal import open_streams; open_streams(); print(open('file', 'w').fileno() > 2)"
    for closed in (">&-", "2>&-", "<&- >&- 2>&-"):
        done = shell(f'cd {tmp_path}; {sys.executable} -c "{code}" {closed}')
        assert done.returncode == 0, closed
        assert done.stdout.decode() in ("True\n", "")
        assert shell(f"{HELP} {closed}").returncode == 0
        assert (tmp_path / "file").read_bytes() == b""


def test_a_full_stream_is_said_and_a_reader_who_left_is_not():
    done = shell(f"{HELP} > /dev/full")
    assert done.returncode == 1
    assert done.stderr.decode() == "What was printed is lost: No space left on device. Everything else was done.\n"
    for reader in ("true", "head -1"):
        done = shell(f"{HELP} | {reader}; exit ${{PIPESTATUS[0]}}")
        assert (done.returncode, done.stderr) == (0, b"")
    assert shell(f"{HELP} 2> /dev/full").returncode == 0
    assert shell(f"{sys.executable} -m measureflow nothing 2> /dev/full").returncode == 2  # its own code, though unsaid


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_letters_that_a_terminal_lacks_are_escaped(encoding):
    code = "from measureflow.cli.terminal import open_streams, say; open_streams(); say('α √ é')"
    done = shell(f'{sys.executable} -c "{code}"', PYTHONIOENCODING=encoding)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == "α √ é\n".encode(encoding, "backslashreplace")
