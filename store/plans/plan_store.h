#pragma once
// PlanStore: the companion's knowledge that outlives a job: plans that were computed, and how fast
// each device type was measured to be.
//
// `model_key` is the caller's name for everything that decides the speed of a local step besides
// batch size and device type (actors/common/model_key.h); no zero byte. Thread-safe: of two jobs
// that measure the same at once, the later report counts.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "proto/base/device.h"
#include "proto/base/result.h"
#include "store/kv/key_value_store.h"

namespace es::store {

// One device type's part in a plan (DESIGN 7).
struct PlanPart {
  DeviceType type;
  std::uint32_t devices = 0;  // N_i >= 1
  std::uint32_t ests = 0;     // A_i >= 1, ESTs on each of these devices
  bool operator==(const PlanPart&) const = default;
};

struct PlanRecord {
  std::vector<PlanPart> parts;
  double waste = 0.0;                         // local steps per second, finite, >= 0
  double throughput_local_steps_per_s = 0.0;  // finite, >= 0
  bool operator==(const PlanRecord&) const = default;
};

// The plans of a job, best first, and what they were made from.
struct PlanListRecord {
  std::string inputs;  // of the search, the caller's words: other inputs, other plans
  bool complete = true;
  std::vector<PlanRecord> plans;
  bool operator==(const PlanListRecord&) const = default;
};

struct CapabilityRecord {
  DeviceType type;
  double local_steps_per_s = 0.0;  // C_i, finite, > 0
  std::uint64_t measurements =
      0;  // how often it was measured to have changed, or for the first time
  bool operator==(const CapabilityRecord&) const = default;
};

std::string encode_plans(const PlanListRecord& list);
// Error (failure): not what encode_plans wrote.
Result<PlanListRecord> decode_plans(std::string_view bytes, const std::string& what);

// Error (failure): not what PlanStore wrote for a capability.
Result<CapabilityRecord> decode_capability(std::string_view bytes, const std::string& type,
                                           const std::string& model_key);

class PlanStore {
 public:
  // `store` must outlive this object.
  explicit PlanStore(KeyValueStore& store) : store_(store) {}

  // Replaces the plans of (model_key, max_p). They can be computed again, so a power cut may lose
  // them.
  Status save_plans(const std::string& model_key, std::uint32_t max_p, const PlanListRecord& list);
  // None when nothing was saved.
  Result<std::optional<PlanListRecord>> load_plans(const std::string& model_key,
                                                   std::uint32_t max_p) const;

  // Replaces what is known of (model_key, batch_size, record.type).
  Status save_capability(const std::string& model_key, std::uint32_t batch_size,
                         const CapabilityRecord& record);
  // All that is known of (model_key, batch_size), ordered by the name of the device type.
  Result<std::vector<CapabilityRecord>> load_capabilities(const std::string& model_key,
                                                          std::uint32_t batch_size) const;

 private:
  KeyValueStore& store_;
};

}  // namespace es::store
