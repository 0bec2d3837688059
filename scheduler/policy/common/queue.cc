#include "scheduler/policy/common/queue.h"

#include <algorithm>
#include <limits>
#include <set>

#include "proto/base/check.h"
#include "proto/base/number_text.h"
#include "scheduler/model/device_sets.h"

namespace es::scheduler {
namespace {

Error bad(const Queue& queue, const std::string& what) {
  return usage_error("queue \"" + queue.name + "\": " + what);
}

bool is_name(std::string_view name) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  };
  return !name.empty() && name.size() <= 64 && std::all_of(name.begin(), name.end(), allowed);
}

Status check_names(const std::vector<Queue>& queues) {
  if (queues.size() > kQueuesMax)
    return usage_error(std::to_string(queues.size()) + " queues; allowed are at most " +
                       std::to_string(kQueuesMax));
  std::set<std::string_view> names;
  for (const Queue& queue : queues) {
    if (!is_name(queue.name))
      return bad(queue, "name: allowed are 1 to 64 letters, digits, '-', '_' and '.'");
    if (!names.insert(queue.name).second)
      return bad(queue, "there are two queues of this name; names are unique in the whole tree");
  }
  return {};
}

Status check_place(const std::vector<Queue>& queues, const Queue& queue) {
  std::size_t depth = 0;
  for (const Queue* at = &queue; !at->parent.empty(); at = find_queue(queues, at->parent)) {
    if (find_queue(queues, at->parent) == nullptr)
      return bad(*at, "parent = \"" + at->parent + "\": there is no such queue");
    // A way up that is longer than the number of queues comes back to where it began.
    if (++depth > queues.size())
      return bad(queue, "parent = \"" + queue.parent + "\": it is below itself");
  }
  return {};
}

// The guarantees of the children together.
DeviceSet guaranteed_below(const std::vector<Queue>& queues, const std::string& name) {
  DeviceSet all;
  for (const Queue& queue : queues)
    if (queue.parent == name) all = sum(all, queue.guarantee);
  return all;
}

std::size_t depth_of(const std::vector<Queue>& queues, const Queue& queue) {
  std::size_t depth = 0;
  for (const Queue* at = &queue; !at->parent.empty(); at = find_queue(queues, at->parent)) ++depth;
  return depth;
}

}  // namespace

Result<std::vector<Queue>> completed_queues(std::vector<Queue> queues) {
  ES_RETURN_IF_ERROR(check_names(queues));
  for (const Queue& queue : queues) {
    ES_RETURN_IF_ERROR(check_place(queues, queue));
    // Written as a negation, so that NaN is refused too.
    if (!(queue.weight >= 0 && queue.weight <= kQueueWeightMax))
      return bad(queue, "weight = " + number_text(queue.weight) + "; allowed: 0 to 1000000");
    if (queue.tier > kQueueTierMax)
      return bad(queue, "tier = " + std::to_string(queue.tier) + "; allowed: 0 to " +
                            std::to_string(kQueueTierMax));
  }
  std::vector<std::pair<std::size_t, std::size_t>> deepest_first;
  for (std::size_t i = 0; i < queues.size(); ++i)
    deepest_first.emplace_back(queues.size() - depth_of(queues, queues[i]), i);
  std::sort(deepest_first.begin(), deepest_first.end());
  for (const auto& [order, i] : deepest_first) {
    Queue& queue = queues[i];
    const DeviceSet below = guaranteed_below(queues, queue.name);
    if (queue.guarantee.empty()) queue.guarantee = below;
    if (!queue.guarantee.contains(below))
      return bad(queue, "guarantee = " + queue.guarantee.text() + ": the queues below it have " +
                            below.text() + " together, which is more");
    if (!is_leaf(queues, queue.name) && !queue.tenants.empty())
      return bad(queue, "tenants: allowed only in a queue without others below it");
  }
  return queues;
}

const Queue* find_queue(const std::vector<Queue>& queues, std::string_view name) {
  for (const Queue& queue : queues)
    if (queue.name == name) return &queue;
  return nullptr;
}

bool is_leaf(const std::vector<Queue>& queues, std::string_view name) {
  return std::none_of(queues.begin(), queues.end(),
                      [&](const Queue& queue) { return queue.parent == name; });
}

std::string leaves_text(const std::vector<Queue>& queues) {
  std::string text;
  for (const Queue& queue : queues)
    if (is_leaf(queues, queue.name)) text += (text.empty() ? "" : ", ") + queue.name;
  return text;
}

std::uint64_t most_of_queue(const std::vector<Queue>& queues, std::string_view name,
                            const DeviceType& type) {
  std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  for (const Queue* at = find_queue(queues, name); at != nullptr;
       at = find_queue(queues, at->parent)) {
    const auto borrow = at->borrow.find(type);
    if (borrow != at->borrow.end())
      most = std::min<std::uint64_t>(most,
                                     std::uint64_t{at->guarantee.count_of(type)} + borrow->second);
  }
  return most;
}

std::string queue_of_job(const std::vector<Queue>& queues, const std::string& named,
                         const std::string& tenant) {
  for (const std::string& name : {named, tenant, std::string(kDefaultQueue)})
    if (const Queue* queue = find_queue(queues, name);
        queue != nullptr && is_leaf(queues, name) && serves_tenant(queues, *queue, tenant))
      return name;
  return {};
}

Status check_queue_of_job(const std::vector<Queue>& queues, const std::string& named,
                          const std::string& tenant) {
  // Without queues there is nothing to be in, as in the head of `esctl run`.
  if (named.empty() || queues.empty()) return {};
  const std::string field = "resources.queue = \"" + named + "\": ";
  const Queue* queue = find_queue(queues, named);
  if (queue == nullptr)
    return usage_error(field + "there is no such queue; allowed: " + leaves_text(queues));
  if (!is_leaf(queues, named))
    return usage_error(field + "it has queues below it; allowed: " + leaves_text(queues));
  if (serves_tenant(queues, *queue, tenant)) return {};
  std::string tenants;
  for (const std::string& name : queue->tenants) tenants += (tenants.empty() ? "" : ", ") + name;
  return refused(field + "only jobs of these tenants may be in it: " + tenants);
}

void add_guarantee(std::vector<Queue>& queues, const std::string& name, const DeviceType& type,
                   std::uint32_t count) {
  std::string at = name;
  while (!at.empty()) {
    const auto queue =
        std::find_if(queues.begin(), queues.end(), [&](const Queue& q) { return q.name == at; });
    ES_CHECK(queue != queues.end());
    queue->guarantee.add(type, count);
    at = queue->parent;
  }
}

bool serves_tenant(const std::vector<Queue>& queues, const Queue& queue,
                   const std::string& tenant) {
  if (is_leaf(queues, queue.name))
    return queue.tenants.empty() ||
           std::find(queue.tenants.begin(), queue.tenants.end(), tenant) != queue.tenants.end();
  return std::any_of(queues.begin(), queues.end(), [&](const Queue& below) {
    return below.parent == queue.name && serves_tenant(queues, below, tenant);
  });
}

}  // namespace es::scheduler
