#pragma once
// The findings of `esctl doctor` and their output. Pure functions.
#include <string>
#include <vector>

namespace es::actors {

struct Finding {
  enum class Verdict {
    kFine,
    kWarning,  // it works, but worse than it could, or not for everything
    kWrong,    // something does not work
  };
  Verdict verdict = Verdict::kFine;
  std::string area;  // a word: cpu, memory, limits, shared-memory, clock, gpu, programs, directory,
                     // keys, port, head, nodes
  std::string text;  // what was found, as a sentence
  std::string mend{};  // what to do; empty if nothing
};
using Findings = std::vector<Finding>;

bool something_is_wrong(const Findings& findings);

// A line for each finding, what to do below it, and the counts at the end.
std::string findings_text(const Findings& findings);
// {"wrong": COUNT, "warnings": COUNT, "findings": [{"verdict": "fine" | "warning" | "wrong",
// "area": WORD, "text": TEXT, "mend": TEXT or null}, ...]}
std::string findings_json(const Findings& findings);

}  // namespace es::actors
