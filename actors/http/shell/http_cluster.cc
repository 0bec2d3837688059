// HttpActor: nodes, claims, suspect devices and metrics.
#include <caf/all.hpp>
#include <nlohmann/json.hpp>

#include <set>

#include "actors/access/core/requests.h"
#include "actors/esctl/views/render_json.h"
#include "actors/http/shell/http_ask.h"

namespace es::actors::http {
namespace {

// Hides the jobs that a reader with a tenant does not see. `own` are the live jobs of this tenant.
// Only live jobs hold devices.
class Hidden {
 public:
  Hidden(const Identity& reader, const std::vector<JobView>& own) : all_(reader.tenant.empty()) {
    if (all_) return;
    for (const JobView& job : own) own_.insert(job.id);
  }
  bool shows(const std::string& job) const { return all_ || own_.contains(job); }

 private:
  bool all_;
  std::set<std::string> own_;
};

}  // namespace

// Jobs of other tenants hold devices too, but their names stay unknown.
void HttpState::nodes(const Caller& caller) {
  with_jobs(caller, live_jobs(caller.identity), [this, caller](const JobList& list) {
    ask<wire::NodeList, wire::ListNodes>(
        caller, {}, [](wire::ListNodes::Builder) {},
        [hidden = Hidden(caller.identity, list.jobs)](wire::NodeList::Reader r) {
          auto nodes = esctl::read_nodes(r);
          for (esctl::NodeView& node : nodes)
            for (esctl::DeviceView& device : node.devices)
              if (!device.job.empty() && !hidden.shows(device.job))
                device.job = access::kOtherTenant;
          return Response{.body = esctl::nodes_json(nodes, line_of(r.getWarning())) + "\n"};
        });
  });
}

void HttpState::claims(const Caller& caller) {
  with_jobs(caller, live_jobs(caller.identity), [this, caller](const JobList& list) {
    ask<wire::NodeList, wire::ListNodes>(
        caller, {}, [](wire::ListNodes::Builder) {},
        [hidden = Hidden(caller.identity, list.jobs)](wire::NodeList::Reader r) {
          auto claims = esctl::read_claims(r);
          for (esctl::ClaimView& claim : claims)
            for (esctl::ClaimWaitView& wait : claim.waits)
              if (!hidden.shows(wait.job)) {
                wait.job = access::kOtherTenant;
                wait.reason.clear();
              }
          return Response{.body = esctl::claims_json(claims) + "\n"};
        });
  });
}

// A reader with a tenant sees the queues that its jobs may be in, and those above them.
void HttpState::queues(const Caller& caller) {
  ask<wire::NodeList, wire::ListNodes>(
      caller, {}, [](wire::ListNodes::Builder) {},
      [tenant = caller.identity.tenant](wire::NodeList::Reader r) {
        return Response{
            .body = esctl::queues_json(esctl::queues_for(esctl::read_queues(r), tenant)) + "\n"};
      });
}

void HttpState::make_claim(const Caller& caller) {
  const auto body = read_body(caller.request, {"type", "count"});
  if (!body) return finish(caller, error_response(body.error()));
  const auto type = line_field(*body, "type");
  const auto count = number_field(*body, "count");
  if (!type) return finish(caller, error_response(type.error()));
  if (!count) return finish(caller, error_response(count.error()));
  command<wire::ClaimDevices>(caller, {}, [&](wire::ClaimDevices::Builder b) {
    b.setName(caller.argument);
    b.setDeviceType(*type);
    b.setCount(static_cast<std::uint32_t>(*count));
  });
}

void HttpState::clear_device(const Caller& caller) {
  const auto body = read_body(caller.request, {"node", "type", "index"});
  if (!body) return finish(caller, error_response(body.error()));
  const auto node = line_field(*body, "node");
  const auto type = line_field(*body, "type");
  const auto index = number_field(*body, "index");
  if (!node) return finish(caller, error_response(node.error()));
  if (!type) return finish(caller, error_response(type.error()));
  if (!index) return finish(caller, error_response(index.error()));
  command<wire::ClearDevice>(caller, {}, [&](wire::ClearDevice::Builder b) {
    auto device = b.initDevice();
    device.setNode(*node);
    device.setType(*type);
    device.setIndex(static_cast<std::uint32_t>(*index));
  });
}

void HttpState::metrics(const Caller& caller) {
  if (options_.metrics_only)
    return finish(caller, {.content_type = kMetricsType,
                           .body = node_metrics_text(options_.process(), requests_)});
  with_jobs(caller, live_jobs(caller.identity), [this, caller](const JobList& list) {
    Snapshot snapshot{.states = list.states,
                      .jobs = list.jobs,
                      .warning = list.warning,
                      .process = options_.process(),
                      .requests = requests_};
    ask<wire::NodeList, wire::ListNodes>(
        caller, {}, [](wire::ListNodes::Builder) {},
        [snapshot = std::move(snapshot)](wire::NodeList::Reader r) {
          Snapshot whole = snapshot;
          whole.nodes = esctl::read_nodes(r);
          whole.claims = esctl::read_claims(r);
          return Response{.content_type = kMetricsType, .body = metrics_text(whole)};
        });
  });
}

}  // namespace es::actors::http
