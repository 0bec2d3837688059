#include "actors/views/doctor_view.h"

#include <nlohmann/json.hpp>

#include <algorithm>

#include "actors/views/json_text.h"
#include "actors/views/render_text.h"

namespace es::actors {
namespace {

const char* verdict_name(Finding::Verdict verdict) {
  switch (verdict) {
    case Finding::Verdict::kFine:
      return "fine";
    case Finding::Verdict::kWarning:
      return "warning";
    case Finding::Verdict::kWrong:
      return "wrong";
  }
  return "wrong";
}

std::size_t count_of(const Findings& findings, Finding::Verdict verdict) {
  return static_cast<std::size_t>(std::ranges::count(findings, verdict, &Finding::verdict));
}

}  // namespace

bool something_is_wrong(const Findings& findings) {
  return count_of(findings, Finding::Verdict::kWrong) > 0;
}

std::string findings_text(const Findings& findings) {
  std::vector<std::vector<std::string>> rows;
  for (const Finding& finding : findings) {
    rows.push_back({verdict_name(finding.verdict), finding.area, finding.text});
    if (!finding.mend.empty()) rows.push_back({"", "", "-> " + finding.mend});
  }
  const std::size_t wrong = count_of(findings, Finding::Verdict::kWrong);
  const std::size_t warnings = count_of(findings, Finding::Verdict::kWarning);
  return table(rows) + "\n" + counted(findings.size(), "finding") + ": " + std::to_string(wrong) +
         " wrong, " + counted(warnings, "warning") + "\n";
}

std::string findings_json(const Findings& findings) {
  using Json = nlohmann::ordered_json;
  Json list = Json::array();
  for (const Finding& f : findings)
    list.push_back({{"verdict", verdict_name(f.verdict)},
                    {"area", f.area},
                    {"text", f.text},
                    {"mend", f.mend.empty() ? Json() : Json(f.mend)}});
  return json_text({{"wrong", count_of(findings, Finding::Verdict::kWrong)},
                    {"warnings", count_of(findings, Finding::Verdict::kWarning)},
                    {"findings", std::move(list)}});
}

}  // namespace es::actors
