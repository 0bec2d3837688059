#include "actors/views/ledger_view.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <bit>
#include <cstdio>

#include "actors/views/json_text.h"
#include "actors/views/render_text.h"

namespace es::actors {
namespace {

using Json = nlohmann::ordered_json;
using Row = std::vector<std::string>;
using store::LedgerLine;

std::string digest_text(const LedgerLine& line) {
  return line.params_digest ? line.params_digest->hex() : "-";
}

// Nine significant digits identify every fp32 value.
std::string loss_text(float loss) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", static_cast<double>(loss));
  return text;
}

std::string losses_text(const LedgerLine& line) {
  std::string text;
  for (const float loss : line.losses) text += (text.empty() ? "" : " ") + loss_text(loss);
  return text;
}

Json bits_of(const LedgerLine& line) {
  Json list = Json::array();
  for (const float loss : line.losses) list.push_back(std::bit_cast<std::uint32_t>(loss));
  return list;
}

Json line_json(const LedgerLine& line) {
  Json json{{"step", line.version}, {"params_digest", digest_text(line)}};
  // JSON has no NaN and no infinity; both become null. The bits are exact for every loss.
  json["losses"] = line.losses;
  json["loss_bits"] = bits_of(line);
  return json;
}

std::string name_of(const store::LedgerFile& ledger) {
  return ledger.job + (ledger.placements.empty() ? "" : " on " + ledger.placements);
}

std::string only_text(const char* name, Version count) {
  if (count == 0) return {};
  return counted(count, "step") + (count == 1 ? " is" : " are") + " only in " + name + "\n";
}

}  // namespace

std::string ledger_text(const store::LedgerFile& ledger) {
  std::vector<Row> rows{{"STEP", "PARAMS DIGEST", "LOSSES BY EST"}};
  for (const LedgerLine& line : ledger.lines)
    rows.push_back({std::to_string(line.version), digest_text(line), losses_text(line)});
  return table(rows);
}

std::string ledger_json(const store::LedgerFile& ledger) {
  Json lines = Json::array();
  for (const LedgerLine& line : ledger.lines) lines.push_back(line_json(line));
  return json_text({{"job", ledger.job},
                    {"spec_digest", ledger.spec.hex()},
                    {"placements", ledger.placements},
                    {"lines", lines}});
}

std::string diff_text(const DiffView& view) {
  std::string text = "A  " + name_of(view.a) + "\nB  " + name_of(view.b) + "\n";
  for (const std::string& note : view.notes) text += note + "\n";
  const LedgerComparison& c = view.comparison;
  if (c.first) {
    text += "first difference in " + difference_text(*c.first) + "\n";
    std::vector<Row> rows{{"", "PARAMS DIGEST", "LOSSES BY EST"},
                          {"A", digest_text(*c.first->a), losses_text(*c.first->a)},
                          {"B", digest_text(*c.first->b), losses_text(*c.first->b)}};
    text += table(rows);
  }
  if (view.deep) text += deep_text(*view.deep) + "\n";
  text += only_text("A", c.only_a) + only_text("B", c.only_b);
  if (!c.first) text += counted(c.compared, "step") + " compared, no differences\n";
  return text + "identical " + (c.equal() ? "yes" : "no") + "\n";
}

std::string diff_json(const DiffView& view) {
  const LedgerComparison& c = view.comparison;
  Json json{{"identical", c.equal()}, {"compared", c.compared}, {"only_a", c.only_a},
            {"only_b", c.only_b},     {"notes", view.notes},    {"first", Json()},
            {"deep", Json()}};
  if (c.first)
    json["first"] = {{"step", c.first->version},
                     {"ests", c.first->losses},
                     {"params", c.first->digests},
                     {"a", line_json(*c.first->a)},
                     {"b", line_json(*c.first->b)}};
  if (view.deep) json["deep"] = {{"what", deep_text(*view.deep)}, {"found", view.deep->found}};
  return json_text(json);
}

bool all_identical(const std::vector<VerifiedRun>& runs) {
  return std::all_of(runs.begin(), runs.end(),
                     [](const VerifiedRun& run) { return run.difference.empty(); });
}

std::string verify_text(const std::vector<VerifiedRun>& runs) {
  std::vector<Row> rows{{"STAGES", "STEPS", "PARAMS DIGEST", "STATE DIGEST", "FIRST DIFFERENCE"}};
  for (const VerifiedRun& run : runs)
    rows.push_back({run.stages, std::to_string(run.ledger.lines.size()), run.params_digest,
                    run.state_digest, run.difference.empty() ? "-" : run.difference});
  return table(rows) + "identical " + (all_identical(runs) ? "yes" : "no") + "\n";
}

std::string verify_json(const std::vector<VerifiedRun>& runs) {
  Json list = Json::array();
  for (const VerifiedRun& run : runs)
    list.push_back({{"stages", run.stages},
                    {"steps", run.ledger.lines.size()},
                    {"params_digest", run.params_digest},
                    {"state_digest", run.state_digest},
                    {"difference", run.difference.empty() ? Json() : Json(run.difference)}});
  return json_text({{"identical", all_identical(runs)}, {"runs", list}});
}

}  // namespace es::actors
