#include "actors/views/catalog_view.h"

#include <ctime>
#include <nlohmann/json.hpp>

#include "actors/views/json_text.h"
#include "actors/views/render_text.h"

namespace es::actors {
namespace {

using Json = nlohmann::ordered_json;
using store::CatalogEntry;

std::string state_text(const CatalogEntry& entry, bool verified) {
  if (!entry.damage.empty()) return "damaged";
  return verified ? "verified" : "complete";
}

std::string mebibytes(std::uint64_t bytes) {
  return fixed(static_cast<double>(bytes) / (1 << 20), 1) + " MiB";
}

// For example "2026-03-01 17:04:05", in this machine's time zone.
std::string date(std::uint64_t unix_ms) {
  if (unix_ms == 0) return "-";
  const auto seconds = static_cast<std::time_t>(unix_ms / 1000);
  std::tm parts{};
  ::localtime_r(&seconds, &parts);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts)};
}

Json entry_json(const CatalogEntry& entry, bool verified) {
  // Every entry has every key. What a damaged checkpoint does not say is null.
  Json json{{"path", entry.directory.string()},
            {"state", state_text(entry, verified)},
            {"bytes", entry.bytes},
            {"job_name", Json()},
            {"run", Json()},
            {"version", Json()},
            {"written_unix_ms", Json()},
            {"params_digest", Json()},
            {"state_digest", Json()},
            {"damage", entry.damage.empty() ? Json() : Json(entry.damage)}};
  if (!entry.head) return json;
  json["job_name"] = entry.head->job_name;
  json["run"] = entry.head->run.empty() ? Json() : Json(entry.head->run);
  json["version"] = entry.head->version;
  json["written_unix_ms"] = entry.written_unix_ms;
  json["params_digest"] = entry.head->params_digest.hex();
  json["state_digest"] = entry.head->state_digest.hex();
  return json;
}

Json list_json(const std::vector<CatalogEntry>& entries, bool verified) {
  Json list = Json::array();
  for (const CatalogEntry& entry : entries) list.push_back(entry_json(entry, verified));
  return list;
}

}  // namespace

std::string catalog_text(const std::vector<CatalogEntry>& entries, bool verified) {
  std::vector<std::vector<std::string>> rows{
      {"CHECKPOINT", "JOB", "STEP", "WRITTEN", "SIZE", "STATE"}};
  for (const CatalogEntry& entry : entries)
    rows.push_back({entry.directory.string(), entry.head ? entry.run() : "-",
                    entry.head ? std::to_string(entry.head->version) : "-",
                    date(entry.written_unix_ms), mebibytes(entry.bytes),
                    state_text(entry, verified)});
  return table(rows);
}

std::string catalog_json(const std::vector<CatalogEntry>& entries, bool verified) {
  return json_text({{"checkpoints", list_json(entries, verified)}});
}

std::string pruned_text(const Pruned& pruned) {
  const std::string removed = pruned.dry_run ? "would remove " : "removed ";
  const std::string kept = pruned.dry_run ? "would keep   " : "kept    ";
  std::string text;
  for (const CatalogEntry& entry : pruned.removed)
    text += removed + entry.directory.string() + "\n";
  for (const CatalogEntry& entry : pruned.kept) text += kept + entry.directory.string() + "\n";
  for (const std::filesystem::path& path : pruned.leftovers)
    text += removed + path.string() + ", unfinished, of a writer that died\n";
  for (const std::string& line : pruned.skipped) text += "skipped " + line + "\n";
  for (const std::string& line : pruned.stays) text += "stays   " + line + "\n";
  return text;
}

std::string pruned_json(const Pruned& pruned) {
  return json_text({{"dry_run", pruned.dry_run},
                    {"removed", list_json(pruned.removed, true)},
                    {"kept", list_json(pruned.kept, true)},
                    {"damaged", list_json(pruned.damaged, true)},
                    {"unfinished_removed", pruned.leftovers.size()},
                    {"skipped", pruned.skipped},
                    {"stays", pruned.stays},
                    {"failed", pruned.failed}});
}

}  // namespace es::actors
