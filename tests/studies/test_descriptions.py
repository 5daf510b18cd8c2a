"""What a study computes is read from its file: its checks with their tolerances and the reasons beside them."""

from measureflow import studies
from measureflow.studies.descriptions import described

FILE = '''"""The idea.

A formula: `x = 1`.
"""

CLAIM = Claim("One is one.", reference="nobody:25", where="section 1")


def run(size):
    """A setting."""
    parts = [equal(f"part {k}", 2 * k, x, 1e-3) for k in (1, 2)]  # rounding of sums
    return CLAIM.judge(
        *parts,
        # A theorem,
        # so no slack.
        at_most("size", 1.0, x),
        instead=(at_least("least", bound, x, slack=1e-9),),
    )
'''


def test_a_study_is_described_by_its_texts_and_its_checks(tmp_path):
    (tmp_path / "one_is_one.py").write_text(FILE)
    text = described(tmp_path / "one_is_one.py")
    assert (text.idea, text.setting) == ("The idea.\n\nA formula: `x = 1`.", "A setting.")
    assert list(map(str, text.parts)) == [
        "part {k} is not 2 * k within 0.001 (rounding of sums)",
        "size exceeds 1.0 (A theorem, so no slack.)",
        "least is below bound by more than 1e-09",
    ]
    assert [part.instead for part in text.parts] == [False, False, True]


def test_every_study_says_its_idea_its_setting_and_what_would_make_it_fail():
    for name in studies.names():
        text = studies.description(name)
        assert text.parts, name
        assert text.idea.endswith((".", ":", "`")), name
        assert text.setting, name
        assert any(not part.instead for part in text.parts), name
        assert studies.claim(name).expected == "holds" or any(part.instead for part in text.parts), name
