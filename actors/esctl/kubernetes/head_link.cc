#include "actors/esctl/kubernetes/head_link.h"

#include <cmath>

#include "actors/esctl/client/cluster_facts.h"
#include "actors/esctl/client/requests.h"
#include "proto/text_of.h"

namespace es::actors::esctl {
namespace {

// How long a refusal of a request with a late answer is waited for.
constexpr std::chrono::seconds kRefusalTimeout{1};

kubernetes::HeadJob job_of(const JobView& view) {
  kubernetes::HeadJob job{.id = view.id,
                          .state = view.state,
                          .step = view.step,
                          .last_step = view.last_step,
                          .placement = view.placement,
                          .digest = view.params_digest,
                          .devices_wanted = view.devices_wanted,
                          .error = view.error,
                          .waiting_for = view.waiting_for};
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
    const auto jobs = list_jobs(*client_);
    if (!jobs) return jobs.error();
    const auto nodes = list_nodes(*client_);
    if (!nodes) return nodes.error();
    kubernetes::HeadFacts facts;
    for (const JobView& view : jobs->jobs) facts.jobs[view.id] = job_of(view);
    for (const NodeView& view : nodes->nodes)
      if (view.alive) facts.nodes[view.name] = node_of(view);
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

  Status scale(const std::string& job, const std::string& demand) override {
    const std::string devices = demand == "auto" ? "" : demand;
    return begin<wire::ScaleJob>(job, [&](wire::ScaleJob::Builder b) { b.setDevices(devices); });
  }

  Status resume(const std::string& job) override {
    const auto done = resume_job(*client_, job, false);
    return done ? Status() : done.error();
  }

  Status pause(const std::string& job) override {
    return begin<wire::PauseJob>(job, [](wire::PauseJob::Builder) {});
  }
  Status cancel(const std::string& job) override {
    return begin<wire::CancelJob>(job, [](wire::CancelJob::Builder) {});
  }

  Result<std::string> why_waits(const std::string& job) override {
    const auto facts = cluster_facts(*client_, job);
    if (!facts) return facts.error();
    std::string text;
    for (const Reason& reason : reasons_of_wait(*facts))
      text += (text.empty() ? "" : " ") + reason.text;
    return text;
  }

 private:
  // The head answers when the job has stopped, or has its new devices, but it refuses at once.
  template <class Request, class Fill>
  Status begin(const std::string& job, Fill&& fill) {
    const auto done = client_->ask<wire::Done, Request>(job, fill, kRefusalTimeout);
    return done || client_->unanswered() ? Status() : done.error();
  }

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
