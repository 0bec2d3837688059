#pragma once
// What the head says about jobs and nodes, as plain values. Everything that prints works on these;
// Cap'n Proto ends here.
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "proto/messages.h"

namespace es::actors::esctl {

// The fields mean what proto/schema/client.capnp says.
struct StageView {
  std::string placement;
  std::uint64_t steps = 0;
  double seconds = 0;
  double rescale_seconds = 0;
};

struct EvaluationView {
  std::uint64_t version = 0;
  std::uint64_t correct = 0;
  std::uint64_t total = 0;
  double mean_loss = 0;
  double accuracy() const { return total == 0 ? 0.0 : double(correct) / double(total); }
};

struct WorkerView {
  std::uint64_t incarnation = 0;
  std::string node;
  std::string device_type;
  std::uint32_t device_index = 0;
  std::uint32_t rank_begin = 0;
  std::uint32_t rank_end = 0;
  std::uint64_t pid = 0;
};

struct JobView {
  std::string id;
  std::string name;
  std::string state;  // queued | starting | running | rescaling | finished | failed | cancelled
  std::string level;
  std::uint32_t max_p = 0;
  std::uint64_t step = 0;
  std::uint64_t last_step = 0;
  std::string placement;  // empty while no devices are in use
  float loss_first = 0;   // NaN before the first step, as loss_last
  float loss_last = 0;
  double samples_per_second = 0;
  double peak_rss_mib = 0;
  std::string params_digest;
  std::string state_digest;
  std::vector<StageView> stages;
  std::vector<EvaluationView> evaluations;  // ascending by version
  std::vector<WorkerView> workers;
  std::string error;  // why it failed
  std::uint64_t submitted_unix_ms = 0;
  std::string checkpoint;  // path of the newest, or empty
};

struct DeviceView {
  std::string type;
  std::uint32_t index = 0;
  std::string job;  // that holds it, or empty
};

struct NodeView {
  std::string name;
  bool alive = false;
  std::vector<DeviceView> devices;
};

struct CheckpointView {
  std::string path;
  std::uint64_t version = 0;
  std::string params_digest;
  std::string state_digest;
};

struct RefusalView {
  Error error;
};

struct LogLine {
  std::string text;
};
struct StreamEnd {};
using JobEventView = std::variant<JobView, LogLine, StreamEnd>;

// These throw kj::Exception on malformed content: call them inside Msg::decode.
JobView read_job(wire::JobInfo::Reader reader);
std::vector<JobView> read_jobs(wire::JobList::Reader reader);
std::vector<NodeView> read_nodes(wire::NodeList::Reader reader);
CheckpointView read_checkpoint(wire::CheckpointTaken::Reader reader);
JobEventView read_event(wire::JobEvent::Reader reader);
RefusalView read_refusal(wire::Refusal::Reader reader);

}  // namespace es::actors::esctl
