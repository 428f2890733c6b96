"""The signs that end a sentence, of all scripts: those of Unicode (property
``Sentence_Terminal``), some near ones, and straight quotes, as lighteval 0.13.0 has
them (``tasks/templates/utils/formatting_utils.py``)."""

from __future__ import annotations

__all__ = ["ENDINGS"]

_RANGES = """
0021-0022 0027 002E 003F 0589 061D-061F 06D4 0700-0702 07F9 0837 0839 083D-083E
0964-0965 104A-104B 1362 1367-1368 166E 1735-1736 179B 17D4-17D6 17D9-17DA 1803 1809
1944-1945 1AA8-1AAB 1B5A-1B5B 1B5E-1B5F 1B7D-1B7E 1C3B-1C3C 1C7E-1C7F 203C-203D
2047-2049 2E2E 2E3C 2E53-2E54 3002 A4FF A60E-A60F A6F3 A6F7 A876-A877 A8CE-A8CF A92F
A9C8-A9C9 AA5D-AA5F AAF0-AAF1 ABEB FE52 FE56-FE57 FF01 FF0E FF1F FF61 10A56-10A57
10F55-10F59 10F86-10F89 11047-11048 110BE-110C1 11141-11143 111C5-111C6 111CD
111DE-111DF 11238-11239 1123B-1123C 112A9 1144B-1144C 115C2-115C3 115C9-115D7
11641-11642 1173C-1173E 11944 11946 11A42-11A43 11A9B-11A9C 11C41-11C42 11EF7-11EF8
11F43-11F44 16A6E-16A6F 16AF5 16B37-16B38 16B44 16E98 1BC9F 1DA88
"""
"""First and last code point of each run, or the only one."""


def _characters(run: str) -> str:
    first, _, last = run.partition("-")
    return "".join(map(chr, range(int(first, 16), int(last or first, 16) + 1)))


ENDINGS = "".join(map(_characters, _RANGES.split()))
"""Each of them once."""
