#!/usr/bin/env python3
"""Checks the rules of the source tree; a test of the suite.

  check_tree.py ROOT

Rules, each named in what it reports:
  include     which folder may include which (docs/ARCHITECTURE.md)
  order       the rooms of a folder include each other in one direction only
  circle      and so do the folders inside a room
  third-party which folder may use which library
  console     which files may write to standard error; the others log (actors/base/log/log.h)
  device-list no list of named members is assigned in what the CUDA compiler reads: in a template it
              forgets the names (gpu/cuda/README.md)
  registered  every *_test.cc is in its folder's meson.build (or a parent's)
  readme      every folder of the source has a README.md, and the paths in documents exist
  width       no line of C++ is longer than 100 characters (.clang-format)
  phrase      comments and documents contain no phrase of the list in check_phrases.py
  top-level   nothing beyond the agreed entries
Exits with 1 when a rule is broken.
"""
import argparse
import re
import sys
from pathlib import Path

from check_phrases import check_phrases

FOLDERS = ["proto", "store", "gpu", "scheduler", "actors", "tests"]
MAY_INCLUDE = {
    "proto": {"proto"},
    "store": {"proto", "store"},
    "gpu": {"proto", "gpu"},
    "scheduler": {"proto", "scheduler"},
    "actors": {"proto", "store", "gpu", "scheduler", "actors"},
    "tests": set(FOLDERS),
}
# gpu and scheduler may include proto/base, and nothing else of proto.
ONLY_BASE = {"gpu", "scheduler"}
TOP_LEVEL = {"actors", "CHANGELOG.md", "configs", "CONTRIBUTING.md", "docs", "gpu", "LICENSE",
             "meson.build", "meson_options.txt", "proto", "pyproject.toml", "python", "README.md",
             "scheduler", "scripts", "store", "tests"}

# Header pattern -> paths (prefixes) where it is allowed. tests/ may use what it tests.
THIRD_PARTY = [
    (r"caf/", ["actors/"]),
    (r"zmq", ["actors/base/gateway/"]),
    (r"rocksdb/", ["store/kv/rocksdb_"]),
    (r"toml\+\+/", ["actors/base/job_file/"]),
    (r"CLI/", ["actors/base/program/", "actors/easyscaled/", "actors/esctl/",
               "actors/worker/shell/worker_main"]),
    (r"spdlog/|fmt/", ["actors/base/log/log.cc"]),
    (r"microhttpd", ["actors/service/shell/http_server.cc"]),
    (r"prometheus/", ["actors/service/answers/"]),
    (r"sodium", ["actors/service/core/"]),
    (r"curl/", ["proto/http/http_client.cc"]),
    (r"nlohmann/", ["actors/base/log/line.cc", "actors/base/access/core/audit.cc", "actors/views/",
                   "actors/service/", "actors/kubernetes/", "actors/esctl/", "store/dataset/questions/",
                   "store/dataset/shards/", "store/dataset/tokens/", "store/safetensors/", "store/tokenizer/"]),
    (r"utf8proc|pcre2", ["store/tokenizer/"]),
    (r"capnp/|kj/", ["proto/", "actors/", "store/model_file/"]),
    (r"zlib\.h", ["store/byte_source.cc"]),
    (r"jpeglib\.h|jerror\.h|png\.h", ["store/dataset/images/"]),
    (r"pugixml", ["store/dataset/boxes/"]),
    (r"zip\.h", ["store/dataset/arrays/"]),
    (r"xxhash\.h", ["proto/base/"]),
    (r"dnnl|oneapi/|omp\.h", ["gpu/onednn/"]),
    (r"xbyak", ["gpu/machine_code/"]),
    (r"cblas", []),
]
# The rooms of a folder. A room may include itself and those before it. A file that lies in none of them
# belongs to the longest entry that is a prefix of its path.
ORDER = {
    "proto": ["proto/base", "proto"],
    "store": ["store", "store/kv", "store/checkpoint", "store/tokenizer", "store/dataset", "store/safetensors",
              "store/model_file", "store/traces", "store/metrics", "store/plans", "store/ledger", "store/tensorboard", "store/journal",
              "store/recovery"],
    "gpu": ["gpu/base", "gpu/canonical", "gpu/machine_code", "gpu/onednn", "gpu/params",
            "gpu/est", "gpu/optim", "gpu/graph", "gpu/import", "gpu/models", "gpu/cuda", "gpu/engine"],
    "scheduler": ["scheduler/model", "scheduler/plans", "scheduler/grants",
                  "scheduler/policy/common", "scheduler/policy/gang", "scheduler/policy/greedy",
                  "scheduler/policy/elastic_srtf", "scheduler/policy/rivals", "scheduler/policy"],
    "actors": ["actors/base", "actors/worker", "actors/head", "actors/node", "actors/sim", "actors/views",
               "actors/service", "actors/agents", "actors/kubernetes", "actors/easyscaled", "actors/esctl"],
}
# A core decides and does nothing else: no actors, no wires, no files, no clock.
CORE = re.compile(r"actors/([a-z_]+/)+core/")
CORE_FORBIDDEN = re.compile(r"caf/|zmq|capnp/|kj/|chrono_clock|store/|/shell/|actors/base/protocol/wire/|"
                            r"actors/base/log/")
# What a worker does with its engine, memory and disk: no actors and no wires.
DEVICE = re.compile(r"actors/worker/device/")
DEVICE_FORBIDDEN = re.compile(r"caf/|zmq|capnp/|kj/|/shell/|actors/base/protocol/wire/")
# Standard error belongs to the log, in esctl to its console (actors/views/console.h), and to the
# frame of every program for last errors (actors/base/program/program.h). These write to the descriptor.
# check.cc reports a failed check of a program without a log.
STANDARD_ERROR = re.compile(r"std::cerr|std::clog|\bstderr\b|\bperror\s*\(")
MAY_PRINT_ERRORS = {"proto/base/check.cc"}
COMMENT = re.compile(r"//.*")

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)


# A statement that assigns a list of named members to a variable or member: no type precedes it.
ASSIGNED_LIST = re.compile(r"\s*\w[\w.>\[\]-]* = \{\.")
FOR_CUDA = re.compile(r"gpu/(cuda/.*|canonical/[^/]*)\.(h|cu|cuh)$")


def sources(root):
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in (".h", ".cc", ".cu", ".cuh") and path.is_file():
                yield path.relative_to(root).as_posix(), path.read_text(errors="replace")


def check_includes(root):
    for name, text in sources(root):
        folder = name.split("/")[0]
        for _, header in INCLUDE.findall(text):
            target = header.split("/")[0]
            if target in FOLDERS and target not in MAY_INCLUDE[folder]:
                yield f"include: {name}: {folder} may not include {header}"
            if folder in ONLY_BASE and target == "proto" and not header.startswith("proto/base/"):
                yield f"include: {name}: {folder} may include only proto/base, not {header}"
            if CORE.match(name) and CORE_FORBIDDEN.search(header):
                yield f"include: {name}: a core may not include {header}"
            if DEVICE.match(name) and DEVICE_FORBIDDEN.search(header):
                yield f"include: {name}: the device parts may not include {header}"


def floor(order, path):
    """The index in `order` of the sub-folder that a file belongs to, or None."""
    holds = [i for i, folder in enumerate(order) if path.startswith(folder + "/")]
    return max(holds, key=lambda i: len(order[i]), default=None)


def check_order(root):
    for name, text in sources(root):
        order = ORDER.get(name.split("/")[0])
        if order is None:
            continue
        own = floor(order, name)
        if own is None:
            yield f"order: {name}: its folder is not in ORDER of scripts/check_tree.py"
            continue
        for _, header in INCLUDE.findall(text):
            other = floor(order, header)
            if other is not None and other > own:
                yield (f"order: {name}: {order[own]} may not include {header}, because "
                       f"{order[other]} is above it")


def is_inside(folder, other):
    return folder == other or folder.startswith(other + "/")


def arrows(root):
    """Folder -> the folders of its room that it includes, each with the first file and header. A folder
    and those inside it may include each other: one lists what the others contain, or is their base."""
    found = {}
    for name, text in sources(root):
        order, folder = ORDER.get(name.split("/")[0], []), name.rpartition("/")[0]
        for _, header in INCLUDE.findall(text):
            other = header.rpartition("/")[0]
            if (floor(order, header) is not None and floor(order, header) == floor(order, name)
                    and not is_inside(folder, other) and not is_inside(other, folder)):
                found.setdefault(folder, {}).setdefault(other, (name, header))
    return found


def reaches(graph, start, end):
    seen, ahead = set(), [start]
    while ahead:
        folder = ahead.pop()
        if folder == end:
            return True
        if folder not in seen:
            seen.add(folder)
            ahead += graph.get(folder, {})
    return False


def check_circles(root):
    graph = arrows(root)
    for folder, others in graph.items():
        for other, (name, header) in others.items():
            if reaches(graph, other, folder):
                yield f"circle: {name}: {header}: {other} includes {folder}, also by way of others"


def check_third_party(root):
    for name, text in sources(root):
        if name.startswith("tests/"):
            continue
        for _, header in INCLUDE.findall(text):
            for pattern, places in THIRD_PARTY:
                if re.match(pattern, header) and not any(name.startswith(p) for p in places):
                    yield f"third-party: {name}: {header} is allowed only in {places or 'tests'}"


def check_console(root):
    for name, text in sources(root):
        if name.startswith("tests/") or name in MAY_PRINT_ERRORS:
            continue
        for number, line in enumerate(text.splitlines(), 1):
            found = STANDARD_ERROR.search(COMMENT.sub("", line))
            if found:
                yield (f"console: {name}:{number}: {found[0]} is not allowed here; use "
                       "actors/base/log/log.h, or return the text to the caller")


def check_device_lists(root):
    for name, text in sources(root):
        if not FOR_CUDA.match(name):
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if ASSIGNED_LIST.match(line):
                yield (f"device-list: {name}:{number}: the CUDA compiler may forget the names of the "
                       "members; write the type before the list")


def check_registered(root):
    for path in sorted((root / "tests").rglob("*_test.*")):
        if path.suffix not in (".cc", ".py"):
            continue
        folder, found = path.parent, False
        while not found and folder != root:
            build = folder / "meson.build"
            relative = path.relative_to(folder).as_posix()
            found = build.is_file() and f"'{relative}'" in build.read_text()
            if not found and build.is_file() and path.suffix == ".py":
                # A loop over topics names a script without its ending.
                found = f"'{path.stem.removesuffix('_test')}'" in build.read_text()
            folder = folder.parent
        if not found:
            yield f"registered: {path.relative_to(root)} is in no meson.build"


def check_width(root):
    for name, text in sources(root):
        for number, line in enumerate(text.splitlines(), 1):
            if len(line) > 100:
                yield f"width: {name}:{number}: {len(line)} characters, at most 100 are allowed"


def check_readmes(root):
    for folder in FOLDERS + ["configs", "scripts"]:
        if not (root / folder / "README.md").is_file():
            yield f"readme: {folder}/README.md is missing"
    for readme in sorted(root.rglob("*.md")):
        name = readme.relative_to(root).as_posix()
        if name.split("/")[0].startswith(("build", ".")):
            continue
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", readme.read_text()):
            if "://" not in target and not (readme.parent / target).exists():
                yield f"readme: {name}: {target} does not exist"


def check_top_level(root):
    for entry in sorted(root.iterdir()):
        made = entry.name.startswith((".", "build")) or entry.name == "dist"  # dist: scripts/wheel
        if not made and entry.name not in TOP_LEVEL:
            yield f"top-level: {entry.name} is not one of {', '.join(sorted(TOP_LEVEL))}"


CHECKS = [check_includes, check_order, check_circles, check_third_party, check_console, check_device_lists,
          check_registered,
          check_width, check_readmes, check_top_level, check_phrases]


def problems(root):
    return [problem for check in CHECKS for problem in check(Path(root))]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", metavar="ROOT", help="the source tree")
    found = problems(parser.parse_args().root)
    print("\n".join(found) if found else "the tree keeps the rules")
    sys.exit(1 if found else 0)
