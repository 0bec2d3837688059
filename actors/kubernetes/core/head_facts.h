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
  std::string loss;           // of the last step; empty: none
  std::string digest;         // of the parameters after it; empty: none
  std::uint32_t devices_wanted = 0;
  std::string error;        // why it failed
  std::string waiting_for;  // empty: nothing
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

struct HeadFacts {
  std::map<std::string, HeadJob> jobs;    // by id
  std::map<std::string, HeadNode> nodes;  // that are alive, by name
};

}  // namespace es::actors::kubernetes
