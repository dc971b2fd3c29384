#!/usr/bin/env python3
"""The style of the house, as far as a machine can see it: tests/tidy/tidy.py [--root FOLDER] [--format]

Prints `path:line: what is wrong` for each violation and ends with 1 if there were any. --format runs clang-format
instead of the other rules. Raising a limit or adding an exception takes a record in docs/decisions/.
"""
import argparse
import pathlib
import re
import shutil
import subprocess
import sys

LINES_MAX = 400
TEST_LINES_MAX = 600
FUNCTION_LINES_MAX = 70
CLANG_FORMAT_MAJOR = 14

# Who may include whom. A quoted path begins with the folder that it is of.
ARROWS = {
    "include": (),
    "sharding": ("sharding",),
    "offload": ("offload",),
    "optim": ("optim",),
    "engine": ("engine", "sharding", "offload", "optim"),
}
LIBRARY = tuple(ARROWS)
ROOMS = ("sharding", "offload", "optim", "engine", "tests")
MAY_PRINT = ("engine/cli/", "engine/telemetry/", "include/strata/detail/assert.h")

ANY_FILES_NAME = {"util", "utils", "common", "helper", "helpers", "base", "misc", "types", "manager", "handler", "data",
                  "info"}
SOURCE_SUFFIXES = {".cpp", ".h", ".cu", ".cuh"}
TEXT_SUFFIXES = SOURCE_SUFFIXES | {".py", ".sh", ".cmake", ".txt"}

WORK_NOT_DONE = re.compile(r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME", "XX" + "X")) + r")\b")
PRINTS = re.compile(r"\b(f|v|vf|d)?printf\b|\bputs\b|\bstd::(cout|cerr|clog)\b|\bfmt::print\b")
EXITS = re.compile(r"(std|(?<![\w>]))::_?(exit|quick_exit|abort|terminate)\s*\(|(?<![\w.>:])_?exit\s*\(")
LEGAL_CONDITION = re.compile(r"HWY_|_INL_H_\b|__x86_64__|__aarch64__")  # code per SIMD target and instruction set
CONDITION = re.compile(r"^\s*#\s*(if|ifdef|ifndef|elif)\b(.*)")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
TOO_NEW = {"format": "use fmt", "source_location": "clang 14 has none", "print": "use fmt"}


def listed_files(root):
    """Tracked files and new ones that git does not ignore; in an exported tree, all but the build."""
    listed = subprocess.run(["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    if listed.returncode == 0 and listed.stdout:
        names = listed.stdout.decode().split("\0")[:-1]
    else:
        names = [str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()]
        names = [name for name in names if not name.startswith(("build/", ".git/"))]
    return sorted(name for name in names if (root / name).is_file())


def blank(match):
    return re.sub(r"[^\n]", " ", match.group())


def without_comments(text):
    """Comments and the insides of literals become blanks; lines stay where they are."""
    pattern = re.compile(r'R"(?P<tag>[^(\s]*)\(.*?\)(?P=tag)"|//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"'
                         r"|(?<![0-9A-Fa-f])'(?:\\.|[^'\\\n])*'", re.S)

    def replace(match):
        token = match.group()
        return blank(match) if token.startswith("/") else '"' + blank(match)[2:] + '"' if len(token) > 1 else token
    return pattern.sub(replace, text)


def functions(code):
    """(first line, last line) of each outermost function body in comment-free code."""
    found, scopes, head = [], [], []
    line, head_line = 1, None
    for token in re.finditer(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*|[{};\n]|[^{};\n]+", code, re.M):
        text = token.group()
        if text == "\n":
            line += 1
        elif text.lstrip().startswith("#"):
            line += text.count("\n")
        elif text == "{":
            inside_function = any(kind == "function" for kind, _ in scopes)
            kind = "inner" if inside_function else kind_of_scope(" ".join(head))
            scopes.append((kind, head_line or line))
            head, head_line = [], None
        elif text == "}":
            kind, first = scopes.pop() if scopes else ("inner", line)
            if kind == "function":
                found.append((first, line))
            head, head_line = [], None
        elif text == ";":
            head, head_line = [], None
        elif text.strip():
            head.append(text.strip())
            head_line = head_line or line
    return found


def kind_of_scope(head):
    plain = re.sub(r"\boperator\s*[^\s(]+|\boperator\(\)", "operator", head)
    while re.search(r"\([^()]*\)", plain):
        plain = re.sub(r"\([^()]*\)", "@", plain)
    if re.match(r"(template\s*<.*>\s*)?(inline\s+)?(namespace|class|struct|union|enum|extern)\b", plain):
        return "outer"
    return "function" if "@" in plain and "=" not in plain else "outer"


class Tidy:
    def __init__(self, root):
        self.root = root
        self.names = listed_files(root)
        self.found = []
        self.build_text = "\n".join(self.read(name) for name in self.names
                                    if name.endswith((".cmake", "CMakeLists.txt")))

    def read(self, name):
        return (self.root / name).read_text(encoding="utf-8", errors="replace")

    def say(self, name, line, what):
        self.found.append(f"{name}:{line}: {what}")

    def check(self):
        for name in self.names:
            path = pathlib.PurePosixPath(name)
            if name.startswith("tests/data/"):
                continue
            if path.suffix in TEXT_SUFFIXES:
                self.check_name(name, path)
                self.check_text(name, path)
            if path.suffix in SOURCE_SUFFIXES:
                self.check_source(name, path)
        return self.found

    def check_name(self, name, path):
        if path.stem in ANY_FILES_NAME or ANY_FILES_NAME & {"utils", "util", "helpers", "helper", "misc"} & set(
                re.split(r"[_-]", path.stem)):
            self.say(name, 1, f"a name that could be any file's: '{path.stem}'")

    def check_text(self, name, path):
        lines = self.read(name).splitlines()
        most = TEST_LINES_MAX if name.startswith("tests/") else LINES_MAX
        if len(lines) > most:
            self.say(name, len(lines), f"{len(lines)} lines, of at most {most}")
        for number, text in enumerate(lines, 1):
            if WORK_NOT_DONE.search(text):
                self.say(name, number, "words that promise work not done")

    def check_source(self, name, path):
        text = self.read(name)
        code = without_comments(text)
        for first, last in functions(code):
            if last - first + 1 > FUNCTION_LINES_MAX:
                self.say(name, first, f"a function of {last - first + 1} lines, of at most {FUNCTION_LINES_MAX}")
        if path.suffix in (".h", ".cuh"):
            if "#pragma once" not in text and "HWY_TARGET_TOGGLE" not in text:
                self.say(name, 1, "a header without #pragma once")
            for number, line in enumerate(code.splitlines(), 1):
                if re.search(r"\busing\s+namespace\b", line):
                    self.say(name, number, "`using namespace` in a header")
        elif not re.search(rf"\b{re.escape(path.stem)}\b", self.build_text):
            self.say(name, 1, "built by no CMakeLists.txt")
        self.check_includes(name, text)
        self.check_library(name, text, code)

    def check_includes(self, name, text):
        room = name.split("/")[0]
        for number, line in enumerate(text.splitlines(), 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            form, target = match.groups()
            top = target.split("/")[0]
            if form == "<":
                if target in TOO_NEW:
                    self.say(name, number, f"<{target}>: {TOO_NEW[target]}")
                elif top == "strata" and not (self.root / "include" / target).is_file():
                    self.say(name, number, f"there is no <{target}>")
                elif top in ROOMS and (self.root / target).is_file():
                    self.say(name, number, f'private headers are spelled "{target}"')
                continue
            if top == "strata":
                self.say(name, number, f"public headers are spelled <{target}>")
            elif room in ARROWS and top not in ARROWS[room]:
                self.say(name, number, f'an arrow that the house does not have: {room} includes "{target}"')
            elif room == "examples" and top in ROOMS:
                self.say(name, number, f'examples include only <strata/...>, not "{target}"')
            elif room in ARROWS and not (self.root / target).is_file():
                self.say(name, number, f'there is no "{target}"')

    def check_library(self, name, text, code):
        room = name.split("/")[0]
        if room not in LIBRARY and room != "examples":
            return
        for number, (line, bare) in enumerate(zip(text.splitlines(), code.splitlines()), 1):
            condition = CONDITION.match(line)
            if condition and not self.is_legal_condition(name, condition.group(2)):
                self.say(name, number, "a condition of the preprocessor: let CMake choose between files")
            if room not in LIBRARY or name.startswith(MAY_PRINT):
                continue
            if PRINTS.search(bare):
                self.say(name, number, "the library does not print")
            if EXITS.search(bare):
                self.say(name, number, "the library does not end the process")

    @staticmethod
    def is_legal_condition(name, expression):
        return LEGAL_CONDITION.search(expression) or (
            name.startswith("include/strata/detail/") and "__clang__" in expression)

    def check_format(self):
        """None when the right clang-format is not there: versions format differently."""
        program = next((found for found in (shutil.which(f"clang-format-{CLANG_FORMAT_MAJOR}"),
                                            shutil.which("clang-format")) if found), None)
        said = subprocess.run([program, "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout if program else ""
        if not re.search(rf"version {CLANG_FORMAT_MAJOR}\.", said):
            return None
        names = [name for name in self.names if pathlib.PurePosixPath(name).suffix in SOURCE_SUFFIXES]
        if names:
            done = subprocess.run([program, "--dry-run", "-Werror", "--style=file", *names], cwd=self.root,
                                  stderr=subprocess.PIPE, text=True, check=False)
            for place in re.findall(r"^(.+?):(\d+):\d+: error: ", done.stderr, re.M):
                self.say(place[0], place[1], "not formatted")
            if done.returncode != 0 and not self.found:
                self.say(".clang-format", 1, done.stderr.strip())
        return self.found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[2])
    parser.add_argument("--format", action="store_true", help="run clang-format instead of the other rules")
    wanted = parser.parse_args()
    tidy = Tidy(wanted.root)
    found = tidy.check_format() if wanted.format else tidy.check()
    if found is None:
        print(f"skipped: clang-format {CLANG_FORMAT_MAJOR} is not installed")
        return 77
    print("\n".join(found) if found else f"{len(tidy.names)} files, nothing found")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
