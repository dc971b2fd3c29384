#!/usr/bin/env python3
"""Each rule of tidy.py finds a violation that is planted for it, and leaves its lawful neighbour alone."""
import pathlib
import tempfile
import unittest

import tidy

LAWFUL_HEADER = "#pragma once\n\n#include <vector>\n"


class Rules(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.root = pathlib.Path(self.folder.name)
        self.put("include/strata/unit.h", LAWFUL_HEADER)
        self.put("sharding/layout.h", LAWFUL_HEADER)
        self.put("offload/memory.h", LAWFUL_HEADER)
        self.put("engine/plan.h", LAWFUL_HEADER)
        self.assertEqual(self.found(), [])

    def put(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        if path.suffix == ".cpp":
            (path.parent / "CMakeLists.txt").write_text(f"target_sources(strata PRIVATE {path.name})\n")

    def found(self):
        return tidy.Tidy(self.root).check()

    def expect(self, name, text, what, line=None):
        self.put(name, text)
        found = self.found()
        self.assertEqual(len(found), 1, found)
        self.assertIn(what, found[0])
        self.assertTrue(found[0].startswith(f"{name}:" if line is None else f"{name}:{line}:"), found[0])
        (self.root / name).unlink()

    def expect_lawful(self, name, text):
        self.put(name, text)
        self.assertEqual(self.found(), [])
        (self.root / name).unlink()

    def test_arrows(self):
        for name, target in (("sharding/x.cpp", "offload/memory.h"), ("offload/x.cpp", "engine/plan.h"),
                             ("optim/x.cpp", "sharding/layout.h"), ("include/strata/x.h", "sharding/layout.h")):
            head = LAWFUL_HEADER if name.endswith(".h") else "\n\n\n"
            self.expect(name, f'{head}#include "{target}"\n', "an arrow that the house does not have", line=4)
        self.expect("examples/fit/x.cpp", '#include "engine/plan.h"\n', "examples include only <strata/...>")
        self.expect_lawful("engine/x.cpp", '#include "sharding/layout.h"\n#include "engine/plan.h"\n#include <strata/unit.h>\n')
        self.expect_lawful("tests/x.cpp", '#include "offload/memory.h"\n')

    def test_spelling_of_includes(self):
        self.expect("engine/x.cpp", '#include "strata/unit.h"\n', "public headers are spelled <strata/unit.h>")
        self.expect("engine/x.cpp", "#include <engine/plan.h>\n", 'private headers are spelled "engine/plan.h"')
        self.expect("engine/x.cpp", "#include <strata/none.h>\n", "there is no <strata/none.h>")
        self.expect("engine/x.cpp", '#include "engine/none.h"\n', 'there is no "engine/none.h"')
        self.expect("engine/x.cpp", "#include <format>\n", "use fmt")

    def test_lengths_of_files(self):
        self.expect("engine/x.cpp", "\n" * (tidy.LINES_MAX + 1), "401 lines, of at most 400")
        self.expect_lawful("engine/x.cpp", "\n" * tidy.LINES_MAX)
        self.expect("tests/x.cpp", "\n" * (tidy.TEST_LINES_MAX + 1), "601 lines, of at most 600")
        self.expect_lawful("tests/x.cpp", "\n" * tidy.TEST_LINES_MAX)

    def test_lengths_of_functions(self):
        def of_lines(count, head="int f(int a = 1) {", tail="}"):
            return "\n".join([head] + ["  a += 1;"] * (count - 2) + [tail]) + "\n"
        self.expect("engine/x.cpp", "\n" + of_lines(71), "a function of 71 lines", line=2)
        self.expect_lawful("engine/x.cpp", of_lines(70))
        self.expect_lawful("engine/x.cpp", of_lines(70) + of_lines(70))
        self.expect("engine/x.cpp", of_lines(71, "struct S {\n  bool operator==(const S& o) const {", "} };"),
                    "a function of 71 lines", line=2)
        self.expect("engine/x.cpp", of_lines(71, "S::S(int a) : a_(a) {"), "a function of 71 lines")
        self.expect("engine/x.cpp", of_lines(71, "TEST(A, B) {"), "a function of 71 lines")
        self.expect_lawful("engine/x.cpp", of_lines(100, "namespace a {"))
        self.expect_lawful("engine/x.cpp", of_lines(100, "template <class T> class alignas(64) A : B<T(T)> {", "};"))
        self.expect("engine/x.cpp", of_lines(71, "template <class T> void f(T a) {"), "a function of 71 lines")
        self.expect_lawful("engine/x.cpp", of_lines(100, "constexpr auto table = make({{", "}});"))
        self.expect_lawful("engine/x.cpp", "int f() {\n" + "  // {\n" * 30 + '  g("{{{", \'{\', R"({)");\n}\n' + of_lines(60))

    def test_names_of_files(self):
        for name in ("engine/utils.h", "engine/base.h", "sharding/string_utils.h", "engine/manager.h"):
            self.expect(name, LAWFUL_HEADER, "a name that could be any file's")
        self.expect_lawful("engine/database.h", LAWFUL_HEADER)

    def test_words(self):
        self.expect("engine/x.h", LAWFUL_HEADER + "// TO" + "DO: later\n", "words that promise work not done", line=4)
        self.expect("scripts/x.sh", "# FIX" + "ME\n", "words that promise work not done")
        self.expect("engine/x.h", LAWFUL_HEADER + "using namespace std;\n", "`using namespace` in a header", line=4)
        self.expect_lawful("engine/x.cpp", "using namespace std::literals;\n")
        self.expect("engine/x.h", "#include <vector>\n", "a header without #pragma once")

    def test_printing_and_ending(self):
        for line in ('std::printf("x");', 'fprintf(stderr, "x");', 'std::cout << "x";', 'puts("x");', 'fmt::print("x");'):
            self.expect("sharding/x.cpp", line + "\n", "the library does not print", line=1)
        for line in ("std::exit(1);", "exit(1);", "::_exit(1);", "std::abort();"):
            self.expect("engine/x.cpp", line + "\n", "the library does not end the process", line=1)
        self.expect_lawful("engine/cli/x.cpp", 'std::printf("x");\nstd::exit(1);\n')
        self.expect_lawful("engine/x.cpp", 'snprintf(a, 1, "printf(");  // exit(1)\nworld.abort(e);\nworld->exit();\nabort(e);\n')

    def test_conditions(self):
        self.expect("engine/x.cpp", "#ifdef STRATA_CUDA\n#endif\n", "let CMake choose between files", line=1)
        self.expect("engine/x.cpp", "#if defined(__clang__)\n#endif\n", "let CMake choose between files")
        self.expect_lawful("include/strata/detail/x.h", LAWFUL_HEADER + "#if defined(__clang__)\n#endif\n")
        self.expect_lawful("optim/x.cpp", "#if HWY_ONCE\n#endif\n#if defined(__x86_64__)\n#endif\n")

    def test_sources_are_built(self):
        self.put("engine/x.cpp", "\n")
        (self.root / "engine/CMakeLists.txt").write_text("\n")
        self.assertEqual(self.found(), ["engine/x.cpp:1: built by no CMakeLists.txt"])

    def test_format(self):
        self.put(".clang-format", "BasedOnStyle: Google\n")
        checked = tidy.Tidy(self.root).check_format()
        if checked is None:
            self.skipTest(f"clang-format {tidy.CLANG_FORMAT_MAJOR} is not installed")
        self.assertEqual(checked, [])
        self.put("engine/x.cpp", "int  f( ) ;\n")
        found = tidy.Tidy(self.root).check_format()
        self.assertTrue(found and all("engine/x.cpp:1: not formatted" in line for line in found), found)


if __name__ == "__main__":
    unittest.main()
