#include "actors/kubernetes/shell/cluster_actor.h"

#include "actors/kubernetes/core/cluster_objects.h"
#include "actors/kubernetes/core/cluster_status.h"
#include "actors/kubernetes/core/pods.h"
#include "actors/kubernetes/shell/cluster_keys.h"

namespace es::actors::kubernetes {
namespace {

std::chrono::seconds steady_now() {
  return std::chrono::duration_cast<std::chrono::seconds>(
      std::chrono::steady_clock::now().time_since_epoch());
}

}  // namespace

void ClusterState::init(caf::stateful_actor<ClusterState>* self, ControllerOptions options) {
  self_ = self;
  options_ = std::move(options);
  api_ = std::make_unique<KubernetesApi>(options_.place);
}

void ClusterState::look_soon() {
  if (!std::exchange(is_due_, true)) self_->send(self_, LookAgain{});
}

void ClusterState::on_objects(const ObjectsSeen& seen) {
  switch (seen.kind) {
    case ObjectKind::kClusters:
      clusters_ = seen.objects;
      break;
    case ObjectKind::kJobs:
      jobs_ = seen.objects;
      break;
    case ObjectKind::kPods:
      pods_ = seen.objects;
      break;
  }
  look_soon();
}

void ClusterState::on_mandate(const ActsUntil& mandate) {
  mandate_.extend(mandate.until);
  if (mandate_.holds()) return look_soon();
  forget();
  head_seen_.reset();
}

// The next holder decides; what this one remembers may be old when it is the holder again.
void ClusterState::forget() {
  groups_ = {};
  has_keys_ = false;
  applied_.clear();
  status_written_ = Json();
}

void ClusterState::on_head(const HeadSeen& seen) {
  head_seen_ = seen;
  look_soon();
}

void ClusterState::look() {
  is_due_ = false;
  if (!mandate_.holds() || !clusters_ || !jobs_ || !pods_) return;
  const auto cluster = clusters_->find(options_.cluster);
  if (cluster == clusters_->end() || is_being_deleted(*cluster->second)) return forget();
  // What failed is tried again with the next facts of the head.
  trouble_.note(look_after(*cluster->second));
}

Status ClusterState::look_after(const Json& cluster) {
  ES_RETURN_IF_ERROR(make_objects(cluster));
  if (!head_seen_) return {};
  Status done;
  if (head_seen_->facts) done = look_after_agents(cluster, *head_seen_->facts);
  const Status written = write_status(cluster);
  return done.ok() ? written : done;
}

Status ClusterState::make_objects(const Json& cluster) {
  if (!has_keys_) ES_RETURN_IF_ERROR(make_keys());
  ES_RETURN_IF_ERROR(apply_once(core_path(options_, "services"), head_service(cluster)));
  return apply_once("/apis/apps/v1/namespaces/" + options_.place.name_space + "/statefulsets",
                    head_set(cluster));
}

// The Secret is made once and never changed: all pods of the cluster have its keys. It outlives the
// cluster, as the volume of its head does.
Status ClusterState::make_keys() {
  const std::string name = keys_name(options_.cluster);
  const auto found = api_->get(core_path(options_, "secrets/" + name));
  if (!found && found.error().kind != ErrorKind::kNotFound) return found.error();
  if (!found) {
    const auto texts = new_cluster_keys();
    if (!texts) return texts.error();
    const Json secret{
        {"apiVersion", "v1"},
        {"kind", "Secret"},
        {"metadata", {{"name", name}, {"labels", {{kClusterLabel, options_.cluster}}}}},
        {"type", "Opaque"},
        {"stringData", *texts}};
    const auto made = api_->create(core_path(options_, "secrets"), secret);
    if (!made) return made.error();
  }
  has_keys_ = true;
  return {};
}

Status ClusterState::apply_once(const std::string& collection, const Json& object) {
  const std::string path = collection + "/" + kubernetes::name_of(object), text = object.dump();
  const auto before = applied_.find(path);
  if (before != applied_.end() && before->second == text) return {};
  const auto done = api_->apply(path, object);
  if (!done) return done.error();
  applied_[path] = text;
  return {};
}

Status ClusterState::look_after_agents(const Json& cluster, const HeadFacts& head) {
  std::vector<const Json*> jobs, agents;
  for (const auto& [name, job] : *jobs_)
    if (cluster_of(*job) == options_.cluster) jobs.push_back(job.get());
  for (const auto& [name, pod] : *pods_)
    if (component_of(*pod) == "agent") agents.push_back(pod.get());
  const auto orders = groups_.decide(cluster, jobs, agents, head, steady_now());
  for (const auto& [pod, why] : orders.end) {
    log::info("ends the agent " + pod + ": " + why);
    ES_RETURN_IF_ERROR(api_->remove(core_path(options_, "pods/" + pod)));
  }
  for (const Json& pod : orders.make) {
    const auto made = api_->create(core_path(options_, "pods"), pod);
    // It exists already: the watch is late.
    if (!made && made.error().kind != ErrorKind::kRefused) return made.error();
    if (made) log::info("asks for the agent " + kubernetes::name_of(pod));
  }
  return {};
}

Status ClusterState::write_status(const Json& cluster) {
  const Json status =
      cluster_status(cluster, head_seen_->facts.get(), head_seen_->trouble, clock_text());
  if (status == value_at(cluster, {"status"}, Json()) || status == status_written_) return {};
  const auto written =
      api_->apply(own_path(options_, "easyscaleclusters/" + options_.cluster + "/status"),
                  {{"apiVersion", kApiVersion},
                   {"kind", "EasyScaleCluster"},
                   {"metadata", {{"name", options_.cluster}}},
                   {"status", status}});
  if (!written) return written.error();
  status_written_ = status;
  return {};
}

caf::behavior cluster_actor(caf::stateful_actor<ClusterState>* self, ControllerOptions options) {
  self->state.init(self, std::move(options));
  return {
      [=](const ObjectsSeen& seen) { self->state.on_objects(seen); },
      [=](const ActsUntil& mandate) { self->state.on_mandate(mandate); },
      [=](const HeadSeen& seen) { self->state.on_head(seen); },
      [=](const LookAgain&) { self->state.look(); },
  };
}

}  // namespace es::actors::kubernetes
