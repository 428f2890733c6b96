"""Limits of one program with all of its descendants."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramLimits:
    """Limits that apply to a program; at the level ``off`` those of time and output.

    Args:
        wall_s: Seconds until it is killed.
        cpu_s: Seconds of processor time of each process.
        memory_bytes: Address space of each process, and resident memory of all.
        file_bytes: Size of each file.
        disk_bytes: Size of all files in its folder.
        processes: Number of processes and threads.
        open_files: Number of open files of each process.
        output_bytes: Length of standard output, and of standard error.
    """

    wall_s: float = 10.0
    cpu_s: float = 10.0
    memory_bytes: int = 2 << 30
    file_bytes: int = 64 << 20
    disk_bytes: int = 128 << 20
    processes: int = 64
    open_files: int = 128
    output_bytes: int = 4 << 20

    def within(self, timeout: float) -> ProgramLimits:
        """Return the limits with another time limit, in seconds."""
        return replace(self, wall_s=timeout, cpu_s=timeout + 1)
