#include "actors/base/job_file/queue_file.h"

#include <toml++/toml.h>

#include <sstream>

#include "actors/base/job_file/toml_bounds.h"
#include "proto/base/text_file.h"

namespace es::actors {
namespace {

using scheduler::Queue;

constexpr std::int64_t kDevicesMax = 1'000'000;

std::string text_of(const toml::node& node) {
  std::ostringstream text;
  text << toml::node_view<const toml::node>(node);
  return text.str();
}

// Reads the table of one queue.
class QueueReader {
 public:
  QueueReader(const toml::table& table, const std::string& name, const std::string& where)
      : table_(table), prefix_(where + ": queue." + name + ".") {}

  Result<Queue> read(const std::string& name) {
    Queue queue{.name = name, .guarantee = {}, .weight = 1};
    for (const auto& [key, node] : table_) {
      const Status status = read_field(std::string(key.str()), node, queue);
      if (!status.ok()) return status.error();
    }
    return queue;
  }

 private:
  Status read_field(const std::string& key, const toml::node& node, Queue& queue) {
    if (key == "parent") return read_text(key, node, queue.parent);
    if (key == "weight") {
      if (!node.is_number()) return bad(key, node, "a number from 0 to 1000000");
      queue.weight = *node.value<double>();
      return {};
    }
    if (key == "tier") {
      const auto tier = node.value_exact<std::int64_t>();
      if (!tier || *tier < 0 || *tier > scheduler::kQueueTierMax)
        return bad(key, node,
                   "a whole number from 0 to " + std::to_string(scheduler::kQueueTierMax));
      queue.tier = static_cast<std::uint32_t>(*tier);
      return {};
    }
    if (key == "tenants") return read_tenants(key, node, queue.tenants);
    const auto count = [&](const DeviceType& type, std::uint32_t count) {
      if (key == "borrow")
        queue.borrow[type] = count;
      else if (count > 0)
        queue.guarantee.add(type, count);
    };
    if (key == "guarantee" || key == "borrow") return read_counts(key, node, count);
    return usage_error(
        prefix_ + key +
        ": no such key; allowed here: parent, guarantee, borrow, tier, weight, tenants");
  }

  Status read_text(const std::string& key, const toml::node& node, std::string& out) {
    const auto text = node.value_exact<std::string>();
    if (!text || text->empty()) return bad(key, node, "the name of a queue");
    out = *text;
    return {};
  }

  Status read_tenants(const std::string& key, const toml::node& node,
                      std::vector<std::string>& out) {
    const toml::array* array = node.as_array();
    if (array == nullptr || array->empty()) return bad(key, node, "a list of names");
    for (const toml::node& item : *array) {
      const auto text = item.value_exact<std::string>();
      if (!text || text->empty()) return bad(key, node, "a list of names");
      out.push_back(*text);
    }
    return {};
  }

  template <class Add>
  Status read_counts(const std::string& key, const toml::node& node, const Add& add) {
    const std::string allowed =
        "a table of device types, { TYPE = COUNT }, with counts from 0 to " +
        std::to_string(kDevicesMax);
    const toml::table* counts = node.as_table();
    if (counts == nullptr) return bad(key, node, allowed);
    for (const auto& [type, value] : *counts) {
      const auto count = value.template value_exact<std::int64_t>();
      if (!count || *count < 0 || *count > kDevicesMax) return bad(key, node, allowed);
      add(DeviceType{std::string(type.str())}, static_cast<std::uint32_t>(*count));
    }
    return {};
  }

  Error bad(const std::string& key, const toml::node& node, const std::string& allowed) const {
    return usage_error(prefix_ + key + " = " + text_of(node) + ": allowed is " + allowed);
  }

  const toml::table& table_;
  const std::string prefix_;
};

Result<Queue> parse_quota(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0)
    return usage_error("--quota " + text + ": allowed is TENANT=TYPE:COUNT[+TYPE:COUNT...]");
  auto devices = parse_device_set(text.substr(equals + 1));
  if (!devices) return usage_error("--quota " + text + ": " + devices.error().message);
  return Queue{text.substr(0, equals), *std::move(devices)};
}

}  // namespace

Result<std::vector<Queue>> parse_queues(std::string_view toml_text, const std::string& where) {
  ES_RETURN_IF_ERROR(check_toml_text(toml_text, where));
  toml::table root;
  try {
    root = toml::parse(toml_text);
  } catch (const toml::parse_error& error) {
    std::ostringstream at;
    at << where << ": line " << error.source().begin.line << ", column "
       << error.source().begin.column << ": " << error.description();
    return usage_error(at.str());
  }
  std::vector<Queue> queues;
  for (const auto& [key, node] : root) {
    const toml::table* tables = key == "queue" ? node.as_table() : nullptr;
    if (tables == nullptr)
      return usage_error(where + ": " + std::string(key.str()) +
                         ": allowed here are only tables [queue.NAME]");
    for (const auto& [name, table] : *tables) {
      if (!table.is_table())
        return usage_error(where + ": queue." + std::string(name.str()) + " = " + text_of(table) +
                           ": allowed is a table [queue.NAME]");
      auto queue = QueueReader(*table.as_table(), std::string(name.str()), where)
                       .read(std::string(name.str()));
      if (!queue) return queue.error();
      queues.push_back(*std::move(queue));
    }
  }
  if (queues.empty())
    return usage_error(where + ": it has no queues; allowed are tables [queue.NAME]");
  auto completed = scheduler::completed_queues(std::move(queues));
  if (!completed) return usage_error(where + ": " + completed.error().message);
  return completed;
}

Result<std::vector<Queue>> read_queues(const std::string& file,
                                       const std::vector<std::string>& quotas) {
  std::vector<Queue> queues;
  if (!file.empty()) {
    const auto text = read_text_file(file, kTomlBytesMax);
    if (!text) return text.error();
    auto parsed = parse_queues(*text, file);
    if (!parsed) return parsed.error();
    queues = *std::move(parsed);
  }
  for (const std::string& text : quotas) {
    auto quota = parse_quota(text);
    if (!quota) return quota.error();
    if (scheduler::find_queue(queues, quota->name) != nullptr)
      return usage_error("--quota " + text +
                         ": there is a queue or a quota of this name already; allowed is one");
    queues.push_back(*std::move(quota));
  }
  return scheduler::completed_queues(std::move(queues));
}

}  // namespace es::actors
