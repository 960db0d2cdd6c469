"""Bytes of strangers, from hypothesis in every run, and from atheris in the lane `fuzz` (`make test-fuzz`)."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.targets import SEEDS, TARGETS
from tests.harness.node import ROOT

FUZZ_S = int(os.environ.get("FUZZ_S", "165"))
"""Seconds for each target; all of them together take half an hour."""


@st.composite
def mutants(draw: st.DrawFn) -> bytes:
    """A well-formed example with a few pieces taken out, put in, doubled or replaced by pieces of another."""
    data = draw(st.sampled_from(SEEDS))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(data)))
        end = draw(st.integers(start, min(len(data), start + 12)))
        other = draw(st.sampled_from(SEEDS))
        cut = draw(st.integers(0, len(other)))
        piece = draw(st.sampled_from([b"", data[start:end] * 2, other[cut : cut + 12]]) | st.binary(max_size=8))
        data = data[:start] + piece + data[end:]
    return data


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["type", "text", "scope", "op", "id", "kind", "seq", "at", "notes"]) | st.text(), inner
        )
    ),
    max_leaves=12,
)


@pytest.mark.parametrize("name", TARGETS)
@settings(max_examples=150, deadline=None)
@given(
    data=mutants()
    | st.binary(max_size=200)
    | st.text(max_size=100).map(str.encode)
    | JSON.map(lambda one: repr(one).encode())
)
def test_a_target_comes_back(name: str, data: bytes) -> None:
    """Whatever comes in, a target gives a value or its own refusal."""
    TARGETS[name](data)


@pytest.mark.parametrize("name", TARGETS)
def test_a_target_takes_the_seeds(name: str) -> None:
    """The examples that fuzzing begins with are fine for every target."""
    for seed in SEEDS:
        TARGETS[name](seed)


@pytest.mark.fuzz
@pytest.mark.timeout(FUZZ_S + 120)
@pytest.mark.skipif(find_spec("atheris") is None, reason="atheris is not installed: pip install '.[fuzz]'")
@pytest.mark.parametrize("name", TARGETS)
def test_atheris_finds_nothing(name: str, tmp_path: Path) -> None:
    """Guided by coverage, no input is found that a target does not come back from, or takes over 5 s or 1 GiB for."""
    limits = [f"-max_total_time={FUZZ_S}", "-timeout=5", "-rss_limit_mb=1024", "-max_len=4096", "-close_fd_mask=1"]
    command = [sys.executable, "-m", "tests.fuzz.run", name, *limits, f"-artifact_prefix={tmp_path}/"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-4000:]
