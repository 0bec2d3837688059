#include "actors/esctl/kubernetes/head_link.h"

#include <cmath>

#include "actors/base/job_file/job_file.h"
#include "actors/base/protocol/core/turn_text.h"
#include "actors/esctl/client/requests.h"
#include "actors/views/explain.h"
#include "proto/text_of.h"

namespace es::actors::esctl {
namespace {

kubernetes::HeadJob job_of(const JobView& view) {
  kubernetes::HeadJob job{.id = view.id,
                          .state = view.state,
                          .step = view.step,
                          .last_step = view.last_step,
                          .placement = view.placement,
                          .digest = view.params_digest,
                          .devices_wanted = view.devices_wanted,
                          .error = view.error,
                          .waiting_for = view.waiting_for,
                          .waits = {}};
  if (const auto devices = parse_device_set(view.placement)) job.devices = devices->total();
  if (!std::isnan(view.loss_last)) job.loss = fixed(view.loss_last, 6);
  return job;
}

kubernetes::HeadNode node_of(const NodeView& view) {
  kubernetes::HeadNode node{.draining = view.draining,
                            .devices = static_cast<std::uint32_t>(view.devices.size())};
  for (const DeviceView& device : view.devices) node.devices_in_use += device.job.empty() ? 0 : 1;
  return node;
}

class ClientLink final : public kubernetes::HeadLink {
 public:
  explicit ClientLink(std::unique_ptr<Client> client) : client_(std::move(client)) {}

  Result<kubernetes::HeadFacts> look() override {
    auto jobs = list_jobs(*client_);
    if (!jobs) return jobs.error();
    auto nodes = list_nodes(*client_);
    if (!nodes) return nodes.error();
    kubernetes::HeadFacts facts;
    for (const JobView& view : jobs->jobs) facts.jobs[view.id] = job_of(view);
    ClusterFacts around{.job = {},
                        .spec = {},
                        .jobs = std::move(jobs->jobs),
                        .nodes = std::move(nodes->nodes),
                        .claims = std::move(nodes->claims),
                        .queues = std::move(nodes->queues)};
    explain_waits(around, facts);
    for (const NodeView& view : around.nodes) {
      if (!view.alive) continue;
      facts.nodes[view.name] = node_of(view);
      for (const DeviceView& device : view.devices)
        if (const auto job = facts.jobs.find(device.job); job != facts.jobs.end())
          ++job->second.holds;
    }
    for (const ClaimView& claim : around.claims)
      if (claim.begun && claim.queue.empty())
        facts.claims[claim.name] = {.type = claim.type, .devices = claim.count};
    return facts;
  }

  Result<std::string> submit(const JobSpec& spec, const std::string& request_id) override {
    return submit_job(*client_, spec, {}, request_id);
  }

  // The head answers a request with a known id before it reads the job. It refuses an empty one.
  Result<std::string> made_by(const std::string& request_id) override {
    const auto made = client_->ask<wire::JobAccepted, wire::SubmitJob>(
        {}, [&](wire::SubmitJob::Builder b) { b.setRequestId(request_id); });
    if (!made && made.error().kind != ErrorKind::kFailure) return std::string();
    if (!made) return made.error();
    return made->decode([](wire::JobAccepted::Reader r) { return name_of(r.getJob(), "job"); });
  }

  std::uint64_t ask(const std::string& job, const kubernetes::JobOrder& order) override {
    using kubernetes::JobStep;
    switch (order.step) {
      case JobStep::kPause:
        return client_->post<wire::PauseJob>(job, [](wire::PauseJob::Builder) {});
      case JobStep::kResume:
        return client_->post<wire::ResumeJob>(job, [](wire::ResumeJob::Builder) {});
      case JobStep::kCancel:
        return client_->post<wire::CancelJob>(job, [](wire::CancelJob::Builder) {});
      default:
        return client_->post<wire::ScaleJob>(job, [&](wire::ScaleJob::Builder b) {
          b.setDevices(order.demand == kubernetes::kAuto ? "" : order.demand);
        });
    }
  }

  std::optional<Status> answer_to(std::uint64_t request) override {
    const auto done = client_->arrived<wire::Done>(request);
    if (!done) return {};
    return *done ? Status() : Status(done->error());
  }

 private:
  // Says of each queued job why it waits. What it needs comes from its specification, which never
  // changes, and from the lists that are there, so that a queue of any length costs few requests.
  void explain_waits(ClusterFacts& around, kubernetes::HeadFacts& facts) {
    std::erase_if(specs_, [&](const auto& entry) {
      const auto job = facts.jobs.find(entry.first);
      return job == facts.jobs.end() || job->second.state != "queued";
    });
    for (const JobView& view : around.jobs) {
      if (view.state != "queued") continue;
      around.job = view;
      // The list says whose turn it is in the place of what the job needs.
      const bool is_hidden = view.waiting_for.starts_with(kTurn);
      if ((is_hidden || !specs_.contains(view.id)) && !describe(view.id, around.job)) continue;
      around.spec = specs_.at(view.id);
      facts.jobs[view.id].waits = text_of(reasons_of_wait(around));
    }
  }

  // Whether the head says it now.
  bool describe(const JobId& id, JobView& job) {
    const auto details = describe_job(*client_, id);
    if (!details) return false;
    auto spec = parse_job(details->spec_toml, "the job");
    if (!spec) return false;
    job = details->job;
    specs_.insert_or_assign(id, *std::move(spec));
    return true;
  }

  // Without the number of jobs that wait, too: each new one would change the objects of all others.
  static std::string text_of(const std::vector<Reason>& reasons) {
    std::string text;
    for (const Reason& reason : reasons)
      if (reason.kind != "queue") text += (text.empty() ? "" : " ") + reason.text;
    return text;
  }

  std::map<JobId, JobSpec> specs_;  // of queued jobs
  std::unique_ptr<Client> client_;
};

}  // namespace

Result<std::unique_ptr<kubernetes::HeadLink>> connect_head_link(const std::string& endpoint,
                                                                const ClusterKeys& keys,
                                                                const Interrupt& interrupt) {
  auto client = Client::connect({.endpoint = endpoint, .keys = keys}, interrupt);
  if (!client) return client.error();
  return std::unique_ptr<kubernetes::HeadLink>(std::make_unique<ClientLink>(*std::move(client)));
}

}  // namespace es::actors::esctl
