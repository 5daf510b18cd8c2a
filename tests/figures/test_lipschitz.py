"""The slopes of one head on a text and on adversarial tokens, drawn for a small model."""

import numpy as np

from measureflow.figures import lipschitz


def test_one_head_is_shown_on_the_text_and_on_adversarial_tokens(made, tmp_path):
    folder = made.alphabet(made.write(tmp_path / "gpt2", *made.gpt2()))
    (ax,) = lipschitz.figure(str(folder), length=12, layers=(1,)).axes
    text, adversarial = (line for line in ax.get_lines() if line.get_gid() == "found")
    (bound,) = (line for line in ax.get_lines() if line.get_gid() == "law")
    assert text.get_label().endswith(", text")
    assert adversarial.get_label() == text.get_label().replace("text", "adversarial")
    np.testing.assert_array_equal(text.get_xdata(), [8, 12])
    assert (adversarial.get_ydata() >= bound.get_ydata() * (1 - 1e-3)).all()
