#include "actors/kubernetes/core/job_changes.h"

namespace es::actors::kubernetes {
namespace {

// The most bytes of a value in a message.
constexpr std::size_t kValueMax = 100;

std::string value_text(const Json& table, const std::string& key) {
  const auto found = table.find(key);
  if (found == table.end()) return "absent";
  const std::string text = found->dump();
  return text.size() <= kValueMax ? text : text.substr(0, kValueMax) + "...";
}

bool are_tables(const Json& before, const Json& now, const std::string& key) {
  return before.contains(key) && now.contains(key) && before[key].is_object() &&
         now[key].is_object();
}

// Tables have no order.
bool are_equal(const Json& before, const Json& now) {
  return nlohmann::json(before) == nlohmann::json(now);
}

void compare(const std::string& path, const Json& before, const Json& now,
             std::vector<std::string>& changes) {
  const auto note = [&](const std::string& key) {
    if (are_tables(before, now, key))
      compare(path + "." + key, before[key], now[key], changes);
    else if (!before.contains(key) || !now.contains(key) || !are_equal(before[key], now[key]))
      changes.push_back(path + "." + key + " was " + value_text(before, key) + " and is " +
                        value_text(now, key));
  };
  for (const auto& [key, value] : before.items()) note(key);
  for (const auto& [key, value] : now.items())
    if (!before.contains(key)) note(key);
}

}  // namespace

Json frozen_spec(const Json& job) {
  Json spec = value_at(job, {"spec"}, Json::object());
  for (const char* key : {"devices", "suspend"}) spec.erase(key);
  return spec;
}

std::vector<std::string> changes_since(const Json& submitted, const Json& job) {
  std::vector<std::string> changes;
  compare("spec", submitted, frozen_spec(job), changes);
  return changes;
}

}  // namespace es::actors::kubernetes
