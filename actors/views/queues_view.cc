#include "actors/views/queues_view.h"

#include <nlohmann/json.hpp>

#include <algorithm>

#include "actors/views/json_text.h"
#include "actors/views/render_text.h"
#include "proto/base/number_text.h"
#include "proto/text_of.h"
#include "scheduler/policy/common/queue.h"

namespace es::actors {
namespace {

nlohmann::ordered_json json_of(const QueueDevicesView& of) {
  nlohmann::ordered_json limit;
  if (of.limit) limit = *of.limit;
  return {{"type", of.type},         {"used", of.used},         {"guarantee", of.guarantee},
          {"reserved", of.reserved}, {"entitled", of.entitled}, {"borrowed", of.borrowed()},
          {"limit", limit}};
}

bool is_leaf(const std::vector<QueueView>& queues, const QueueView& queue) {
  return std::none_of(queues.begin(), queues.end(),
                      [&](const QueueView& other) { return other.parent == queue.name; });
}

bool serves(const std::vector<QueueView>& queues, const QueueView& queue,
            const std::string& tenant) {
  if (is_leaf(queues, queue))
    return queue.tenants.empty() ||
           std::find(queue.tenants.begin(), queue.tenants.end(), tenant) != queue.tenants.end();
  return std::any_of(queues.begin(), queues.end(), [&](const QueueView& below) {
    return below.parent == queue.name && serves(queues, below, tenant);
  });
}

// A type that the queue neither has, nor is given, nor may not have.
bool says_nothing(const QueueDevicesView& of) {
  return of.used == 0 && of.guarantee == 0 && of.entitled == 0 && !of.limit;
}

using Rows = std::vector<std::vector<std::string>>;

void add_rows(const std::vector<QueueView>& queues, const std::string& parent, std::size_t depth,
              Rows& rows) {
  for (const QueueView& queue : queues) {
    if (queue.parent != parent) continue;
    std::vector<std::string> begin{std::string(2 * depth, ' ') + queue.name,
                                   number_text(queue.weight), std::to_string(queue.running),
                                   std::to_string(queue.waiting)};
    bool is_first = true;
    for (const QueueDevicesView& of : queue.types) {
      if (says_nothing(of)) continue;
      std::vector<std::string> row = is_first ? begin : std::vector<std::string>(4);
      for (const std::string& cell :
           {of.type, std::to_string(of.used), std::to_string(of.guarantee),
            std::to_string(of.entitled), std::to_string(of.borrowed()),
            of.limit ? std::to_string(*of.limit) : std::string("-")})
        row.push_back(cell);
      rows.push_back(std::move(row));
      is_first = false;
    }
    if (is_first) {
      for (const char* cell : {"-", "0", "0", "0", "0", "-"}) begin.emplace_back(cell);
      rows.push_back(std::move(begin));
    }
    add_rows(queues, queue.name, depth + 1, rows);
  }
}

}  // namespace

std::vector<QueueView> read_queues(wire::NodeList::Reader reader) {
  std::vector<QueueView> queues;
  for (const wire::QueueInfo::Reader q : reader.getQueues()) {
    QueueView& queue = queues.emplace_back();
    queue.name = line_of(q.getName());
    queue.parent = line_of(q.getParent());
    queue.weight = q.getWeight();
    queue.tier = q.getTier();
    for (const auto tenant : q.getTenants()) queue.tenants.push_back(line_of(tenant));
    for (const wire::QueueDevices::Reader t : q.getTypes()) {
      QueueDevicesView of{line_of(t.getType()), t.getGuarantee(), {}, t.getUsed(), t.getEntitled()};
      if (t.getLimited()) of.limit = t.getLimit();
      of.reserved = t.getReserved();
      queue.types.push_back(std::move(of));
    }
    queue.running = q.getRunning();
    queue.waiting = q.getWaiting();
    if (q.getShares()) queue.share = {q.getUsage(), q.getLevel()};
  }
  return queues;
}

std::vector<QueueView> queues_for(const std::vector<QueueView>& queues, const std::string& tenant) {
  std::vector<QueueView> shown;
  for (const QueueView& queue : queues)
    if (tenant.empty() || serves(queues, queue, tenant)) shown.push_back(queue);
  return shown;
}

const QueueView* queue_of_job(const std::vector<QueueView>& queues, const std::string& named,
                              const std::string& tenant) {
  for (const std::string& name : {named, tenant, std::string(scheduler::kDefaultQueue)})
    for (const QueueView& queue : queues)
      if (queue.name == name && is_leaf(queues, queue) && serves(queues, queue, tenant))
        return &queue;
  return nullptr;
}

std::string queues_json(const std::vector<QueueView>& queues) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const QueueView& queue : queues) {
    nlohmann::ordered_json parent, usage, level, types = nlohmann::ordered_json::array();
    if (queue.share) usage = queue.share->device_seconds, level = queue.share->level;
    if (!queue.parent.empty()) parent = queue.parent;
    for (const QueueDevicesView& of : queue.types) types.push_back(json_of(of));
    list.push_back({{"queue", queue.name},
                    {"parent", parent},
                    {"weight", queue.weight},
                    {"tier", queue.tier},
                    {"tenants", queue.tenants},
                    {"running", queue.running},
                    {"waiting", queue.waiting},
                    {"device_seconds", usage},
                    {"level", level},
                    {"types", types}});
  }
  return json_text({{"queues", list}});
}

std::string queues_text(const std::vector<QueueView>& queues) {
  if (queues.empty()) return "this head was started without queues (--queues)\n";
  Rows rows{{"QUEUE", "WEIGHT", "RUNNING", "WAITING", "TYPE", "USED", "GUARANTEE", "ENTITLED",
             "BORROWED", "LIMIT"}};
  add_rows(queues, "", 0, rows);
  std::string text = table(rows);
  for (const QueueView& queue : queues) {
    if (queue.tier > 0)
      text += "queue " + queue.name + " is of tier " + std::to_string(queue.tier) + "\n";
    for (const QueueDevicesView& of : queue.types)
      if (of.reserved > 0)
        text += "queue " + queue.name + ": " + std::to_string(of.reserved) +
                " of its guarantee of " + of.type + " are reserved for a time (esctl claims)\n";
  }
  for (const QueueView& queue : queues)
    if (queue.share)
      text += "queue " + queue.name + " has used " + fixed(queue.share->device_seconds / 3600, 3) +
              " device-hours of late" +
              (is_leaf(queues, queue) ? "; level " + std::to_string(queue.share->level) : "") +
              "\n";
  return text;
}

}  // namespace es::actors
