"""A program that ends early, forges a result or patches its checker is wrong."""

# ruff: noqa: E501 - programs, a line each

import pytest

ADD = "assert add(2, 3) == 5\nassert add(-1, 1) == 0\nassert add(4, 4) == 8\n"
EQUAL = (
    "class E:\n    def __eq__(self, other): return True\n"
    "    def __bool__(self): return True\n    def __hash__(self): return 5\n"
    "    def __sub__(self, other): return 0\n    __rsub__ = __sub__\n"
    "    def __abs__(self): return 0\n    def __lt__(self, other): return True\n"
    "    __contains__ = __lt__\n"
)
CHEATS = {
    "exit": "import sys\nsys.exit(0)",
    "os-exit": "import os\nos._exit(0)",
    "exit-in-function": "def add(a, b):\n    import os; os._exit(0)",
    "quit-in-function": "def add(a, b):\n    raise SystemExit(0)",
    "atexit": "import atexit, os\natexit.register(os._exit, 0)\nraise SystemExit",
    "marker": "print('passed'); print('{\"outcome\": \"passed\"}')\ndef add(a, b): return 1",
    "equal": EQUAL + "def add(a, b): return E()",
    "equal-int": "class I(int):\n    def __eq__(self, other): return True\n"
    "def add(a, b): return I(7)",
    "all-descriptors": "import os, struct\n"
    "data = b'{\"outcome\": \"passed\"}'\ndata = struct.pack('>I', len(data)) + data\n"
    "for n in range(3, 300):\n    try: os.write(n, data)\n    except OSError: pass\n"
    "os._exit(0)",
    "frames": "import sys\ndef add(a, b):\n    frame = sys._getframe()\n"
    "    while frame:\n        for key, value in list(frame.f_locals.items()):\n"
    "            if 'expected' in key or 'tests' in key: return value\n"
    "        frame = frame.f_back",
    "builtins": "import builtins, math\nbuiltins.abs = lambda x: 0\n"
    "math.isclose = lambda *x: True\nbuiltins.isinstance = lambda *x: True\n"
    "AssertionError = KeyError\ndef abs(x): return 0\ndef add(a, b): return 7",
    "trace": "import sys\nsys.settrace(lambda *x: None)\n"
    "sys.excepthook = lambda *x: None\ndef add(a, b): return 7",
    "kills-the-checker": "import os\ndef add(a, b):\n"
    "    for n in range(os.getpid() + 1, os.getpid() + 9):\n        try:\n"
    "            parent = int(open(f'/proc/{n}/stat').read().split()[3])\n"
    "            if parent == os.getppid(): os.kill(n, 9)\n"
    "        except OSError: pass\n    return 7",
    "swallows-the-alarm": "import time, signal\nsignal.signal(signal.SIGALRM, lambda *x: None)\n"
    "end = time.time() + 60\nwhile time.time() < end:\n    try: time.sleep(60)\n"
    "    except BaseException: pass\ndef add(a, b): return a + b",
    "dies-with-an-object": "import os\nclass X:\n    def __del__(self): os._exit(0)\n"
    "x = X()\ndef add(a, b):\n    global x\n    x = None\n    return 7",
    "thread-outlives": "import os, threading, time\n"
    "threading.Thread(target=lambda: (time.sleep(0.2), os._exit(0))).start()\n"
    "def add(a, b):\n    time.sleep(5)\n    return 5",
    "signal-handler": "import os, signal\n"
    "for n in (2, 14, 15, 24): signal.signal(n, lambda *x: os._exit(0))\n"
    "def add(a, b):\n    os.kill(os.getpid(), 15)\n    return 7",
    "imports": "import builtins, os, sys\nclass F:\n"
    "    def find_spec(self, *x): os._exit(0)\nsys.meta_path.insert(0, F())\n"
    "sys.modules.clear()\nbuiltins.__import__ = lambda *x: os._exit(0)\n"
    "builtins.exec = builtins.compile = lambda *x: None\ndef add(a, b): return 7",
    "claims-a-class": EQUAL + "    __class__ = property(lambda self: int)\n"
    "def add(a, b): return E()",
    "own-modules": "import sys, types\nm = types.ModuleType('json')\n"
    "m.dumps, m.loads = lambda *x, **y: '5', lambda *x: 5\n"
    "sys.modules.update(json=m, pickle=m, marshal=m)\ndef add(a, b): return 7",
    "memory-of-integers": "import ctypes\ndef add(a, b):\n"
    "    ctypes.memmove(id(7) + 24, id(5) + 24, 4)\n    return 7",
    "sitecustomize": "open('sitecustomize.py', 'w').write('x')\n"
    "open('math.py', 'w').write('isclose = lambda *x: True')\ndef add(a, b): return 7",
}


@pytest.mark.slow
@pytest.mark.parametrize("code", CHEATS.values(), ids=CHEATS)
def test_a_cheat_is_never_right(sandbox_at, code):
    assert sandbox_at("process").test(code, ADD, 2) != "passed"


@pytest.mark.slow
@pytest.mark.parametrize("code", CHEATS.values(), ids=CHEATS)
def test_a_cheat_is_never_right_in_bubblewrap(sandbox_at, code):
    assert sandbox_at("bwrap").test(code, ADD, 4) != "passed"


def test_a_correct_program_passes_the_tests_of_the_cheats(sandbox):
    assert sandbox.test("def add(a, b): return a + b", ADD, 4) == "passed"


@pytest.mark.parametrize(
    "tests",
    [
        "assert abs(add(2, 3) - 5) < 1e-6",
        "import math\nassert math.isclose(add(2, 3), 5)",
        "assert add(2, 3) in [5]",
        "assert 5 in [add(2, 3)]",
        "assert 5 in add(2, 3)",
        "assert {5: 1}[add(2, 3)]",
        "assert not add(2, 3) != 5",
        "assert sorted([add(2, 3)]) == [5]",
    ],
)
def test_an_object_that_equals_everything_decides_no_comparison(sandbox_at, tests):
    code = EQUAL + "def add(a, b): return E()"
    assert sandbox_at("process").test(code, tests, 3) != "passed"


UNITTEST = """
import unittest

class Tests(unittest.TestCase):
    def setUp(self):
        self.five = 5

    def test_value(self):
        self.assertEqual(add(2, 3), self.five)

    def test_error(self):
        with self.assertRaises(TypeError):
            add(1)

result = unittest.TextTestRunner().run(
    unittest.defaultTestLoader.loadTestsFromTestCase(Tests)
)
assert result.wasSuccessful()
"""


@pytest.mark.parametrize(
    ("code", "is_right"),
    [
        ("def add(a, b): return a + b", True),
        ("def add(a, b): return 7", False),
        (EQUAL + "def add(a, b): return E()", False),
        (
            "import unittest\nunittest.TestCase.assertEqual = lambda *x: None\n"
            "unittest.TestCase.assertRaises = lambda *x: unittest.mock.MagicMock()\n"
            "def add(a, b): return 7",
            False,
        ),
        (
            "import unittest\nclass R:\n    def wasSuccessful(self): return True\n"
            "unittest.TextTestRunner.run = lambda *x: R()\ndef add(a, b): return 7",
            False,
        ),
        ("import os\ndef add(a, b): os._exit(0)", False),
    ],
)
def test_a_program_cannot_patch_unittest(sandbox_at, code, is_right):
    """Test cases run in the process of the tests."""
    verdict = sandbox_at("process").test(code, UNITTEST, 4)
    assert (verdict == "passed") == is_right


def test_tests_that_catch_every_exception_do_not_hide_the_end(sandbox_at):
    tests = "try:\n    add(2, 3)\nexcept BaseException:\n    pass"
    code = "import os\ndef add(a, b): os._exit(0)"
    assert sandbox_at("process").test(code, tests, 3) != "passed"


def test_tests_are_not_in_the_memory_of_the_program(sandbox_at):
    """Not even those of earlier programs: the server never reads them."""
    sandbox = sandbox_at("process")
    secret = "s" + "ecret-of-the-tests-4711"
    # process_vm_readv: /proc/self/mem is closed in a process that hides its memory.
    search = f"""
import ctypes, os
class Part(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("size", ctypes.c_size_t)]
def add(a, b):
    word, hits, n_read = bytes.fromhex({secret[1:].encode().hex()!r}), 0, 0
    libc = ctypes.CDLL(None)
    for line in open("/proc/self/maps"):
        low, high = (int(x, 16) for x in line.split()[0].split("-"))
        buffer = ctypes.create_string_buffer(high - low)
        local = Part(ctypes.addressof(buffer), high - low)
        remote = Part(low, high - low)
        n = libc.process_vm_readv(os.getpid(), ctypes.byref(local), 1, ctypes.byref(remote), 1, 0)
        if n > 0:
            n_read += n
            hits += buffer.raw.count(word)
        ctypes.memset(buffer, 0, high - low)
    return (hits if n_read > 1_000_000 else -1)
"""
    tests = f"marker = {secret!r}\nhits = add(2, 3)\nassert 1 <= hits <= 4, hits"
    assert sandbox.test("def add(a, b): return 5", f"x = {secret!r}", 3) == "passed"
    assert sandbox.test(search, tests, 10) == "passed"
