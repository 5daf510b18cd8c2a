"""Numbers that C++ and Python share have one home, and a library built from others is not used."""

import re
from pathlib import Path

import pytest

from measureflow.sums import native
from measureflow.sums.native import constants

HOME = Path(native.__file__).parent
NAMES = [name for name in vars(constants) if name.isupper()]
CPP = {file.name: file.read_text() for file in HOME.iterdir() if file.suffix in (".cc", ".h", ".inc")}
PYTHON = {file.name: file.read_text() for file in HOME.parent.rglob("*.py") if file.name != "constants.py"}


@pytest.mark.parametrize("name", NAMES)
def test_a_shared_number_is_used_on_both_sides_and_written_down_on_neither(name):
    for side in (CPP, PYTHON):
        assert any(re.search(rf"\b{name}\b", text) for text in side.values())
        for file, text in side.items():
            assert not re.search(rf"\b{name}\b(\[\w*\])? *=[^=]", text), file


def test_the_digits_of_shared_numbers_stand_in_one_file():
    telling = {repr(x)[:8] for x in constants.POWER_OF_TWO[:-1]}
    for file, text in (CPP | PYTHON).items():
        assert not [digits for digits in telling if digits in text], file


def test_the_header_holds_every_shared_number_to_the_last_bit():
    header = constants.header()
    for name in NAMES:
        (written,) = re.findall(rf"constexpr \w+ {name}(?:\[\])? = (.*);", header)
        value = getattr(constants, name)
        assert tuple(map(float, written.strip("{}").split(","))) == (value if isinstance(value, tuple) else (value,))


def test_the_digest_changes_with_any_number(monkeypatch):
    found = {constants.digest()}
    for name in NAMES:
        with monkeypatch.context() as changed:
            value = getattr(constants, name)
            changed.setattr(constants, name, (*value[1:], 0.5) if isinstance(value, tuple) else value + 1)
            found.add(constants.digest())
    assert len(found) == 1 + len(NAMES)


@pytest.mark.skipif(not native.available(), reason="the native kernel is not built")
def test_a_library_built_from_other_numbers_is_not_used_and_says_so(monkeypatch):
    assert native._library.__wrapped__() is not None
    monkeypatch.setattr(constants, "IN_REGISTERS", 5)
    with pytest.warns(UserWarning, match="was built from other sources and is not used. Install again"):
        assert native._library.__wrapped__() is None
