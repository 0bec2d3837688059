#include "actors/esctl/slurm/slurm_cluster.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <set>

#include "actors/base/gateway/core/endpoint.h"
#include "actors/base/gateway/shell/keys.h"
#include "actors/esctl/client/requests.h"
#include "actors/esctl/slurm/slurm_programs.h"

namespace es::actors::esctl {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Nodes = std::vector<std::pair<std::string, std::size_t>>;

// The pause before a head that has died is started again.
constexpr milliseconds kRestartPause{1000};

seconds steady_now() {
  return std::chrono::duration_cast<seconds>(std::chrono::steady_clock::now().time_since_epoch());
}

std::string port_of(const std::string& endpoint) {
  return endpoint.substr(endpoint.rfind(':') + 1);
}

std::string text_of_address(const sockaddr* address) {
  std::array<char, INET_ADDRSTRLEN> text{};
  const auto* ip = reinterpret_cast<const sockaddr_in*>(address);
  ::inet_ntop(AF_INET, &ip->sin_addr, text.data(), text.size());
  return text.data();
}

// The address of the host name, unless it is of the loopback interface.
std::string address_of_host_name() {
  std::array<char, 256> name{};
  addrinfo wanted{}, *found = nullptr;
  wanted.ai_family = AF_INET;
  if (::gethostname(name.data(), name.size() - 1) != 0 ||
      ::getaddrinfo(name.data(), nullptr, &wanted, &found) != 0)
    return {};
  const std::string text = text_of_address(found->ai_addr);
  ::freeaddrinfo(found);
  return text.starts_with("127.") ? std::string() : text;
}

std::string address_of_first_interface() {
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return {};
  std::string text;
  for (const ifaddrs* at = all; at != nullptr && text.empty(); at = at->ifa_next) {
    const bool usable = at->ifa_addr != nullptr && at->ifa_addr->sa_family == AF_INET &&
                        (at->ifa_flags & IFF_UP) != 0 && (at->ifa_flags & IFF_LOOPBACK) == 0;
    if (usable) text = text_of_address(at->ifa_addr);
  }
  ::freeifaddrs(all);
  return text;
}

std::string list_of(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

bool is_over(const std::string& state) {
  return state == "finished" || state == "failed" || state == "cancelled" || state == "timed-out";
}

}  // namespace

std::string own_address() {
  std::string address = address_of_host_name();
  if (address.empty()) address = address_of_first_interface();
  return address.empty() ? "127.0.0.1" : address;
}

Status SlurmCluster::run() {
  ES_RETURN_IF_ERROR(start_head());
  while (!stop_requested()) {
    if (const auto end = head_->end()) ES_RETURN_IF_ERROR(restart_head(*end));
    if (directory_.is_going_down()) {
      const auto none_left = end_agents();
      if (none_left && *none_left) break;
      say_trouble(none_left ? Status() : none_left.error());
    } else {
      say_trouble(look_after_agents());
    }
    if (!stop_requested()) wait_a_while();
  }
  client_.reset();
  head_->stop();
  if (!directory_.is_going_down()) {
    say("the head has ended; agents train on, and the next head continues with them");
    return {};
  }
  say("the cluster has ended");
  return directory_.set_going_down(false);
}

// The port of the head before is tried first: at it the agents find this head.
Status SlurmCluster::start_head() {
  const std::string before = directory_.endpoint();
  const bool same_host = before.starts_with("tcp://" + options_.address + ":");
  Result<std::unique_ptr<HeadProcess>> head = start_head_at(same_host ? port_of(before) : "*");
  if (!head && same_host && !stop_requested()) head = start_head_at("*");
  if (!head) return head.error();
  head_ = *std::move(head);
  if (!before.empty() && before != head_->endpoint())
    say_trouble(leave_agents_of_another_head(before));
  ES_RETURN_IF_ERROR(directory_.write_endpoint(head_->endpoint()));
  say("the head serves at " + head_->endpoint());
  return {};
}

Result<std::unique_ptr<HeadProcess>> SlurmCluster::start_head_at(const std::string& port) {
  return HeadProcess::start(
      {options_.easyscaled.string(), "--head", "--may-grow", "--config",
       directory_.file("head.toml").string(), "--state", directory_.file("state").string(),
       "--listen", "tcp://" + options_.address + ":" + port, "--address", options_.address,
       "--keys", directory_.file("keys").string(), "--node", "head", "--run-dir",
       directory_.file("agents/head").string(), "--rescue", directory_.file("rescue").string()},
      signals_);
}

Status SlurmCluster::restart_head(const std::string& end) {
  client_.reset();
  say("the head has ended (" + end + ") and is started again");
  pollfd fd{signals_.fd(), POLLIN, 0};
  ::poll(&fd, 1, static_cast<int>(kRestartPause.count()));
  signals_.take();
  if (stop_requested()) return {};
  return start_head();
}

// An agent knows only the endpoint that it was started with.
Status SlurmCluster::leave_agents_of_another_head(const std::string& before) {
  const auto jobs = jobs_named({directory_.agent_job()});
  if (!jobs) return jobs.error();
  std::vector<std::string> running;
  for (const QueuedJob& job : *jobs)
    if (agent_state(job.state) == AgentState::kRunning) running.push_back(job.id);
  if (running.empty()) return {};
  say("ends the agents that joined the head at " + before + ": " + list_of(running));
  return cancel_jobs(running);
}

Status SlurmCluster::look_after_agents() {
  const auto seen = see();
  if (!seen) return seen.error();
  ES_RETURN_IF_ERROR(carry_out(planner_.decide(*seen, steady_now()), *seen));
  if (!planner_.held_back_until()) return {};
  return failure("agents end before they have joined the head; their output is in " +
                 directory_.file("logs").string());
}

Result<AgentsSeen> SlurmCluster::see() {
  const auto jobs = jobs_named({directory_.agent_job()});
  if (!jobs) return jobs.error();
  std::set<std::string> machines;
  for (const QueuedJob& job : *jobs)
    if (!job.node.empty()) machines.insert(job.node);
  const auto draining = draining_nodes(machines);
  if (!draining) return draining.error();
  AgentsSeen seen;
  Nodes nodes;
  for (const QueuedJob& job : *jobs) {
    nodes.emplace_back(agent_node_name(job), seen.agents.size());
    seen.agents.push_back({.job = job.id,
                           .index = job.index,
                           .state = agent_state(job.state),
                           .node_drains = draining->contains(job.node)});
  }
  std::ranges::sort(nodes);
  if (const Status asked = ask_head(seen, nodes); !asked.ok()) {
    client_.reset();
    return asked.error();
  }
  return seen;
}

// Adds what the head knows. `nodes`: the names of nodes with the places of their agents, ascending.
Status SlurmCluster::ask_head(AgentsSeen& seen, const Nodes& nodes) {
  if (!client_) {
    auto keys = read_cluster_keys(directory_.file("keys"));
    if (!keys) return keys.error();
    auto client = Client::connect({.endpoint = head_->endpoint(), .keys = *std::move(keys)},
                                  {.fd = signals_.fd(), .raised = [this] {
                                     signals_.take();
                                     return stop_requested() || head_->end().has_value();
                                   }});
    if (!client) return client.error();
    client_ = *std::move(client);
  }
  const auto list = client_->ask<wire::JobList, wire::ListJobs>({}, [](wire::ListJobs::Builder) {});
  if (!list) return list.error();
  const auto jobs = list->decode(read_jobs);
  if (!jobs) return jobs.error();
  for (const JobView& job : *jobs)
    if (!is_over(job.state)) seen.devices_wanted[job.id] = job.devices_wanted;
  const auto known = list_nodes(*client_);
  if (!known) return known.error();
  for (const ClaimView& claim : known->claims)
    if (claim.begun && claim.queue.empty()) {
      seen.devices_wanted[claim_key(claim.name)] = claim.count;
      seen.claimed += claim.count;
    }
  for (const NodeView& node : known->nodes) {
    const auto at = std::ranges::lower_bound(nodes, node.name, {}, &Nodes::value_type::first);
    if (at == nodes.end() || at->first != node.name || !node.alive) continue;
    AgentSeen& agent = seen.agents[at->second];
    if (node.draining) agent.state = AgentState::kEnding;
    agent.devices = static_cast<std::uint32_t>(node.devices.size());
    agent.devices_in_use = static_cast<std::uint32_t>(
        std::ranges::count_if(node.devices, [](const DeviceView& d) { return !d.job.empty(); }));
  }
  return {};
}

Status SlurmCluster::carry_out(const AgentOrders& orders, const AgentsSeen& seen) {
  if (!orders.cancel.empty()) {
    say("gives up agents that Slurm has not started: " + list_of(orders.cancel));
    ES_RETURN_IF_ERROR(cancel_jobs(orders.cancel));
  }
  if (!orders.give_back.empty()) {
    say("gives back idle agents, and those on nodes that drain: " + list_of(orders.give_back));
    ES_RETURN_IF_ERROR(terminate_jobs(orders.give_back));
  }
  if (orders.ask.empty()) return {};
  std::vector<std::string> words{"--job-name=" + directory_.agent_job(),
                                 "--array=" + array_text(orders.ask),
                                 "--output=" + directory_.file("logs/agent-%A_%a.out").string()};
  if (!options_.partition.empty()) words.push_back("--partition=" + options_.partition);
  words.insert(words.end(), options_.agent_options.begin(), options_.agent_options.end());
  const auto job =
      submit_script(words, directory_.file("agent.sbatch").string(), {directory_.path().string()},
                    {{"EASYSCALED", options_.easyscaled.string()}});
  if (!job) return job.error();
  std::uint64_t wanted = 0;
  for (const auto& [name, devices] : seen.devices_wanted) wanted += devices;
  say("asks Slurm for " + std::to_string(orders.ask.size()) + " agents (job " + *job +
      "): jobs could use " + std::to_string(wanted) + " devices, and there are " +
      std::to_string(seen.agents.size()) + " agents");
  return {};
}

Result<bool> SlurmCluster::end_agents() {
  const auto jobs = jobs_named({directory_.agent_job()});
  if (!jobs) return jobs.error();
  if (jobs->empty()) return true;
  std::vector<std::string> waiting, running;
  for (const QueuedJob& job : *jobs) {
    if (agent_state(job.state) == AgentState::kQueued) waiting.push_back(job.id);
    if (agent_state(job.state) == AgentState::kRunning) running.push_back(job.id);
  }
  ES_RETURN_IF_ERROR(cancel_jobs(waiting));
  if (std::exchange(agents_told_to_end_, true)) return false;
  say("ends all agents: " + list_of(running));
  ES_RETURN_IF_ERROR(terminate_jobs(running));
  return false;
}

void SlurmCluster::say(const std::string& line) {
  const std::time_t now = std::time(nullptr);
  std::array<char, 32> time{};
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  std::strftime(time.data(), time.size(), "%Y-%m-%dT%H:%M:%SZ", &utc);
  console_.out << time.data() << " " << line << std::endl;
}

void SlurmCluster::say_trouble(const Status& status) {
  const std::string trouble =
      status.ok() || stop_requested() ? std::string() : status.error().message;
  if (!trouble.empty() && trouble != trouble_) say("trouble, tried again: " + trouble);
  trouble_ = trouble;
}

void SlurmCluster::wait_a_while() {
  pollfd fd{signals_.fd(), POLLIN, 0};
  ::poll(&fd, 1, static_cast<int>(options_.every.count()));
  signals_.take();
}

}  // namespace es::actors::esctl
