"""Policies by name: those of a folder, of a bundle, of a revision in git, or the ones that a record names.

    rego/ or a folder with rego/ and schemas/      the policies as they stand there
    bundle.tar.gz                                  a bundle file, with the schemas given beside it
    git:REV or git:REV:FOLDER                      as they were committed; FOLDER is where rego/ and schemas/ are
    sha256:… (eight digits or more)                the version in which some part has this revision

What is found is written to a temporary folder where it is not on disk already; it is only read. Judging with it is the
others' part.
"""

from __future__ import annotations

import io
import re
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from ledgeragent.domain import Domain
from ledgeragent.errors import BadInput, LedgerAgentError
from ledgeragent.parts import GATE, domain_part, gate_part
from ledgeragent.policies import REGO, SCHEMAS, domains

_GIT_SECONDS: Final = 60
_REVISION: Final = re.compile(r"sha256:[0-9a-f]{8,64}\Z")
_GIT: Final = "git:"
_SHIPPED_MODULE: Final = "agent/ledgeragent/compiled"


@dataclass(frozen=True)
class PolicySource:
    """Where policies are.

    Attributes:
        name: what they were asked for by.
        policies: the bundle root folder, or a bundle file.
        schemas: the folder of the domains' schemas that belong to them.
    """

    name: str
    policies: Path
    schemas: Path

    def revisions(self) -> dict[str, str]:
        """Part → revision, for the gate and every domain that loads; empty for a bundle file."""
        if not self.policies.is_dir():
            return {}
        found = {GATE: gate_part(self.policies).revision}
        for name in domains(self.schemas):
            try:
                domain = Domain.load(name, schemas=self.schemas, rego=None)
                found[name] = domain_part(self.policies, domain).revision
            except LedgerAgentError:  # another domain's trouble is not this one's
                continue
        return found


class PolicySources:
    """Finds policies by name; a context manager that owns what it had to write."""

    def __init__(self, *, schemas: Path | None = None, repository: Path | None = None) -> None:
        """Begin with nothing looked for.

        Args:
            schemas: the schemas to use instead of those that stand beside the policies.
            repository: a folder of the git repository to look into; default: the working folder.
        """
        self._schemas = schemas
        self._repository = repository or Path.cwd()
        self._folder = tempfile.TemporaryDirectory(prefix="ledgeragent-policies-")
        self._found: dict[str, PolicySource] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Remove what was written."""
        self._folder.cleanup()

    def shipped(self) -> PolicySource:
        """The policies of this version."""
        return PolicySource("the shipped policies", REGO, self._schemas or SCHEMAS)

    def find(self, name: str) -> PolicySource:
        """The policies of a name of one of the forms above.

        Raises:
            BadInput: when there are none; the message says what was looked for and where.
        """
        if name not in self._found:
            self._found[name] = self._find(name)
        return self._found[name]

    def _find(self, name: str) -> PolicySource:
        if name.startswith(_GIT):
            revision, _, folder = name.removeprefix(_GIT).partition(":")
            return self._committed(name, revision, folder or ".")
        if _REVISION.match(name):
            return self.of_revision(name)
        path = Path(name)
        if path.is_file():
            return PolicySource(name, path, self._schemas or SCHEMAS)
        return self._in_folder(name, path)

    def _in_folder(self, name: str, path: Path) -> PolicySource:
        for rego in (path, path / "rego"):
            if (rego / "ledgeragent").is_dir():
                beside = rego.resolve().parent / "schemas"
                return PolicySource(name, rego, self._schemas or (beside if beside.is_dir() else SCHEMAS))
        raise BadInput(
            f"no policies at {name}: name a bundle root (the folder that holds ledgeragent/), a folder with rego/ in "
            "it, a bundle file, git:REV, or a revision (sha256:…)"
        )

    def of_revision(
        self, domain: str, gate: str | None = None, *, among: tuple[PolicySource, ...] = ()
    ) -> PolicySource:
        """The policies in which some part has a revision.

        Args:
            domain: the revision looked for (`sha256:…`, eight digits or more), a domain's or the gate's.
            gate: the revision that the shared gate must have too, or None.
            among: where to look first; then come the shipped ones, then what git holds.

        Raises:
            BadInput: when no policies at hand have it.
        """
        if not _REVISION.match(domain):  # it may come from a record that somebody else wrote
            raise BadInput(f"{domain[:80]!r} is no revision: they read sha256: and at least eight hexadecimal digits")
        for source in (*among, self.shipped()):
            if _has(source, domain, gate):
                return source
        for commit in self._commits_with(domain):
            for folder in self._roots(commit):
                source = self.find(f"{_GIT}{commit}:{folder}")
                if _has(source, domain, gate):
                    return source
        beside = "" if gate is None else f" together with the gate's {gate[:19]}…"
        raise BadInput(
            f"no policies at hand have the revision {domain[:19]}…{beside}: not those given, not the shipped ones, and "
            f"no commit of a git repository at {self._repository}"
        )

    # git --------------------------------------------------------------------------------------------------------

    def _committed(self, name: str, revision: str, folder: str) -> PolicySource:
        target = Path(self._folder.name) / f"{len(self._found)}"
        self._extract(revision, folder, target)
        if not (target / "rego" / "ledgeragent").is_dir():
            raise BadInput(f"{name}: there is no rego/ledgeragent in {folder!r} of that commit; name git:REV:FOLDER")
        beside = target / "schemas"
        return PolicySource(name, target / "rego", self._schemas or (beside if beside.is_dir() else SCHEMAS))

    def _extract(self, revision: str, folder: str, target: Path) -> None:
        top = self._git("rev-parse", "--show-toplevel").decode().strip()
        commit = (
            self._git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}").decode().strip()
        )
        below = {"rego": "rego", "schemas": "schemas", "compiled": "compiled", _SHIPPED_MODULE: "compiled"}
        prefix = "" if folder in (".", "") else folder.rstrip("/") + "/"
        for source, name in below.items():
            tree = f"{commit}:{prefix}{source}"
            if self._git_says("cat-file", "-e", tree, at=Path(top)):
                archive = self._git("archive", "--format=tar", tree, at=Path(top))
                with tarfile.open(fileobj=io.BytesIO(archive)) as files:
                    files.extractall(target / name, filter="data")

    def _commits_with(self, digest: str) -> Iterator[str]:
        """Commits whose generated data names a revision, newest first: it was put there, and not yet taken away."""
        if not self._git_says("rev-parse", "--git-dir"):
            return
        touched = self._git("log", "--all", "--format=%H %P", f"-S{digest}", "--", "*data.json").decode()
        for line in touched.splitlines():
            for commit in line.split():
                if self._roots_with(commit, digest):
                    yield commit

    def _roots_with(self, commit: str, digest: str) -> bool:
        return self._git_says("grep", "-q", "-F", "-e", digest, commit, "--", ":(top,glob)**/data.json")

    def _roots(self, commit: str) -> list[str]:
        """The folders of a commit in which there is a rego/ with the shared gate."""
        listed = self._git("ls-tree", "-r", "--name-only", "--full-tree", commit).decode().splitlines()
        end = "rego/ledgeragent/gate/gate.rego"
        return sorted(name.removesuffix(end).rstrip("/") or "." for name in listed if name.endswith(end))

    def _git(self, *arguments: str, at: Path | None = None) -> bytes:
        try:
            ran = subprocess.run(
                ["git", "-C", str(at or self._repository), *arguments],  # noqa: S607 - the user's git
                capture_output=True,
                check=False,
                timeout=_GIT_SECONDS,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise BadInput(f"git cannot be asked: {type(error).__name__}") from None
        if ran.returncode != 0:
            said = ran.stderr.decode(errors="replace").strip() or "no such revision"
            raise BadInput(f"git {arguments[0]} at {self._repository}: {said}")
        return ran.stdout

    def _git_says(self, *arguments: str, at: Path | None = None) -> bool:
        try:
            self._git(*arguments, at=at)
        except BadInput:
            return False
        return True


def _has(source: PolicySource, revision: str, gate: str | None) -> bool:
    found = source.revisions()
    return any(one.startswith(revision) for one in found.values()) and (gate is None or found.get(GATE) == gate)
