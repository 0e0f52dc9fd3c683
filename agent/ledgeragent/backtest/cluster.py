"""The workers of a backtest on a Ray cluster (extra `ray`): actors that hold both sets of policies.

The policies travel with the job, so that the nodes need LedgerAgent (of this version) and nothing else; the lines of
the files travel with the pieces, so that only the machine the run was begun on must be able to read them.
"""

from __future__ import annotations

import importlib
import io
import logging
import tarfile
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from ledgeragent.backtest.lines import Piece
from ledgeragent.backtest.sides import Bench, Found, Job
from ledgeragent.errors import BadInput, LedgerAgentError
from ledgeragent.policies import compiled_for
from ledgeragent.policysource import PolicySource

LOCAL: Final = "local"


@dataclass(frozen=True)
class Packed:
    """A set of policies as bytes.

    Attributes:
        name: what they were asked for by.
        archive: a tar of `rego/`, `schemas/` and `compiled/`.
        bundle: the file's name in it, when the policies are a bundle file; else empty.
    """

    name: str
    archive: bytes
    bundle: str

    @classmethod
    def of(cls, source: PolicySource) -> Packed:
        """Pack policies, ready to be asked."""
        bundle = "" if source.policies.is_dir() else source.policies.name
        content = io.BytesIO()
        with tarfile.open(fileobj=content, mode="w") as archive:
            archive.add(source.policies, bundle or "rego")
            archive.add(source.schemas, "schemas")
            compiled = compiled_for(source.policies)
            if not bundle and compiled.is_dir():
                archive.add(compiled, "compiled")
        return cls(source.name, content.getvalue(), bundle)

    def unpacked(self, folder: Path) -> PolicySource:
        """The policies in a folder."""
        with tarfile.open(fileobj=io.BytesIO(self.archive)) as archive:
            archive.extractall(folder, filter="data")
        return PolicySource(self.name, folder / (self.bundle or "rego"), folder / "schemas")


class Actor:
    """Judges on a node."""

    def __init__(self, job: Job, packed: Mapping[str, Packed]) -> None:
        """Write the policies to a folder of its own and open nothing yet.

        Args:
            job: what to do; its policies are not looked at.
            packed: the policies in their place, `new` and, where there are, `old`.
        """
        self._folder = tempfile.TemporaryDirectory(prefix="ledgeragent-backtest-")
        sources = {side: own.unpacked(Path(self._folder.name) / side) for side, own in packed.items()}
        self._bench = Bench(replace(job, new=sources["new"], old=sources.get("old")))

    def judge(self, piece: Piece) -> Found:
        """Judge a piece."""
        return self._bench.judge(piece.name, piece.lines)


class Cluster:
    """Judges with the actors of a cluster; a context manager."""

    def __init__(self, job: Job, address: str, size: int | None) -> None:
        """Connect and start the actors.

        Args:
            job: what to do.
            address: of the cluster (`auto`, `ray://HOST:PORT`), or `local` for one of this process's own.
            size: how many actors; None for one per CPU of the cluster.

        Raises:
            BadInput: when Ray is not installed, or there is no such cluster.
        """
        try:
            ray: Any = importlib.import_module("ray")
        except ImportError:
            raise BadInput("--ray needs the extra: pip install 'ledgeragent[ray]'") from None
        self._ray = ray
        own: dict[str, Any] = {"num_cpus": size, "include_dashboard": False} if address == LOCAL else {}
        try:
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **own)
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise BadInput(f"--ray {address}: {error}") from None
        self.size = size or max(1, int(ray.cluster_resources().get("CPU", 1)))
        sources = {"new": job.new, **({"old": job.old} if job.old is not None else {})}
        packed = ray.put({side: Packed.of(source) for side, source in sources.items()})
        actor = ray.remote(num_cpus=1)(Actor)
        self._actors = [actor.remote(job, packed) for _ in range(self.size)]
        self._next = 0

    def submit(self, piece: Piece) -> Any:
        """See `Workers`."""
        self._next = (self._next + 1) % self.size
        return self._actors[self._next].judge.remote(piece)

    def result(self, begun: Any) -> Found:
        """See `Workers`."""
        try:
            found: Found = self._ray.get(begun)
        except self._ray.exceptions.RayActorError as error:
            raise LedgerAgentError(f"a worker of the Ray cluster ended before its time: {error}") from None
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._ray.shutdown()
