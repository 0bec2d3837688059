#pragma once
// What the head says about jobs and nodes, as plain values. Functions that print take these values
// and no Cap'n Proto messages.
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "actors/base/protocol/wire/job_view.h"
#include "proto/messages.h"

namespace es::actors {

struct DeviceView {
  std::string type;
  std::uint32_t index = 0;
  std::string job;                          // the job that holds it, or empty
  std::string suspect;                      // why it is not given to any job, or empty
  std::uint64_t suspect_until_unix_ms = 0;  // when it is used again by itself, or 0
};

struct NodeView {
  std::string name;
  bool alive = false;
  bool draining = false;  // its daemon is about to end
  std::vector<DeviceView> devices{};
  // whether the head's checkpoint directory is seen there: shared, own, or empty
  std::string checkpoints{};
  std::string checkpoint_problem{};     // why no job can be saved there, or empty
  std::int64_t clock_ahead_ms = 0;      // of the head's clock, when the node joined
  std::string rack{};                   // where it stands, or empty
  std::uint32_t island_devices = 0;     // devices of a type that are linked; 0: all of the node
  bool spot = false;                    // it may be taken away at any time
  std::uint64_t gone_unix_ms = 0;       // when it will be gone, in milliseconds since 1970, or 0
  std::vector<std::string> cut_from{};  // nodes with which it shares no job now
};

struct CheckpointView {
  std::string path;
  std::uint64_t version = 0;
  std::string params_digest;
  std::string state_digest;
  std::string first_error{};  // why it is not in the requested directory, or empty
};

// The checkpoint that contains the weights of a run.
struct KeptWeights {
  std::string path;
  std::uint64_t step = 0;
};

struct RefusalView {
  Error error;
};

struct LogLine {
  std::string text;
};
struct StreamEnd {};
using JobEventView = std::variant<JobView, LogLine, StreamEnd>;

// These throw kj::Exception on malformed content, so call them inside Msg::decode.
std::vector<JobView> read_jobs(wire::JobList::Reader reader);
std::vector<NodeView> read_nodes(wire::NodeList::Reader reader);
DecisionTimes read_decision_times(wire::NodeList::Reader reader);
CheckpointView read_checkpoint(wire::CheckpointTaken::Reader reader);
JobEventView read_event(wire::JobEvent::Reader reader);
RefusalView read_refusal(wire::Refusal::Reader reader);

}  // namespace es::actors
