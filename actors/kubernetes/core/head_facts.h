#pragma once
// What the controller knows of a head, as plain values.
#include <cstdint>
#include <map>
#include <string>

namespace es::actors::kubernetes {

struct HeadJob {
  std::string id;
  std::string state;  // as in JobView
  std::uint64_t step = 0;
  std::uint64_t last_step = 0;
  std::string placement;      // empty while no devices are in use
  std::uint32_t devices = 0;  // of the placement
  std::uint32_t holds = 0;    // devices of nodes that are alive, also when it is over
  std::string loss;           // of the last step; empty: none
  std::string digest;         // of the parameters after it; empty: none
  std::uint32_t devices_wanted = 0;
  std::string error;        // why it failed
  std::string waiting_for;  // empty: nothing
  std::string waits;        // of a queued job: why, in sentences
};

inline bool is_over(const HeadJob& job) {
  return job.state == "finished" || job.state == "failed" || job.state == "cancelled" ||
         job.state == "timed-out";
}

struct HeadNode {
  bool draining = false;
  std::uint32_t devices = 0;
  std::uint32_t devices_in_use = 0;
};

struct HeadClaim {
  std::string type;
  std::uint32_t devices = 0;
};

struct HeadFacts {
  std::uint64_t number = 0;                 // each look at the head has a larger one
  std::map<std::string, HeadJob> jobs;      // by id
  std::map<std::string, HeadNode> nodes;    // that are alive, by name
  std::map<std::string, HeadClaim> claims;  // that jobs do not use, by name
};

}  // namespace es::actors::kubernetes
