// HttpActor: nodes, claims, suspect devices and metrics.
#include <caf/all.hpp>
#include <nlohmann/json.hpp>

#include <chrono>
#include <map>
#include <set>

#include "actors/base/access/core/requests.h"
#include "actors/base/log/line.h"
#include "actors/service/answers/otlp.h"
#include "actors/service/shell/http_ask.h"
#include "actors/views/render_json.h"

namespace es::actors::http {
namespace {

constexpr std::chrono::seconds kSampleTime{10};
// The jobs that are not over.
constexpr char kLiveJobs[] = "live";

std::string device_name(const std::string& type, std::uint32_t index) {
  return type + "#" + std::to_string(index);
}

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
          auto nodes = read_nodes(r);
          for (NodeView& node : nodes)
            for (DeviceView& device : node.devices)
              if (!device.job.empty() && !hidden.shows(device.job))
                device.job = access::kOtherTenant;
          return Response{.body = nodes_json(nodes, line_of(r.getWarning())) + "\n"};
        });
  });
}

void HttpState::claims(const Caller& caller) {
  with_jobs(caller, live_jobs(caller.identity), [this, caller](const JobList& list) {
    ask<wire::NodeList, wire::ListNodes>(
        caller, {}, [](wire::ListNodes::Builder) {},
        [hidden = Hidden(caller.identity, list.jobs)](wire::NodeList::Reader r) {
          auto claims = read_claims(r);
          for (ClaimView& claim : claims)
            for (ClaimWaitView& wait : claim.waits)
              if (!hidden.shows(wait.job)) {
                wait.job = access::kOtherTenant;
                wait.reason.clear();
              }
          return Response{.body = claims_json(claims) + "\n"};
        });
  });
}

// Jobs of other tenants are no part of the list.
void HttpState::cluster(const Caller& caller) {
  with_jobs(caller, live_jobs(caller.identity), [this, caller](const JobList& list) {
    finish(caller, {.body = cluster_json(utilisation_.points(), list.jobs)});
  });
}

void HttpState::node_history(const Caller& caller) {
  ask<wire::NodeList, wire::ListNodes>(
      caller, {}, [](wire::ListNodes::Builder) {},
      [this, caller](wire::NodeList::Reader r) {
        const std::string& name = caller.argument;
        for (const NodeView& node : read_nodes(r))
          if (node.name == name)
            return Response{.body = node_history_json(name, device_history_.of_node(name),
                                                      caller.identity.tenant.empty())};
        return error_response(404, "node \"" + escaped(name) + "\": the head knows no such node");
      });
}

void HttpState::on_sample() {
  self_->delayed_send(self_, kSampleTime, HttpSample{});
  post<wire::ListNodes>(
      {}, [](wire::ListNodes::Builder) {}, kSampleTime,
      [this](const FrameResult& frame) {
        if (!frame) return;
        const auto message = Msg<wire::NodeList>::from_frame(*frame);
        const auto nodes =
            message ? message->decode(read_nodes) : Result<std::vector<NodeView>>(message.error());
        if (!nodes) return;
        std::uint32_t busy = 0, devices = 0;
        for (const NodeView& node : *nodes) {
          if (!node.alive) continue;
          for (const DeviceView& device : node.devices) {
            ++devices;
            if (!device.job.empty()) ++busy;
          }
        }
        utilisation_.add(options_.unix_ms(), busy, devices);
        note_devices(*nodes);
      });
}

// What their workers have measured is known to the jobs.
void HttpState::note_devices(const std::vector<NodeView>& nodes) {
  post<wire::ListJobs>(
      {}, [](wire::ListJobs::Builder b) { b.setState(kLiveJobs); }, kSampleTime,
      [this, nodes](const FrameResult& frame) {
        const auto list = frame ? read_job_list(*frame) : Result<JobList>(frame.error());
        if (!list) return;
        const std::uint64_t now = options_.unix_ms();
        std::map<DeviceHistory::Key, DeviceSample> measured;
        for (const JobView& job : list->jobs)
          for (const WorkerView& w : job.workers) {
            const DeviceHistory::Key key{w.node, device_name(w.device_type, w.device_index)};
            DeviceSample& sample = measured[key];
            sample.computing = computing_share(job, w);
            if (w.peak_rss_mib > 0) sample.peak_rss_mib = w.peak_rss_mib;
            sample.sent_bytes_ps = device_history_.rate(key, {w.incarnation, now, w.sent_bytes});
          }
        std::set<DeviceHistory::Key> known;
        for (const NodeView& node : nodes)
          for (const DeviceView& device : node.devices) {
            const DeviceHistory::Key key{node.name, device_name(device.type, device.index)};
            known.insert(key);
            DeviceSample sample = measured[key];
            sample.held = !device.job.empty();
            if (node.alive) device_history_.add(key, now, sample);
          }
        device_history_.keep_only(known);
      });
}

// A reader with a tenant sees the queues that its jobs may be in, and those above them.
void HttpState::queues(const Caller& caller) {
  ask<wire::NodeList, wire::ListNodes>(
      caller, {}, [](wire::ListNodes::Builder) {},
      [tenant = caller.identity.tenant](wire::NodeList::Reader r) {
        return Response{.body = queues_json(queues_for(read_queues(r), tenant)) + "\n"};
      });
}

void HttpState::make_claim(const Caller& caller) {
  const auto body =
      read_body(caller.request, {"type", "count", "from", "until", "queue", "tenant"});
  if (!body) return finish(caller, error_response(body.error()));
  for (const char* field : {"from", "until", "queue", "tenant"})
    if (body->contains(field)) return make_reservation(caller);
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

// A claim with a time.
void HttpState::make_reservation(const Caller& caller) {
  const auto body =
      read_body(caller.request, {"type", "count", "from", "until", "queue", "tenant"});
  const auto count = number_field(*body, "count");
  if (!count) return finish(caller, error_response(count.error()));
  std::map<std::string, std::string> text;
  for (const char* field : {"type", "from", "until", "queue", "tenant"}) {
    auto line = line_field(*body, field);
    if (!line) return finish(caller, error_response(line.error()));
    text[field] = *std::move(line);
  }
  std::map<std::string, std::uint64_t> unix_ms;
  for (const std::string field : {"from", "until"}) {
    if (text[field].empty() && field == "from") continue;  // now
    const auto time = log::parse_time(text[field]);
    if (!time)
      return finish(
          caller,
          error_response(usage_error(field + " = \"" + text[field] +
                                     "\": allowed is a time in UTC such as 2026-11-22T17:31:02Z")));
    unix_ms[field] = static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::milliseconds>(time->time_since_epoch()).count());
  }
  command<wire::ReserveDevices>(caller, {}, [&](wire::ReserveDevices::Builder b) {
    b.setName(caller.argument);
    b.setDeviceType(text["type"]);
    b.setCount(static_cast<std::uint32_t>(*count));
    b.setFromUnixMs(unix_ms["from"]);
    b.setUntilUnixMs(unix_ms["until"]);
    b.setQueue(text["queue"]);
    b.setTenant(text["tenant"]);
  });
}

void HttpState::vacate_node(const Caller& caller) {
  const auto body = read_body(caller.request, {"seconds", "cancel"});
  if (!body) return finish(caller, error_response(body.error()));
  const auto seconds = number_field(*body, "seconds");
  const auto cancel = flag_field(*body, "cancel");
  if (!seconds) return finish(caller, error_response(seconds.error()));
  if (!cancel) return finish(caller, error_response(cancel.error()));
  command<wire::VacateNode>(caller, {}, [&](wire::VacateNode::Builder b) {
    b.setNode(caller.argument);
    b.setSeconds(static_cast<double>(*seconds));
    b.setCancel(*cancel);
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

void HttpState::answer_metrics(const Caller& caller, const MetricFamilies& families) {
  if (!caller.otlp && accepts_openmetrics(caller.request.accept))
    return finish(caller, {.content_type = kOpenMetricsType, .body = openmetrics_text(families)});
  if (!caller.otlp)
    return finish(caller, {.content_type = kMetricsType, .body = metrics_text(families)});
  finish(caller,
         {.body = otlp_json(families, {.instance = options_.instance,
                                       .start_unix_s = options_.process().start_unix_seconds,
                                       .unix_ms = options_.unix_ms()})});
}

void HttpState::metrics(const Caller& caller) {
  if (options_.metrics_only)
    return answer_metrics(caller, node_metrics(options_.process(), requests_));
  with_jobs(caller, live_jobs(caller.identity), [this, caller](const JobList& list) {
    Snapshot snapshot{.states = list.states,
                      .jobs = list.jobs,
                      .unix_ms = options_.unix_ms(),
                      .warning = list.warning,
                      .process = options_.process(),
                      .requests = requests_};
    post<wire::ListNodes>(
        {}, [](wire::ListNodes::Builder) {}, std::chrono::seconds(60),
        [this, caller, snapshot = std::move(snapshot)](const FrameResult& frame) {
          if (!frame) return finish(caller, error_response(frame.error()));
          const auto message = Msg<wire::NodeList>::from_frame(*frame);
          if (!message) return finish(caller, error_response(message.error()));
          const auto whole = message->decode([&](wire::NodeList::Reader r) {
            Snapshot all = snapshot;
            all.nodes = read_nodes(r);
            all.claims = read_claims(r);
            all.decisions = read_decision_times(r);
            return all;
          });
          if (!whole) return finish(caller, error_response(whole.error()));
          answer_metrics(caller, metrics_of(*whole));
        });
  });
}

}  // namespace es::actors::http
