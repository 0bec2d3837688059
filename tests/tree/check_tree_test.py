#!/usr/bin/env python3
"""The checker of the source tree finds each kind of fault, and none in a clean tree."""
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPTS = Path(sys.argv.pop(1))
sys.path.insert(0, str(SCRIPTS))
sys.dont_write_bytecode = True
import check_tree  # noqa: E402


class CheckTree(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.root = Path(self.directory.name)
        for folder in check_tree.FOLDERS + ["configs", "scripts"]:
            self.write(f"{folder}/README.md", "# " + folder)

    def tearDown(self):
        self.directory.cleanup()

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def expect(self, *starts):
        found = check_tree.problems(self.root)
        self.assertEqual(len(found), len(starts), found)
        for problem, start in zip(found, starts):
            self.assertTrue(problem.startswith(start), problem)

    def test_a_clean_tree_has_no_problems(self):
        self.write("gpu/graph/a.cc", '#include "proto/base/result.h"\n#include <vector>\n')
        self.write("actors/worker/est/shell/x_actor.cc", "#include <caf/all.hpp>\n")
        self.expect()

    def test_gpu_may_not_include_actors_or_store(self):
        self.write("gpu/graph/a.cc", '#include "actors/worker/core/worker_core.h"\n')
        self.write("gpu/graph/b.cc", '#include "store/ledger/ledger.h"\n')
        self.expect("include: gpu/graph/a.cc", "include: gpu/graph/b.cc")

    def test_gpu_and_scheduler_do_not_know_each_other(self):
        self.write("gpu/graph/a.cc", '#include "scheduler/model/model.h"\n')
        self.write("scheduler/plans/b.cc", '#include "gpu/engine/engine.h"\n')
        self.expect("include: gpu/graph/a.cc", "include: scheduler/plans/b.cc")

    def test_gpu_may_not_see_messages(self):
        self.write("gpu/graph/a.cc", '#include "proto/msg.h"\n')
        self.expect("include: gpu/graph/a.cc: gpu may include only proto/base")

    def test_a_room_of_the_actors_includes_only_earlier_ones(self):
        self.write("actors/worker/core/a.cc", '#include "actors/head/intra_job/core/job_core.h"\n')
        self.write("actors/head/intra_job/core/b.cc", '#include "actors/worker/state/step_trace.h"\n')
        self.expect("order: actors/worker/core/a.cc: actors/worker may not include")

    def test_folders_of_a_room_do_not_include_each_other_in_a_circle(self):
        self.write("actors/base/a/x.cc", '#include "actors/base/b/y.h"\n')
        self.write("actors/base/b/y.cc", '#include "actors/base/c/z.h"\n')
        self.write("actors/base/c/z.cc", '#include "actors/base/a/x.h"\n')
        self.write("actors/base/c/inner/w.cc", '#include "actors/base/c/z.h"\n')
        self.write("actors/base/c/v.cc", '#include "actors/base/c/inner/w.h"\n')
        self.expect("circle: actors/base/a/x.cc: actors/base/b/y.h", "circle: actors/base/b/y.cc",
                    "circle: actors/base/c/z.cc")

    def test_a_room_includes_only_earlier_ones(self):
        self.write("gpu/graph/a.cc", '#include "gpu/engine/engine.h"\n')
        self.write("gpu/engine/b.cc", '#include "gpu/graph/graph.h"\n')
        self.write("gpu/elsewhere/c.cc", "")
        self.expect("order: gpu/elsewhere/c.cc: its folder is not", "order: gpu/graph/a.cc: gpu/graph")

    def test_a_core_may_not_use_the_actor_library(self):
        self.write("actors/worker/core/worker_core.cc", "#include <caf/actor.hpp>\n")
        self.expect("include: actors/worker/core/worker_core.cc: a core")

    def test_a_library_outside_its_folder_is_found(self):
        self.write("scheduler/plans/a.cc", "#include <caf/all.hpp>\n")
        self.write("store/b.cc", "#include <rocksdb/db.h>\n")
        self.expect("third-party: store/b.cc", "third-party: scheduler/plans/a.cc")

    def test_only_the_log_knows_its_library(self):
        self.write("actors/base/log/log.cc", "#include <spdlog/logger.h>\n")
        self.write("actors/base/log/line.cc", "#include <spdlog/logger.h>\n")
        self.expect("third-party: actors/base/log/line.cc: spdlog/logger.h")

    def test_a_line_on_standard_error_beside_the_log_is_found(self):
        self.write("gpu/graph/a.cc", '  std::cerr << "slow";\n')
        self.write("store/b.cc", '\n  std::fprintf(stderr, "full");\n')
        self.write("proto/base/check.cc", '  std::fprintf(stderr, "check failed");\n')
        self.write("scheduler/plans/c.cc", "// It is no std::cerr, and dup2(fd, STDERR_FILENO) is none.\n")
        self.write("tests/d.cc", '  std::cerr << "a seed";\n')
        self.expect("console: store/b.cc:2: stderr", "console: gpu/graph/a.cc:1: std::cerr")

    def test_a_list_of_named_members_is_not_assigned_in_a_kernel_file(self):
        self.write("gpu/cuda/kernels/a.h", "  kernel.to = {.c = ws, .quads = true};\n")
        self.write("gpu/cuda/kernels/b.cu", "  kernel.to = Target{.c = ws};\n"
                   "  const Batch b{.count = 1,\n                .a = {.inner = 2}};\n")
        self.write("gpu/graph/c.cc", "  op.conv = {.oc = 3};\n")
        self.expect("device-list: gpu/cuda/kernels/a.h:1")

    def test_a_core_may_not_log(self):
        self.write("actors/worker/core/worker_core.cc", '#include "actors/base/log/log.h"\n')
        self.expect("include: actors/worker/core/worker_core.cc: a core")

    def test_a_test_that_no_build_runs_is_found(self):
        self.write("tests/gpu/a_test.cc", "")
        self.write("tests/gpu/b_test.cc", "")
        self.write("tests/gpu/meson.build", "executable('t', 'a_test.cc')")
        self.expect("registered: tests/gpu/b_test.cc")

    def test_a_line_that_is_too_long_is_found(self):
        self.write("gpu/graph/a.cc", "// " + "é" * 97 + "\n// " + "x" * 98 + "\n")
        self.expect("width: gpu/graph/a.cc:2")

    def test_a_path_in_a_readme_must_exist(self):
        self.write("gpu/README.md", "see [x](nowhere/x.h) and [y](../store/README.md)")
        self.expect("readme: gpu/README.md: nowhere/x.h")

    def test_a_folder_without_readme_is_found(self):
        (self.root / "store/README.md").unlink()
        self.expect("readme: store/README.md is missing")

    def test_an_unknown_top_level_entry_is_found(self):
        self.write("notes.txt", "")
        self.expect("top-level: notes.txt")

    def test_a_phrase_that_readers_cannot_understand_is_found_in_comments_and_documents(self):
        self.write("gpu/graph/a.cc", 'int a;  // see DESIGN 8\nconst char* text = "so many";\n')
        self.write("gpu/graph/b.py", '"""Waits for whom it may concern."""\nx = "nobody"  # told of it\n')
        self.write("docs/a.md", "It waits so long as it likes.\n")
        self.expect('phrase: docs/a.md:1: "so long as": write `while`',
                    'phrase: gpu/graph/a.cc:1: "DESIGN": this document is not in the repository',
                    'phrase: gpu/graph/b.py:1: "whom": name the process')

    def test_words_in_code_are_no_phrases(self):
        self.write("gpu/graph/a.cc", "int whom_to_evict();  // `plainly` is a name\n")
        self.write("gpu/graph/b.py", "CANONICAL = '# nobody'\n")
        self.expect()


if __name__ == "__main__":
    unittest.main()
