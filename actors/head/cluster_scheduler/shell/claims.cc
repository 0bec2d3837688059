#include "actors/head/cluster_scheduler/shell/claims.h"

#include <algorithm>

#include "actors/base/gateway/shell/visit.h"
#include "actors/base/log/log.h"
#include "proto/base/kill_point.h"
#include "proto/messages.h"
#include "proto/text_of.h"

namespace es::actors {
namespace {

constexpr std::size_t kNameMax = 64;
constexpr const char* kNameCharacters =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";

Status check_request(const cluster::ClaimMade& claim) {
  const std::string& name = claim.name;
  if (name.empty() || name.size() > kNameMax ||
      name.find_first_not_of(kNameCharacters) != std::string::npos)
    return usage_error("claim name \"" + name + "\": allowed are 1 to " + std::to_string(kNameMax) +
                       " letters, digits, '-', '_' and '.'");
  if (claim.count == 0)
    return usage_error("claim \"" + name + "\": count = 0: allowed is 1 or more");
  return {};
}

}  // namespace

Status Claims::restore() {
  const auto claims = journal_.load_all();
  if (!claims) return claims.error();
  for (const store::ClaimRecord& c : *claims) {
    if (!c.queue.empty() && scheduler::find_queue(queues_, c.queue) == nullptr)
      log::warning("reservation " + c.name + ": there is no queue " + c.queue +
                   " any more, so nothing is reserved");
    times_[c.name] = {c.from_unix_ms, c.until_unix_ms};
    decisions_.take(event_of(c));
  }
  return {};
}

cluster::ClaimMade Claims::event_of(const store::ClaimRecord& record) const {
  cluster::ClaimMade claim{record.name, record.type, record.count};
  if (record.until_unix_ms == 0) return claim;
  claim.begin_s = clock_.time_of(record.from_unix_ms);
  claim.end_s = clock_.time_of(record.until_unix_ms);
  claim.queue = record.queue;
  return claim;
}

Status Claims::claim(const Inbound& request) {
  const auto claim = visit<wire::ClaimDevices>(request, [](wire::ClaimDevices::Reader r) {
    return cluster::ClaimMade{
        name_of(r.getName(), "name"), {name_of(r.getDeviceType(), "device type")}, r.getCount()};
  });
  if (!claim) return claim.error();
  ES_RETURN_IF_ERROR(check_request(*claim));
  // A request without a device type names an existing claim; the type of a claim never changes.
  if (claim->type.name.empty()) return resize({claim->name, claim->count});
  ES_RETURN_IF_ERROR(decisions_.core().check_claim(*claim));
  return save({claim->name, claim->type, claim->count}, *claim);
}

Status Claims::resize(const cluster::ClaimResized& claim) {
  ES_RETURN_IF_ERROR(decisions_.core().check_claim(claim));
  const auto claims = decisions_.core().claims();
  const auto known =
      std::ranges::find(claims, claim.name, [](const auto& view) { return view.name; });
  ES_CHECK(known != claims.end());
  const Time time = time_of(claim.name);
  return save(
      {claim.name, known->type, claim.count, time.from_unix_ms, time.until_unix_ms, known->queue},
      claim);
}

// The queue that the client has named, or that of its tenant.
Result<std::string> Claims::reserved_queue(const std::string& queue,
                                           const std::string& tenant) const {
  if (tenant.empty()) return queue;
  if (!queue.empty())
    return usage_error("queue = \"" + queue + "\" and tenant = \"" + tenant +
                       "\": allowed is one of them");
  std::string found = scheduler::queue_of_job(queues_, "", tenant);
  if (found.empty())
    return usage_error("tenant = \"" + tenant + "\": no queue is that of its jobs; allowed are " +
                       "tenants of the queues of the head (esctl queues)");
  return found;
}

Status Claims::reserve(const Inbound& request) {
  store::ClaimRecord record;
  const auto tenant = visit<wire::ReserveDevices>(request, [&](wire::ReserveDevices::Reader r) {
    record = {name_of(r.getName(), "name"),
              {name_of(r.getDeviceType(), "device type")},
              r.getCount(),
              r.getFromUnixMs(),
              r.getUntilUnixMs(),
              name_of(r.getQueue(), "queue")};
    return name_of(r.getTenant(), "tenant");
  });
  if (!tenant) return tenant.error();
  auto queue = reserved_queue(record.queue, *tenant);
  if (!queue) return queue.error();
  record.queue = *std::move(queue);
  record.from_unix_ms = std::max(record.from_unix_ms, clock_.unix_ms());
  if (record.until_unix_ms <= record.from_unix_ms)
    return usage_error("reservation \"" + record.name +
                       "\": its end is not after its begin and after now");
  const cluster::ClaimMade claim = event_of(record);
  ES_RETURN_IF_ERROR(check_request(claim));
  ES_RETURN_IF_ERROR(decisions_.core().check_claim(claim));
  return save(record, claim);
}

// `record`: the claim after `event`.
Status Claims::save(const store::ClaimRecord& record, const cluster::Event& event) {
  // The claim is durable before Done is sent, so an acknowledged claim survives the head.
  ES_RETURN_IF_ERROR(writes_.checked(journal_.save(record)));
  kill_point("claim.journaled");
  times_[record.name] = {record.from_unix_ms, record.until_unix_ms};
  log::info("claim " + record.name + ": " + record.type.name + ":" + std::to_string(record.count) +
            (record.queue.empty() ? "" : " for queue " + record.queue));
  decisions_.take_now(event);
  return {};
}

// One that a crash leaves in the journal ends again when the next head reads it.
void Claims::ended(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    log::info("reservation " + name + " has ended");
    times_.erase(name);
    writes_.when_possible([this, name] {
      // A claim of the same name may have been made while the write waited.
      return times_.contains(name) ? Status() : journal_.erase(name);
    });
  }
}

Status Claims::release(const Inbound& request) {
  const auto name = visit<wire::ReleaseClaim>(
      request, [](wire::ReleaseClaim::Reader r) { return name_of(r.getName(), "name"); });
  if (!name) return name.error();
  ES_RETURN_IF_ERROR(decisions_.core().check_claim_end(*name));
  // If the end of the claim were not durable, the next head would take devices from jobs for a
  // claim that has ended.
  ES_RETURN_IF_ERROR(writes_.checked(journal_.erase(*name)));
  kill_point("claim.erased");
  times_.erase(*name);
  log::info("claim " + *name + " is released");
  decisions_.take_now(cluster::ClaimEnded{*name});
  return {};
}

Claims::Time Claims::time_of(const std::string& claim) const {
  const auto at = times_.find(claim);
  return at == times_.end() ? Time() : at->second;
}

}  // namespace es::actors
