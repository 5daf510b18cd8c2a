"""The store of frames: zarr reads and writes through it, what was changed is refused, and what does not count is not there."""

import numpy as np
import pytest
import xarray
import zarr

from measureflow.runs.checksums import Checksums
from measureflow.runs.store import CheckedStore
from measureflow.words import InputError


@pytest.fixture
def stored(tmp_path):
    """Two arrays that count, and one that does not count yet."""
    checksums = Checksums(tmp_path)
    group = zarr.create_group(CheckedStore(checksums))
    for name in ("x", "y"):
        group.create_array(name, data=np.arange(6.0), chunks=(2,), dimension_names=("time",))
    counted = checksums.counted()
    group.create_array("z", data=np.arange(3.0), dimension_names=("other",))
    return tmp_path, counted, group


def opened(folder, counted):
    return CheckedStore(Checksums.read(folder, counted), read_only=True)


def test_what_counts_is_there_and_nothing_else(stored):
    folder, counted, _ = stored
    data = xarray.open_dataset(opened(folder, counted), engine="zarr", consolidated=False)
    assert set(data) == {"x", "y"}
    np.testing.assert_array_equal(data.x, np.arange(6.0))
    assert (folder / "data.zarr" / "z" / "c" / "0").is_file()
    assert xarray.open_zarr(folder / "data.zarr", consolidated=False).z.size == 3  # as any other reader sees it


def test_chunks_of_another_place_or_array_are_refused(stored):
    folder, counted, _ = stored
    chunks = folder / "data.zarr" / "x" / "c"
    held = (chunks / "0").read_bytes()
    for other in (chunks / "1", folder / "data.zarr" / "y" / "c" / "1"):
        (chunks / "0").write_bytes(other.read_bytes())
        data = xarray.open_dataset(opened(folder, counted), engine="zarr", consolidated=False)
        with pytest.raises(InputError, match=r"data.zarr/x/c/0: its checksum is not the one"):
            _ = data.x.values
        assert data.x[4:].values[-1] == 5  # the others are read as they are
    (chunks / "0").write_bytes(held)
    (chunks / "1").unlink()  # which zarr alone would read as its fill value
    with pytest.raises(InputError, match=r"data.zarr/x/c/1: it is missing"):
        _ = zarr.open_group(opened(folder, counted), mode="r")["x"][:]


def test_an_array_that_is_replaced_or_cut_counts_as_it_is(stored):
    folder, _, group = stored
    group.create_array("x", data=np.ones(2), dimension_names=("time",), overwrite=True)
    group["y"].resize((2,))
    counted = group.store.checksums.counted()
    found = zarr.open_group(opened(folder, counted), mode="r")
    np.testing.assert_array_equal(found["x"][:], [1.0, 1.0])
    np.testing.assert_array_equal(found["y"][:], [0.0, 1.0])
    assert sorted(name for name in found.store.checksums if "/y/c" in name) == ["data.zarr/y/c/0"]


def test_a_part_of_a_file_is_checked_as_a_whole(stored):
    import asyncio

    from zarr.abc.store import RangeByteRequest
    from zarr.core.buffer import default_buffer_prototype

    folder, counted, _ = stored
    file = folder / "data.zarr" / "x" / "c" / "0"
    ask = lambda: asyncio.run(  # noqa: E731
        opened(folder, counted).get("x/c/0", default_buffer_prototype(), RangeByteRequest(0, 2))
    )
    assert ask().to_bytes() == file.read_bytes()[:2]
    file.write_bytes(file.read_bytes() + b"!")
    with pytest.raises(InputError, match="its checksum"):
        ask()
