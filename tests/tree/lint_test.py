#!/usr/bin/env python3
"""scripts/lint passes a clean tree, and fails for an error that one of its three tools finds."""
import json
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPTS = Path(sys.argv.pop(1))
TOOLS = ["clang-format-14", "clang-tidy-14", "shellcheck"]
SKIPPED = 77

CLEAN = """\
#include <string>
#include <utility>

std::size_t length_of(std::string text) {
  const std::string kept = std::move(text);
  return kept.size();
}
"""
# clang 14 reports it as an error.
BINDING = """
int sum_of(const std::pair<int, int>& both) {
  const auto& [one, other] = both;
  const auto sum = [&] { return one + other; };
  return sum();
}
"""
SCRIPT = """\
#!/usr/bin/env bash
set -euo pipefail
echo "$1"
"""


class Lint(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = Path(directory.name)
        for folder in (".ci", "actors", "proto", "scheduler", "store", "tests"):
            (self.root / folder).mkdir()
        for name in ("lint", "command_line.sh"):
            self.write(f"scripts/{name}", (SCRIPTS / name).read_text())
            shutil.copymode(SCRIPTS / name, self.root / "scripts" / name)
        for name in (".clang-format", ".clang-tidy"):
            shutil.copyfile(SCRIPTS.parent / name, self.root / name)
        self.write("gpu/length.cc", CLEAN)
        self.write("scripts/say", SCRIPT)
        self.write("build/compile_commands.json", json.dumps([
            {"directory": str(self.root / "build"), "file": "../gpu/length.cc",
             "command": "c++ -std=c++20 -I.. -o length.o -c ../gpu/length.cc"}]))

    def write(self, name, text):
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).write_text(text)

    def lint(self):
        ran = subprocess.run([self.root / "scripts/lint", "--all"], capture_output=True, text=True,
                             timeout=300)
        return ran.returncode, ran.stdout + ran.stderr

    def expect_failure(self, *words):
        status, output = self.lint()
        self.assertEqual(status, 1, output)
        for word in words:
            self.assertIn(word, output)

    def test_a_clean_tree_passes(self):
        status, output = self.lint()
        self.assertEqual(status, 0, output)
        for count in ("clang-format: 1 files", "shellcheck: 3 files", "clang-tidy: 1 files"):
            self.assertIn(count, output)

    def test_a_line_that_is_not_formatted_is_found(self):
        self.write("gpu/length.cc", CLEAN.replace("  return", "      return"))
        self.expect_failure("gpu/length.cc:5", "clang-format-violations")

    def test_an_unquoted_variable_of_a_script_is_found(self):
        self.write("scripts/say", SCRIPT.replace('"$1"', "$1"))
        self.expect_failure("scripts/say line 3", "SC2086")

    def test_a_lambda_that_uses_a_structured_binding_passes(self):
        self.write("gpu/length.cc", CLEAN + BINDING)
        status, output = self.lint()
        self.assertEqual(status, 0, output)
        self.assertIn("gpu/length.cc: clang 14 does not understand all of it", output)

    def test_a_slip_beside_such_a_lambda_is_found(self):
        slip = CLEAN.replace("kept.size();", "kept.size() + text.size();")
        self.write("gpu/length.cc", slip + BINDING)
        self.expect_failure("gpu/length.cc:6", "bugprone-use-after-move")

    def test_a_header_that_is_missing_is_found(self):
        self.write("gpu/length.cc", "#include <missing.h>\n" + CLEAN)
        self.expect_failure("gpu/length.cc:1", "missing.h")

    def test_a_use_after_a_move_is_found(self):
        self.write("gpu/length.cc", CLEAN.replace("kept.size();", "kept.size() + text.size();"))
        self.expect_failure("gpu/length.cc:6", "bugprone-use-after-move")


if __name__ == "__main__":
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        print(f"skipped: needs {', '.join(missing)}: scripts/setup --install-only "
              + " ".join(TOOLS))
        sys.exit(SKIPPED)
    unittest.main()
