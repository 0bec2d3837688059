#include "actors/kubernetes/shell/controller.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <ctime>
#include <set>

#include "actors/base/log/log.h"
#include "actors/kubernetes/core/cluster_objects.h"
#include "actors/kubernetes/core/job_text.h"
#include "actors/kubernetes/shell/cluster_keys.h"

namespace es::actors::kubernetes {
namespace {

using std::chrono::seconds;

// The time between two looks if nothing changes.
constexpr int kLookMs = 1000;
// The pause before a request that was refused, or whose effect is not seen, is made again.
constexpr seconds kAskAgain{5}, kStopAgain{30};

std::string clock_text(const char* format = "%Y-%m-%dT%H:%M:%SZ") {
  const std::time_t now = std::time(nullptr);
  std::array<char, 40> text{};
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  std::strftime(text.data(), text.size(), format, &utc);
  return text.data();
}

seconds steady_now() {
  return std::chrono::duration_cast<seconds>(std::chrono::steady_clock::now().time_since_epoch());
}

bool is_ready(const Json& pod) {
  for (const Json& condition : value_at(pod, {"status", "conditions"}, Json::array()))
    if (text_at(condition, {"type"}) == "Ready") return text_at(condition, {"status"}) == "True";
  return false;
}

std::string component_of(const Json& pod) {
  return text_at(pod, {"metadata", "labels", kComponentLabel});
}

}  // namespace

Controller::Controller(InCluster place, ControllerOptions options, ConnectHead connect)
    : place_(std::move(place)),
      options_(std::move(options)),
      connect_(std::move(connect)),
      api_(place_),
      lease_(options_.identity),
      changed_fd_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  const auto changed = [fd = changed_fd_] { ::eventfd_write(fd, 1); };
  clusters_ = std::make_unique<ObjectWatch>(place_, own_path("easyscaleclusters"), "", changed);
  job_objects_ =
      std::make_unique<ObjectWatch>(place_, own_path("elastictrainingjobs"), "", changed);
  pods_ = std::make_unique<ObjectWatch>(
      place_, core_path("pods"), std::string(kClusterLabel) + "=" + options_.cluster, changed);
}

Controller::~Controller() {
  pods_.reset();
  job_objects_.reset();
  clusters_.reset();
  ::close(changed_fd_);
}

std::string Controller::core_path(const std::string& kind) const {
  return "/api/v1/namespaces/" + place_.name_space + "/" + kind;
}

std::string Controller::own_path(const std::string& kind) const {
  return std::string("/apis/") + kApiVersion + "/namespaces/" + place_.name_space + "/" + kind;
}

void Controller::run(const StopRequest& stop) {
  log::info("the controller of the cluster " + options_.cluster + " in the namespace " +
            place_.name_space + " begins as " + options_.identity);
  while (!stop.requested()) {
    look();
    wait(stop);
  }
  give_lease_back();
  log::info("the controller ends; jobs train on");
}

void Controller::wait(const StopRequest& stop) {
  std::array<pollfd, 2> fds{{{changed_fd_, POLLIN, 0}, {stop.fd, POLLIN, 0}}};
  ::poll(fds.data(), fds.size(), kLookMs);
  eventfd_t count = 0;
  ::eventfd_read(changed_fd_, &count);
}

void Controller::look() {
  const bool acts = keep_lease();
  if (acts != acts_) log::info(acts ? "this controller acts now" : "another controller acts now");
  acts_ = acts;
  if (!acts) {
    // The next holder decides; what this one remembers may be old when it is the holder again.
    link_.reset();
    jobs_.clear();
    planners_.clear();
    applied_.clear();
    cluster_status_written_ = Json();
    return;
  }
  say_trouble(work());
}

void Controller::say_trouble(const Status& status) {
  const std::string trouble = status.ok() ? std::string() : status.error().message;
  if (!trouble.empty() && trouble != trouble_) log::warning("tried again: " + trouble);
  trouble_ = trouble;
}

bool Controller::keep_lease() {
  const auto now = Clock::now();
  if (lease_.is_fresh(now)) return true;
  const std::string leases =
      "/apis/coordination.k8s.io/v1/namespaces/" + place_.name_space + "/leases";
  const std::string name = options_.cluster + "-controller";
  const auto found = api_.get(leases + "/" + name);
  if (!found && found.error().kind != ErrorKind::kNotFound) {
    say_trouble(found.error());
    return lease_.holds(Clock::now());
  }
  auto lease = lease_.decide(found ? std::optional<Json>(*found) : std::nullopt, now,
                             clock_text("%Y-%m-%dT%H:%M:%S.000000Z"));
  if (!lease) return false;
  (*lease)["apiVersion"] = "coordination.k8s.io/v1";
  (*lease)["kind"] = "Lease";
  (*lease)["metadata"]["name"] = name;
  const auto written =
      found ? api_.replace(leases + "/" + name, *lease) : api_.create(leases, *lease);
  if (written)
    lease_.written(now);
  else if (written.error().kind == ErrorKind::kRefused)
    lease_.lost();
  else
    say_trouble(written.error());
  return lease_.holds(Clock::now());
}

void Controller::give_lease_back() {
  if (!lease_.holds(Clock::now())) return;
  const std::string path = "/apis/coordination.k8s.io/v1/namespaces/" + place_.name_space +
                           "/leases/" + options_.cluster + "-controller";
  auto lease = api_.get(path);
  if (!lease || text_at(*lease, {"spec", "holderIdentity"}) != options_.identity) return;
  (*lease)["spec"]["holderIdentity"] = "";
  if (const auto given = api_.replace(path, *lease); !given) say_trouble(given.error());
}

Status Controller::work() {
  const auto clusters = clusters_->objects();
  const auto jobs = job_objects_->objects();
  const auto pods = pods_->objects();
  if (!clusters || !jobs || !pods) return {};
  Objects own;
  for (const auto& [name, job] : *jobs)
    if (value_at(job, {"spec", "cluster"}, std::string(kDefaultCluster)) == options_.cluster)
      own.emplace(name, job);
  std::set<std::string> uids;
  for (const auto& [name, job] : own) uids.insert(text_at(job, {"metadata", "uid"}));
  std::erase_if(jobs_, [&](const auto& entry) { return !uids.contains(entry.first); });
  const auto cluster = clusters->find(options_.cluster);
  if (cluster != clusters->end() && !is_being_deleted(cluster->second))
    return look_after(cluster->second, own, *pods);
  link_.reset();
  Status first;
  for (const auto& [name, job] : own) {
    // Without its cluster a job has nothing that could be drained.
    const Status done =
        is_being_deleted(job) && cluster == clusters->end()
            ? carry_out(job, next_step(job, nullptr, ""), jobs_[text_at(job, {"metadata", "uid"})])
            : look_after_job(job, nullptr, "");
    if (first.ok()) first = done;
  }
  return first;
}

Status Controller::look_after(const Json& cluster, const Objects& jobs, const Objects& pods) {
  ES_RETURN_IF_ERROR(make_objects(cluster));
  const auto head = ask_head(cluster, pods);
  if (!head) link_.reset();
  Status first = head ? Status() : Status(head.error());
  const auto note = [&first](const Status& status) {
    if (first.ok()) first = status;
  };
  const auto groups = groups_of(cluster);
  std::vector<const Json*> job_list, agents;
  for (const auto& [name, job] : jobs) {
    job_list.push_back(&job);
    note(look_after_job(job, head ? &*head : nullptr,
                        groups.empty() ? std::string() : groups.front().device_type));
  }
  for (const auto& [name, pod] : pods)
    if (component_of(pod) == "agent") agents.push_back(&pod);
  // Only the head knows which agents are idle.
  if (head) note(look_after_agents(cluster, job_list, agents, *head));
  const Json status = cluster_status(cluster, head ? &*head : nullptr,
                                     head ? "" : head.error().message, clock_text());
  if (status != value_at(cluster, {"status"}, Json()) && status != cluster_status_written_) {
    const auto written = api_.apply(own_path("easyscaleclusters/" + options_.cluster + "/status"),
                                    {{"apiVersion", kApiVersion},
                                     {"kind", "EasyScaleCluster"},
                                     {"metadata", {{"name", options_.cluster}}},
                                     {"status", status}});
    if (written) cluster_status_written_ = status;
    note(written ? Status() : Status(written.error()));
  }
  return first;
}

// The Secret is made once and never changed: all pods of the cluster have its keys.
Status Controller::make_objects(const Json& cluster) {
  const std::string keys = core_path("secrets/" + keys_name(options_.cluster));
  if (!applied_.contains(keys)) {
    const auto found = api_.get(keys);
    if (!found && found.error().kind != ErrorKind::kNotFound) return found.error();
    if (!found) {
      const auto texts = new_cluster_keys();
      if (!texts) return texts.error();
      // The Secret outlives the cluster, as the volume of its head does.
      Json secret{{"apiVersion", "v1"},
                  {"kind", "Secret"},
                  {"metadata",
                   {{"name", keys_name(options_.cluster)},
                    {"labels", {{kClusterLabel, options_.cluster}}}}},
                  {"type", "Opaque"},
                  {"stringData", *texts}};
      if (const auto made = api_.create(core_path("secrets"), secret); !made) return made.error();
    }
    applied_[keys] = "";
  }
  ES_RETURN_IF_ERROR(apply_once(core_path("services"), head_service(cluster)));
  return apply_once("/apis/apps/v1/namespaces/" + place_.name_space + "/statefulsets",
                    head_set(cluster));
}

Status Controller::apply_once(const std::string& collection, const Json& object) {
  const std::string path = collection + "/" + kubernetes::name_of(object), text = object.dump();
  const auto before = applied_.find(path);
  if (before != applied_.end() && before->second == text) return {};
  const auto done = api_.apply(path, object);
  if (!done) return done.error();
  applied_[path] = text;
  return {};
}

Result<HeadFacts> Controller::ask_head(const Json& cluster, const Objects& pods) {
  bool ready = false;
  for (const auto& [name, pod] : pods)
    ready = ready || (component_of(pod) == "head" && is_ready(pod) && !is_being_deleted(pod));
  if (!ready) return failure("the pod " + options_.cluster + "-head-0 is not ready");
  if (!link_) {
    const auto secret = api_.get(core_path("secrets/" + keys_name(options_.cluster)));
    if (!secret) return secret.error();
    const auto keys = client_keys(value_at(*secret, {"data"}, Json::object()));
    if (!keys) return keys.error();
    auto link = connect_(head_endpoint(cluster), *keys);
    if (!link) return link.error();
    link_ = *std::move(link);
  }
  return link_->look();
}

Status Controller::look_after_job(const Json& object, const HeadFacts* head,
                                  const std::string& first_type) {
  JobMemory& memory = jobs_[text_at(object, {"metadata", "uid"})];
  // What was done already, and the watch has not shown yet.
  Json job = object;
  if (!memory.report.job.empty()) job["status"]["job"] = memory.report.job;
  if (!memory.report.demand.empty()) job["status"]["demand"] = memory.report.demand;
  const auto known_of = [&]() -> const HeadJob* {
    if (head == nullptr) return nullptr;
    const auto found = head->jobs.find(text_at(job, {"status", "job"}));
    return found == head->jobs.end() ? nullptr : &found->second;
  };
  const HeadJob* known = known_of();
  Status done;
  if (head != nullptr) {
    const JobOrder order = next_step(job, known, first_type);
    done = carry_out(job, order, memory);
    if (order.step == JobStep::kSubmit && done.ok() && memory.report.refusal.empty()) {
      ::eventfd_write(changed_fd_, 1);  // The head knows the job from the next look on.
      return {};
    }
    memory.report.waits.clear();
    if (known != nullptr && known->state == "queued" && link_ != nullptr)
      if (auto why = link_->why_waits(known->id)) memory.report.waits = *std::move(why);
  }
  // Its status may be gone with it.
  if (is_being_deleted(job)) return done;
  const Status written = write_job_status(job, known, head != nullptr, memory);
  return done.ok() ? written : done;
}

Status Controller::carry_out(const Json& job, const JobOrder& order, JobMemory& memory) {
  const std::string id = text_at(job, {"status", "job"});
  switch (order.step) {
    case JobStep::kNone:
      memory.report.scale_refusal.clear();
      memory.report.stop_refusal.clear();
      memory.ask_again = {};
      return {};
    case JobStep::kAddFinalizer:
      return put_finalizer(job, true);
    case JobStep::kRemoveFinalizer:
      if (id.empty() && link_) {
        ES_RETURN_IF_ERROR(find_job(job, memory));
        if (!memory.report.job.empty()) return {};
      }
      return put_finalizer(job, false);
    case JobStep::kSubmit:
      return submit(job, memory);
    case JobStep::kCancel:
    case JobStep::kPause:
      return stop_job(order, id, memory);
    case JobStep::kResume:
      return link_->resume(id);
    case JobStep::kScale: {
      const Status done = link_->scale(id, order.demand);
      if (done.ok()) memory.report.demand = order.demand;
      memory.report.scale_refusal = done.ok() ? "" : done.error().message;
      return done.ok() || done.error().kind != ErrorKind::kFailure ? Status() : done;
    }
  }
  return {};
}

Status Controller::put_finalizer(const Json& job, bool present) {
  const auto done = api_.merge(own_path("elastictrainingjobs/" + kubernetes::name_of(job)),
                               finalizer_patch(job, present));
  // The object has changed meanwhile, or is gone: the next look sees it.
  if (!done && done.error().kind == ErrorKind::kFailure) return done.error();
  return {};
}

// A controller that ended before it wrote the status has left a job that the object does not name.
Status Controller::find_job(const Json& job, JobMemory& memory) {
  const auto made = link_->made_by(text_at(job, {"metadata", "uid"}));
  if (!made) return made.error();
  memory.report.job = *made;
  if (!made->empty()) ::eventfd_write(changed_fd_, 1);  // The next look cancels it.
  return {};
}

// The id of the request is that of the object, so a job is made once, also by several controllers.
Status Controller::submit(const Json& job, JobMemory& memory) {
  const std::int64_t generation = value_at(job, {"metadata", "generation"}, std::int64_t{0});
  if (memory.refused_generation == generation || Clock::now() < memory.ask_again) return {};
  const auto spec = job_spec_of(job);
  const auto id = spec ? link_->submit(*spec, text_at(job, {"metadata", "uid"}))
                       : Result<std::string>(spec.error());
  if (id) {
    memory.report.job = *id;
    memory.report.refusal.clear();
    return {};
  }
  if (id.error().kind == ErrorKind::kFailure) return id.error();
  // What is wrong stays so; what is refused now, such as devices that are not there, may come.
  memory.report.may_come = id.error().kind == ErrorKind::kRefused;
  if (!memory.report.may_come) memory.refused_generation = generation;
  memory.ask_again = Clock::now() + kAskAgain;
  memory.report.refusal = id.error().message;
  return {};
}

Status Controller::stop_job(const JobOrder& order, const std::string& job, JobMemory& memory) {
  if (Clock::now() < memory.ask_again) return {};
  memory.ask_again = Clock::now() + kStopAgain;
  const Status done = order.step == JobStep::kPause ? link_->pause(job) : link_->cancel(job);
  memory.report.stop_refusal = done.ok() ? "" : done.error().message;
  return done.ok() || done.error().kind != ErrorKind::kFailure ? Status() : done;
}

Status Controller::write_job_status(const Json& job, const HeadJob* known, bool has_head,
                                    JobMemory& memory) {
  const std::string name = kubernetes::name_of(job);
  if (memory.report.job.empty()) memory.report.job = text_at(job, {"status", "job"});
  const Json status = job_status(job, known, has_head, memory.report, clock_text());
  if (status == memory.written) return {};
  const auto written = api_.apply(own_path("elastictrainingjobs/" + name + "/status"),
                                  {{"apiVersion", kApiVersion},
                                   {"kind", "ElasticTrainingJob"},
                                   {"metadata", {{"name", name}}},
                                   {"status", status}});
  // It was deleted meanwhile.
  if (!written && written.error().kind == ErrorKind::kNotFound) return {};
  if (!written) return written.error();
  memory.written = status;
  tell(job, status, memory);
  return {};
}

// An event for each change of what `kubectl describe` should show as history.
void Controller::tell(const Json& job, const Json& status, JobMemory& memory) {
  std::string reason = text_at(status, {"phase"}), message;
  bool is_warning = false;
  for (const Json& condition : status["conditions"]) {
    const bool bad = text_at(condition, {"reason"}).starts_with("Refused");
    is_warning = is_warning || bad;
    if (bad || message.empty() || text_at(condition, {"type"}) == "Training")
      message = text_at(condition, {"message"});
    if (bad) break;
  }
  // The placement changes with each step of scaling, and is worth an event.
  const std::string told = reason + "|" + (is_warning ? message : text_at(status, {"placement"}));
  if (told == memory.told) return;
  memory.told = told;
  const std::string now = clock_text();
  const Json event{{"apiVersion", "v1"},
                   {"kind", "Event"},
                   {"metadata", {{"generateName", kubernetes::name_of(job) + "."}}},
                   {"involvedObject",
                    {{"apiVersion", kApiVersion},
                     {"kind", "ElasticTrainingJob"},
                     {"namespace", place_.name_space},
                     {"name", kubernetes::name_of(job)},
                     {"uid", text_at(job, {"metadata", "uid"})}}},
                   {"type", is_warning ? "Warning" : "Normal"},
                   {"reason", is_warning ? "Refused" : reason},
                   {"message", message},
                   {"source", {{"component", kManager}}},
                   {"firstTimestamp", now},
                   {"lastTimestamp", now},
                   {"count", 1}};
  if (const auto made = api_.create(core_path("events"), event); !made) say_trouble(made.error());
}

Status Controller::look_after_agents(const Json& cluster, const std::vector<const Json*>& jobs,
                                     const std::vector<const Json*>& pods, const HeadFacts& head) {
  const auto groups = groups_of(cluster);
  const auto wanted = wanted_of_groups(groups, jobs, head);
  const bool keep = agents_hold_states(cluster, head);
  const Json specs = value_at(cluster, {"spec", "agents"}, Json::array());
  const auto remove = [&](const std::string& pod, const char* why) {
    log::info("ends the agent " + pod + ": " + why);
    return api_.remove(core_path("pods/" + pod));
  };
  for (const std::string& pod : pods_over(pods)) ES_RETURN_IF_ERROR(remove(pod, "it is over"));
  for (std::size_t at = 0; at < groups.size(); ++at) {
    const AgentGroup& group = groups[at];
    const std::string limits = std::to_string(group.limits.min) + ".." +
                               std::to_string(group.limits.max) + "/" +
                               std::to_string(group.limits.idle.count());
    if (groups_[group.name] != limits) planners_.erase(group.name);
    groups_[group.name] = limits;
    AgentPlanner& planner = planners_.try_emplace(group.name, group.limits).first->second;
    const AgentOrders orders = planner.decide(
        {.agents = agents_seen(pods, group.name, head, keep), .devices_wanted = wanted[at]},
        steady_now());
    for (const std::string& pod : orders.cancel)
      ES_RETURN_IF_ERROR(remove(pod, "no job needs it, and it has no node"));
    for (const std::string& pod : orders.give_back) ES_RETURN_IF_ERROR(remove(pod, "it is idle"));
    for (const std::uint32_t index : orders.ask) {
      const Json pod = agent_pod(cluster, specs[at], index);
      const auto made = api_.create(core_path("pods"), pod);
      // It exists already: the watch is late.
      if (!made && made.error().kind != ErrorKind::kRefused) return made.error();
      if (made) log::info("asks for the agent " + kubernetes::name_of(pod));
    }
  }
  return {};
}

}  // namespace es::actors::kubernetes
