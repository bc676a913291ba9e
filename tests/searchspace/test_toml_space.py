"""A user's own space is one TOML file, and what is wrong with it is said by name."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
import tomli_w
from hypothesis import given, settings
from hypothesis import strategies as st

from pocketnas.errors import SpaceError
from pocketnas.searchspace import BUILTIN_SPACES, load_space, space_from_dict

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "my_space.toml"

MINIMAL = """
input_resolution = 32
base = ["stem_c16_s1", "ds_r1_k3_s1_e1_c16", "ir_r2_k3_s2_e3_c24", "head_c128"]
"""


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    return path


def test_the_example_is_what_it_says() -> None:
    space = load_space(EXAMPLE)
    choices = {d.name: d.choices for d in space.decisions}
    assert space.name == "my-space"
    assert space.input_resolution == 32
    assert space.base.head.channels == 256
    assert choices["b1.op"] == ("conv", "ds")
    assert choices["b2.op"] == ("ds", "ir3", "ir4")
    assert choices["b1.kernel"] == (3,)
    assert choices["b3.kernel"] == (3, 5, 7)
    assert choices["b1.se"] == (0.0,)
    assert choices["b3.se"] == (0.0, 0.25)  # MnasNet's, since the file does not say
    assert choices["b2.filters"] == (0.75, 1.0, 1.25)
    assert choices["b4.filters"] == (0.5, 0.75, 1.0)
    assert choices["b2.layers"] == (-1, 0, 1, 2)
    assert choices["b1.layers"] == choices["b4.layers"] == (0, 1, 2)  # their base has one layer


def test_the_docs_tell_of_the_example() -> None:
    documented = (ROOT / "docs" / "spaces.md").read_text()
    table = EXAMPLE.read_text().split("name =", 1)[1]
    assert table in documented


def test_a_minimal_file_has_the_choices_of_mnasnet(tmp_path: Path) -> None:
    space = load_space(write(tmp_path, MINIMAL))
    assert space.name == "mine"
    assert [d.choices for d in space.decisions[6:]] == [
        ("conv", "ds", "ir3", "ir6"),
        (3, 5),
        (0.0, 0.25),
        ("none", "identity", "pool"),
        (0.75, 1.0, 1.25),
        (-1, 0, 1),
    ]


@pytest.mark.parametrize("name", [*BUILTIN_SPACES, str(EXAMPLE)])
def test_every_space_can_be_written_as_a_file(name: str, tmp_path: Path) -> None:
    space = load_space(name)
    path = write(tmp_path, tomli_w.dumps(space.to_dict()))
    assert load_space(path) == space
    assert load_space(path).fingerprint == space.fingerprint


def test_whole_and_real_numbers_are_the_same_choice(tmp_path: Path) -> None:
    one = load_space(write(tmp_path, MINIMAL + "[choices]\nse = [0, 1]\nfilters = [1, 2]"))
    two = load_space(write(tmp_path, MINIMAL + "[choices]\nse = [0.0, 1.0]\nfilters = [1.0, 2.0]"))
    assert one.fingerprint == two.fingerprint
    assert one.distributions() == two.distributions()


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "has no 'input_resolution'"),
        ("input_resolution = 32", "has no 'base'"),
        ("input_resolution = 32\nbase = []", "base is no arch: an arch must have from 1"),
        ("input_resolution = 32\nbase = 'ds_r1_k3_s1_c16'", "base must be a list of strings"),
        ("input_resolution = 32\nbase = ['xx_r1_k3_s1_c16']", "unknown op 'xx'"),
        ("input_resolution = 32\nbase = [3]", "must be text but got 3"),
        (MINIMAL.replace("32", "0"), "input resolution 0"),
        (MINIMAL.replace("32", "'32'"), "input resolution '32'"),
        (MINIMAL.replace("32", "9" * 100), "input resolution 999"),
        ("name = 5" + MINIMAL, "name must be a line of text"),
        ("name = ''" + MINIMAL, "name must be a line of text"),
        ('name = "a\\nb"' + MINIMAL, "name must be a line of text"),
        ("resolution = 32" + MINIMAL, "unknown key 'resolution': use name, input_resolution"),
        (MINIMAL + "[choices]\nkernels = [3]", "[choices] has an unknown key 'kernels'"),
        (MINIMAL + "[choices]\nkernel = []", "[choices] kernel must be a list of choices"),
        (MINIMAL + "[choices]\nkernel = 3", "[choices] kernel must be a list of choices"),
        (MINIMAL + "[choices]\nkernel = [3, 3]", "'b1.kernel' has the choice 3 twice"),
        (
            MINIMAL + "[choices]\nkernel = [3.0]",
            "[choices] kernel has the choice 3.0, which is no",
        ),
        (MINIMAL + "[choices]\nkernel = [4]", "'b1.kernel' has an impossible choice 4"),
        (MINIMAL + "[choices]\nse = [0, 0.0]", "'b1.se' has the choice 0.0 twice"),
        (
            MINIMAL + "[choices]\nse = [true]",
            "se has the choice True, which is no sensible number",
        ),
        (MINIMAL + "[choices]\nse = [nan]", "'b1.se' has an impossible choice nan"),
        (MINIMAL + "[choices]\nse = [" + "9" * 400 + "]", "which is no sensible number"),
        (MINIMAL + "[choices]\nop = ['ir3', 'mb6']", "'b1.op' has an impossible choice 'mb6'"),
        (MINIMAL + "[choices]\nop = [['ds']]", "which is no text"),
        (MINIMAL + "[choices]\nskip = ['short']", "'b1.skip' has an impossible choice 'short'"),
        (MINIMAL + "[choices]\nlayers = [-1]", "'b1.layers' has 0 choices"),
        (MINIMAL + "[choices]\nlayers = ['a']", "which is no whole number"),
        (MINIMAL + "[choices]\nfilters = [1.0, 1.001]", "round to the same channels"),
        (MINIMAL + "[blocks.b1]\nlayers = [-1, 0]", "'b1.layers' has an impossible choice -1"),
        (MINIMAL + "[blocks.b3]\nop = ['ds']", "[blocks] has an unknown key 'b3': use b1, b2"),
        (MINIMAL + "[blocks.b1]\nops = ['ds']", "[blocks.b1] has an unknown key 'ops'"),
        (MINIMAL + "[blocks]\nb1 = 3", "[blocks.b1] must be a table"),
        ("blocks = []" + MINIMAL, "[blocks] must be a table"),
        ("choices = 1" + MINIMAL, "[choices] must be a table"),
        ("= 3", "is not TOML"),
        ("a = " + "[" * 50_000, "is not TOML"),
        ("#" * 1_000_001, "too large"),
    ],
)
def test_malformed_files_are_refused_by_name(tmp_path: Path, text: str, named: str) -> None:
    with pytest.raises(SpaceError) as caught:
        load_space(write(tmp_path, text))
    assert named in str(caught.value)
    assert len(str(caught.value)) < 600


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(SpaceError, match="cannot be read"):
        load_space(tmp_path)
    (tmp_path / "mine.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(SpaceError, match="not TOML"):
        load_space(tmp_path / "mine.toml")


@pytest.mark.parametrize("name", ["mnasnet-min", "", "none.toml", "\0", "x" * 10_000])
def test_unknown_spaces_list_the_known_ones(name: str) -> None:
    with pytest.raises(SpaceError, match="mnasnet, mnasnet-cifar, mnasnet-mini") as caught:
        load_space(name)
    assert ("did you mean 'mnasnet-mini'" in str(caught.value)) == (name == "mnasnet-min")


JSONISH = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=5,
)


@settings(deadline=None, max_examples=300)
@given(
    st.sampled_from(["choices", "blocks"]),
    st.sampled_from(["op", "kernel", "se", "skip", "filters", "layers"]),
    JSONISH | st.lists(JSONISH, min_size=1, max_size=3),
)
def test_any_value_makes_a_space_or_one_sentence(place: str, field: str, value: object) -> None:
    document = tomllib.loads(MINIMAL)
    table = {field: value}
    document |= {"name": "mine", place: table if place == "choices" else {"b1": table}}
    sentence = None
    try:
        space = space_from_dict(document)
    except SpaceError as error:
        sentence = str(error)
    if sentence is None:
        assert space_from_dict(space.to_dict()) == space
    else:
        assert sentence.isprintable()
