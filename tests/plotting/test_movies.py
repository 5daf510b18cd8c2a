"""Movies have one picture for each frame and say what they need."""

import stat
from itertools import pairwise

import numpy as np
import pytest
from PIL import Image

import measureflow as mf
from measureflow.plotting import cluster_colours, movie


def walk(space, k, n):
    points = np.random.default_rng(0).normal(size=(k, n, space.dim)).cumsum(0)
    return points / np.linalg.norm(points, axis=-1, keepdims=True) if isinstance(space, mf.Sphere) else points


def pictures(path):
    """The frames of a GIF as arrays, and their durations in milliseconds."""
    with Image.open(path) as image:
        frames, durations = [], []
        for i in range(image.n_frames):
            image.seek(i)
            frames.append(np.array(image.convert("RGB")))
            durations.append(image.info["duration"])
    return frames, durations


@pytest.mark.parametrize(
    "space", [mf.Sphere(2), mf.Sphere(3), mf.Sphere(5), mf.Euclidean(1), mf.Euclidean(2), mf.Euclidean(3)]
)
def test_gif_has_every_frame(tmp_path, space, recorded):
    run = recorded(np.arange(4) / 3, walk(space, 4, 20), space)
    path = movie(tmp_path / "run.gif", run, labels=np.arange(20) % 4, size=160)
    frames, durations = pictures(path)
    assert len(frames) == 4
    assert durations == [50, 50, 50, 1500]
    assert all(frame.shape == (168, 160, 3) for frame in frames)
    assert all((a != b).any() for a, b in pairwise(frames))


def test_gif_keeps_white_and_the_colours_of_the_clusters(tmp_path, recorded):
    space, points = mf.Sphere(3), np.repeat(walk(mf.Sphere(3), 1, 8), 2, axis=0)
    run = recorded([0.0, 1.0], points, space, title="eight tokens")
    path = movie(tmp_path / "run.gif", run, labels=np.arange(8), turn=0.0)
    for frame in pictures(path)[0]:
        assert tuple(frame[2, 2]) == (255, 255, 255)
        pixels = frame.reshape(-1, 3).astype(int)
        front = [np.abs(pixels - np.round(255 * c)).max(1).min() < 24 for c in cluster_colours(np.arange(8))]
        assert sum(front) >= 3


def test_one_token_one_frame(tmp_path, recorded):
    run = recorded([0.0], np.ones((1, 1, 1)), mf.Euclidean(1))
    frames, _ = pictures(movie(str(tmp_path / "one.gif"), run, size=121))
    assert len(frames) == 1
    assert frames[0].shape[1] % 2 == 0
    assert (frames[0] != 255).any()


def test_three_dimensions_turn(tmp_path, recorded):
    still = np.repeat(walk(mf.Sphere(3), 1, 30), 2, axis=0)
    for turn, moves in ((0.0, False), (90.0, True)):
        a, b = pictures(movie(tmp_path / "turn.gif", recorded([0.0, 1.0], still, mf.Sphere(3)), size=120, turn=turn))[0]
        assert (a[30:100] != b[30:100]).any() == moves


def test_other_formats_are_refused_with_a_sentence(tmp_path, monkeypatch, recorded):
    monkeypatch.setenv("PATH", str(tmp_path))
    run = recorded([0.0], np.ones((1, 1, 1)), mf.Euclidean(1))
    with pytest.raises(RuntimeError, match=r"ffmpeg, which is not on the path; install it, or write run\.gif"):
        movie(tmp_path / "run.mp4", run)
    with pytest.raises(ValueError, match=r"must end in \.gif or \.mp4"):
        movie(tmp_path / "run.avi", run)


def stand_in(folder, body):
    """A program called ffmpeg, since the real one is rarely on a test machine."""
    (folder / "ffmpeg").write_text("#!/bin/sh\n" + body)
    (folder / "ffmpeg").chmod(stat.S_IRWXU)


def test_mp4_hands_every_pixel_to_ffmpeg(tmp_path, monkeypatch, recorded):
    stand_in(tmp_path, 'echo "$@" > "$0.said"\nfor last; do :; done\ncat > "$last"\n')
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    path = movie(
        tmp_path / "run.mp4", recorded(np.arange(3.0), walk(mf.Sphere(2), 3, 5), mf.Sphere(2)), size=100, fps=12
    )
    assert path.stat().st_size == 3 * 100 * 104 * 3
    said = (tmp_path / "ffmpeg.said").read_text()
    assert "-s 100x104 -r 12 -i -" in said


def test_failure_of_ffmpeg_is_told(tmp_path, monkeypatch, recorded):
    stand_in(tmp_path, "echo 'no such codec' >&2\nexit 3\n")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(RuntimeError, match="no such codec"):
        movie(tmp_path / "run.mp4", recorded(np.arange(9.0), walk(mf.Sphere(2), 9, 5), mf.Sphere(2)), size=100)
