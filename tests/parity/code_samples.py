"""500 made programs with tests, honest: right, wrong, broken or endless."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

# fmt: off
# ruff: noqa: E501 - programs, a line each
TASKS = {
    "add": ("def f(a, b):\n    return a + b\n", "assert f(2, 3) == 5\nassert f(-1, 1) == 0"),
    "mean": ("def f(xs):\n    return sum(xs) / len(xs)\n", "assert abs(f([1, 2, 4]) - 7 / 3) < 1e-6"),
    "words": ("def f(s):\n    return s.split()\n", "assert f('a b') == ['a', 'b']\nassert f('') == []"),
    "pair": ("def f(a, b):\n    return (a, b)\n", "assert f(1, 2) == (1, 2)\nassert f(1, 2) != [1, 2]"),
    "keys": ("from collections import Counter\ndef f(s):\n    return Counter(s)\n", "assert f('aab') == {'a': 2, 'b': 1}"),
    "even": ("def f(xs):\n    for x in xs:\n        if x % 2 == 0:\n            yield x\n", "assert list(f([1, 2, 4])) == [2, 4]\nassert sum(f([2, 2])) == 4"),
    "sort": ("def f(xs):\n    xs.sort()\n", "x = [3, 1, 2]\nassert f(x) is None\nassert x == [1, 2, 3]"),
    "apply": ("def f(g, x):\n    return g(g(x))\n", "assert f(lambda n: n + 1, 3) == 5\nassert f(str.strip, ' a ') == 'a'"),
    "point": ("class Point:\n    def __init__(self, x, y):\n        self.x, self.y = x, y\n    def norm(self):\n        return self.x ** 2 + self.y ** 2\n", "p = Point(3, 4)\nassert p.norm() == 25 and p.x == 3\nassert isinstance(p, Point)\np.x = 0\nassert p.norm() == 16"),
    "tree": ("class Node:\n    def __init__(self, v):\n        self.v, self.left, self.right = v, None, None\ndef depth(n):\n    return 0 if n is None else 1 + max(depth(n.left), depth(n.right))\n", "root = Node(1)\nroot.left = Node(2)\nroot.left.right = Node(3)\nassert depth(root) == 3\nassert depth(None) == 0"),
    "raises": ("def f(x):\n    if x < 0:\n        raise ValueError('negative')\n    return x\n", "assert f(1) == 1\ntry:\n    f(-1)\n    assert False\nexcept ValueError as error:\n    assert str(error) == 'negative'"),
    "check": ("def f(n):\n    return [i for i in range(2, n) if n % i == 0]\n", "METADATA = {}\ndef check(candidate):\n    assert candidate(12) == [2, 3, 4, 6]\n    assert candidate(7) == []\ncheck(f)"),
    "import": ("def f(x):\n    return math.sqrt(x)\n", "import math\nassert f(9) == 3.0\nassert math.isclose(f(2), 1.41421356237)"),
    "helper": ("def poly(xs, x):\n    return sum(c * x ** i for i, c in enumerate(xs))\ndef f(xs):\n    return -xs[0] / xs[1]\n", "assert abs(poly([1, 2], f([1, 2]))) < 1e-4"),
    "sets": ("def f(a, b):\n    return tuple(set(a) & set(b))\n", "assert set(f((3, 4, 5), (5, 4))) == {4, 5}"),
    "none": ("def f(xs):\n    return max(xs) if xs else None\n", "assert f([]) is None\nassert f([1, 3]) == 3"),
    "data": ("LIMIT = 3\ndef f(n):\n    return n < LIMIT\n", "assert LIMIT == 3 and f(2) is True and f(3) is False"),
    "unit": ("def f(a):\n    return a * 2\n", "import unittest\nclass T(unittest.TestCase):\n    def test(self):\n        self.assertEqual(f(2), 4)\nT('test').debug()"),
    "printed": ("def f():\n    print('hello')\n", "import io, contextlib\nout = io.StringIO()\nwith contextlib.redirect_stdout(out):\n    f()\nassert out.getvalue() == 'hello\\n'"),
    "big": ("def f(n):\n    return 2 ** n\n", "assert f(500) % 10 == 6\nassert f(0) == 1\nassert isinstance(f(3), int)"),
    "float": ("def f(x):\n    return float(x)\n", "assert f('inf') == float('inf')\nassert f('nan') != f('nan')\nassert str(f(1)) == '1.0'"),
    "bytes": ("def f(s):\n    return s.encode()\n", "assert f('é') == b'\\xc3\\xa9'"),
    "nested": ("def f(n):\n    return {'a': [(i, {i}) for i in range(n)]}\n", "assert f(2) == {'a': [(0, {0}), (1, {1})]}"),
    "date": ("from datetime import date, timedelta\ndef f(d):\n    return d + timedelta(days=1)\n", "from datetime import date\nassert f(date(2024, 2, 28)) == date(2024, 2, 29)"),
    "fraction": ("from fractions import Fraction\ndef f(a, b):\n    return Fraction(a, b)\n", "from fractions import Fraction\nassert f(2, 4) == Fraction(1, 2)"),
}
"""Name → a right program, and its tests."""
CHANGES = (
    ("", ""), ("", "# a comment\n"), ("", "import os, sys, json\n"),
    ("return", "return not"), ("+", "-"), ("*", "+"), ("==", "!="), ("0", "1"),
    ("<", ">"), ("(", "(("), (":\n", "\n"), ("    return", "  return"),
    ("return", "raise KeyError('x')\n    return"), ("return", "import nowhere\n    return"),
    ("def f", "def g"), ("return", "print('passed')\n    return"), ("2", "3"),
    ("return", "return None and"), ("", "raise ValueError('early')\n"),
    ("", "x = undefined\n"), ("return", "assert False, 'no'\n    return"),
    ("", "def f(): pass\n"), ("class", "klass"), ("xs", "ys"),
)
# fmt: on
"""Replacements of the first occurrence; without one to replace, put before."""


def samples(n: int = 500) -> Iterator[tuple[str, str]]:
    """Yield programs with their tests, each program once for a task."""
    return islice(_all(), n)


def _all() -> Iterator[tuple[str, str]]:
    for code, tests in TASKS.values():
        seen = set()
        for old, new in CHANGES:
            changed = code.replace(old, new, 1) if old else new + code
            if changed not in seen:
                seen.add(changed)
                yield changed, tests
    for code, tests in TASKS.values():
        for end in (
            "x = 1\n",
            "\n\n",
            "if __name__ == '__main__':\n    print(1)\n",
            "del f\n",
        ):
            yield code + end, tests
