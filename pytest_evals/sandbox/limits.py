"""ProgramLimits of one program, and the modes in which programs run."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramLimits:
    """ProgramLimits of one program with all of its descendants.

    Args:
        wall_s: Seconds until it is killed.
        cpu_s: Seconds of processor time of each process.
        memory_bytes: Address space of each process, and resident memory of all.
        file_bytes: Size of each file.
        disk_bytes: Size of all files in its folder.
        processes: Number of processes and threads.
        open_files: Number of open files of each process.
        output_bytes: Length of standard output, and of standard error.
        enforced: Whether limits other than of time and output apply.
    """

    wall_s: float = 10.0
    cpu_s: float = 10.0
    memory_bytes: int = 2 << 30
    file_bytes: int = 64 << 20
    disk_bytes: int = 128 << 20
    processes: int = 64
    open_files: int = 128
    output_bytes: int = 4 << 20
    enforced: bool = True

    def within(self, timeout: float) -> ProgramLimits:
        """Return the limits with another time limit, in seconds."""
        return replace(self, wall_s=timeout, cpu_s=timeout + 1)

    def values(self) -> dict[str, Any]:
        """Return the limits as JSON."""
        return asdict(self)
