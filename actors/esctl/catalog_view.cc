#include "actors/esctl/catalog_view.h"

#include <nlohmann/json.hpp>

#include "actors/esctl/render_text.h"

namespace es::actors::esctl {
namespace {

using Json = nlohmann::ordered_json;
using store::CatalogEntry;

std::string dump(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

std::string state_text(const CatalogEntry& entry, bool verified) {
  if (!entry.damage.empty()) return "damaged";
  return verified ? "verified" : "complete";
}

std::string mebibytes(std::uint64_t bytes) {
  return fixed(static_cast<double>(bytes) / (1 << 20), 1) + " MiB";
}

Json entry_json(const CatalogEntry& entry, bool verified) {
  Json json{{"path", entry.directory.string()},
            {"state", state_text(entry, verified)},
            {"bytes", entry.bytes},
            {"job_name", Json()},
            {"version", Json()},
            {"params_digest", Json()},
            {"state_digest", Json()},
            {"damage", entry.damage.empty() ? Json() : Json(entry.damage)}};
  if (!entry.head) return json;
  json["job_name"] = entry.head->job_name;
  json["version"] = entry.head->version;
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
  std::vector<std::vector<std::string>> rows{{"CHECKPOINT", "JOB", "STEP", "SIZE", "STATE"}};
  for (const CatalogEntry& entry : entries)
    rows.push_back({entry.directory.string(), entry.head ? entry.head->job_name : "-",
                    entry.head ? std::to_string(entry.head->version) : "-", mebibytes(entry.bytes),
                    state_text(entry, verified)});
  return table(rows);
}

std::string catalog_json(const std::vector<CatalogEntry>& entries, bool verified) {
  return dump({{"checkpoints", list_json(entries, verified)}});
}

std::string pruned_text(const Pruned& pruned) {
  std::string text;
  for (const CatalogEntry& entry : pruned.removed)
    text += "removed " + entry.directory.string() + "\n";
  for (const CatalogEntry& entry : pruned.kept)
    text += "kept    " + entry.directory.string() + "\n";
  if (pruned.leftovers != 0)
    text += "removed " + std::to_string(pruned.leftovers) + " unfinished, of writers that died\n";
  return text;
}

std::string pruned_json(const Pruned& pruned) {
  return dump({{"removed", list_json(pruned.removed, true)},
               {"kept", list_json(pruned.kept, true)},
               {"damaged", list_json(pruned.damaged, true)},
               {"unfinished_removed", pruned.leftovers}});
}

}  // namespace es::actors::esctl
