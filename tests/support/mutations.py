#!/usr/bin/env python3
"""Breaks the product on purpose, and runs the test of bits that must find it.

    mutations [--build build] [--list] [--quick | NAME ...]

A mutation of mutations.toml replaces one text in one file of the product. The tool compiles copies
of the sources that contain this file, links them with everything else that the test program
consists of, and runs the named test cases: those of the unchanged program must pass, and those of
the mutated one must fail by an assertion. A crash or a time-out is not enough. It writes nothing
into the source tree and the build tree, and the build tree has to be up to date."""
import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
TABLE = Path(__file__).with_suffix(".toml")
RUN_SECONDS_MAX = 300
FIELDS = {"file", "old", "new", "program", "cases", "breaks"}
OPTIONAL = {"quick", "survives"}


class Problem(Exception):
    """A mutation that cannot be tried. The text says why."""


def output(*command, cwd=None):
    ran = subprocess.run(command, cwd=cwd, capture_output=True, text=True)
    if ran.returncode != 0:
        shown = (ran.stderr or ran.stdout).strip()
        raise Problem(f"{' '.join(map(str, command[:4]))} ...:\n{shown[-3000:]}")
    return ran.stdout


def read_table():
    table = tomllib.loads(TABLE.read_text())
    for name, mutation in table.items():
        if not FIELDS <= set(mutation) <= FIELDS | OPTIONAL:
            raise Problem(f"{name}: the keys are {', '.join(sorted(FIELDS))}, "
                          f"and perhaps {', '.join(sorted(OPTIONAL))}")
    return table


class Build:
    """What Meson and Ninja know about a build directory."""

    def __init__(self, directory):
        self.directory = directory
        if not (directory / "build.ninja").is_file():
            raise Problem(f"{directory} is not a build directory: run scripts/setup")
        info = json.loads((directory / "meson-info/meson-info.json").read_text())
        self.source = Path(info["directories"]["source"])
        entries = json.loads((directory / "compile_commands.json").read_text())
        self.commands = {entry["output"]: entry for entry in entries}
        self.objects = self.read_objects()

    def absolute(self, path):
        return os.path.normpath(self.directory / path)

    def ninja(self, *words):
        return output("ninja", "-C", self.directory, "-t", *words).splitlines()

    def read_objects(self):
        """The object files that were made from a source or header, by its absolute path."""
        objects, current = {}, None
        for line in self.ninja("deps"):
            if line.startswith("    "):
                objects.setdefault(self.absolute(line.strip()), set()).add(current)
            elif ": #deps" in line:
                current = line.split(": #deps")[0]
        return objects

    def objects_with(self, file, program):
        """The object files of a program in which a file takes part."""
        made = self.objects.get(str(self.source / file), set()) & set(self.commands)
        found = sorted(made & set(self.ninja("inputs", program)))
        if not found:
            raise Problem(f"{program} contains nothing of {file}")
        return found


class Program:
    """A test program, linked again from the object files of the build."""

    def __init__(self, build, target, folder):
        self.build, self.target = build, target
        self.folder = Path(tempfile.mkdtemp(dir=folder))
        self.link_command = shlex.split(build.ninja("commands", target)[-1])
        self.unchanged, self.linked = self.link({}, "unchanged")
        self.passed = set()

    def link(self, mutated, name):
        """Links with `mutated` in place of the object files that are its keys. Returns the program
        and the files that it consists of."""
        path = self.folder / name
        words = [mutated.get(word, word) for word in self.link_command]
        members = [new for old, new in mutated.items() if old not in self.link_command]
        at = words.index("-o")
        # An object file in front of the archives defines what their member would define, so the
        # linker does not take the member.
        words[at:at + 2] = ["-Wl,--trace", "-o", str(path), *members]
        linked = set(output(*words, cwd=self.build.directory).splitlines())
        return path, linked

    def mutate(self, mutated):
        unused = [name for name in mutated if name not in self.linked]
        if len(unused) == len(mutated):
            raise Problem(f"{self.target} does not need {', '.join(unused)}")
        path, linked = self.link(mutated, "mutated")
        if still := sorted(set(mutated) & linked):
            raise Problem(f"the linker took {', '.join(still)} too")
        return path

    def run(self, path, cases):
        # doctest reads a comma in a test case's name as a separator unless it is escaped.
        words = [path, "-tc=" + cases.replace(",", "\\,")]
        try:
            return subprocess.run(words, cwd=self.folder, text=True, errors="replace",
                                  timeout=RUN_SECONDS_MAX, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT)
        except subprocess.TimeoutExpired as late:
            raise Problem(f"{path.name} program: runs for more than {late.timeout} s") from late

    def check_unchanged(self, cases):
        if cases in self.passed:
            return
        ended = self.run(self.unchanged, cases)
        if ended.returncode != 0:
            raise Problem(f"{cases}: fails without the mutation:\n{ended.stdout[-3000:]}")
        count = re.search(r"test cases: +(\d+)", ended.stdout)
        if not count or count[1] == "0":
            raise Problem(f"{self.target} has no test case \"{cases}\"")
        self.passed.add(cases)


class Mutant:
    """Copies of the sources that contain the mutated file, and their object files."""

    def __init__(self, build, mutation, folder):
        self.build, self.folder = build, folder
        self.file = mutation["file"]
        self.original = build.source / self.file
        self.copy = folder / "source" / self.file
        self.copy.parent.mkdir(parents=True)
        self.copy.write_text(self.mutated_text(mutation))

    def mutated_text(self, mutation):
        text = self.original.read_text()
        found = text.count(mutation["old"])
        if found != 1:
            raise Problem(f"{self.file} contains this {found} times and not once:\n"
                          f"{mutation['old']}")
        return text.replace(mutation["old"], mutation["new"])

    def compile(self, name):
        """Compiles the source of an object file with the mutated file in place of the original."""
        entry = self.build.commands[name]
        words = shlex.split(entry["command"])
        # A cache would keep objects that are never asked for again.
        if os.path.basename(words[0]) == "ccache":
            words.pop(0)
        path = self.folder / name.replace("/", "_")
        for option, value in (("-o", path), ("-MF", f"{path}.d"),
                              ("-c", self.source_of(entry, path))):
            words[words.index(option) + 1] = str(value)
        # Includes name files by their path from the root of the sources, which is looked up in the
        # copies first. A mutation may leave a variable unused.
        output(*words, "-iquote", self.folder / "source", "-w", "-fdiagnostics-color=never",
               cwd=self.build.directory)
        return str(path)

    def source_of(self, entry, path):
        source = Path(self.build.absolute(entry["file"]))
        if source == self.original:
            return self.copy
        text = source.read_text()
        changed = re.sub(r'(#include *)["<]([^">]*)[">]', self.include, text)
        if changed == text:
            return source
        whole = path.with_suffix(source.suffix)
        whole.write_text(changed)
        return whole

    def include(self, match):
        # Meson names the sources of a group by absolute paths.
        if self.build.absolute(match[2]) != str(self.original):
            return match[0]
        return f'{match[1]}"{self.copy}"'


def judge(ended):
    if ended.returncode == 0:
        return "survived"
    if ended.returncode < 0 or re.search(r"test case (CRASHED|THREW)", ended.stdout):
        return "crashed"
    if re.search(r"ERROR: (CHECK|REQUIRE|FAIL)", ended.stdout):
        return "caught"
    return "failed without an assertion"


class Runner:
    def __init__(self, build, folder, show):
        self.build, self.folder, self.show = build, folder, show
        self.programs = {}

    def program(self, target):
        if target not in self.programs:
            self.programs[target] = Program(self.build, target, self.folder)
        return self.programs[target]

    def verdict(self, mutation):
        objects = self.build.objects_with(mutation["file"], mutation["program"])
        program = self.program(mutation["program"])
        program.check_unchanged(mutation["cases"])
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            mutant = Mutant(self.build, mutation, Path(folder))
            path = program.mutate({name: mutant.compile(name) for name in objects})
        ended = program.run(path, mutation["cases"])
        if self.show:
            print(ended.stdout[-4000:])
        return judge(ended)


def arguments(table):
    parser = argparse.ArgumentParser(prog="mutations", description=__doc__.split("\n\n")[0],
                                     epilog=__doc__.split("\n\n")[2])
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these mutations")
    parser.add_argument("--quick", action="store_true", help="only those of the test \"mutations\"")
    parser.add_argument("--list", action="store_true", help="print what they break; runs nothing")
    parser.add_argument("--show", action="store_true", help="print what the test programs print")
    parser.add_argument("--build", default="build", help="build directory (default build)")
    options = parser.parse_args()
    for name in options.names:
        if name not in table:
            parser.error(f"{name} is not in {TABLE.name}")
    return options


def chosen(table, options):
    if options.quick:
        return [name for name in table if table[name].get("quick")]
    return options.names or list(table)


def run_all(table, names, options):
    """Prints one line for each mutation. Returns the number of those that are not as expected."""
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        runner = Runner(Build((ROOT / options.build).resolve()), Path(folder), options.show)
        for name in names:
            started = time.monotonic()
            try:
                verdict = runner.verdict(table[name])
            except Problem as problem:
                verdict = f"error: {problem}"
            expected = "survived" if table[name].get("survives") else "caught"
            wrong += verdict != expected
            mark = "" if verdict == expected else "  <- WRONG"
            print(f"{name:36} {time.monotonic() - started:6.1f} s  {verdict}{mark}", flush=True)
    return wrong


def main():
    try:
        table = read_table()
        options = arguments(table)
        names = chosen(table, options)
        if options.list:
            for name in names:
                print(f"{name}: {table[name]['breaks']}")
            return 0
        wrong = run_all(table, names, options)
    except Problem as problem:
        print(f"scripts/mutations: {problem}", file=sys.stderr)
        return 1
    print(f"mutations {len(names)}, wrong {wrong}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
