#pragma once
// PlanStore keeps knowledge of companions beyond the life of a job: computed plans, the measured
// speed of each device type, and the measured communication.
//
// `model_key` is the caller's name for everything that decides the speed of a local step except the
// batch size and the device type (actors/head/admission/model_key.h). It must not contain a zero
// byte. Thread-safe: if two jobs measure the same speed at the same time, the later report is kept.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "proto/base/device.h"
#include "proto/base/result.h"
#include "store/kv/key_value_store.h"

namespace es::store {

// The part of one device type in a plan (docs/SCHEDULING.md).
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

// The plans of a job, the best first, and the inputs of the search that found them.
struct PlanListRecord {
  std::string inputs;  // the caller's description of the inputs; other inputs give other plans
  // True if the list contains every plan that is not dominated.
  bool complete = true;
  std::vector<PlanRecord> plans;
  bool operator==(const PlanListRecord&) const = default;
};

struct CapabilityRecord {
  DeviceType type;
  double local_steps_per_s = 0.0;  // C_i, finite, > 0
  std::uint64_t measurements =
      0;  // number of changes that were measured, including the first measurement
  bool operator==(const CapabilityRecord&) const = default;
};

// Communication at a number of devices (scheduler/model/sync.h).
struct SyncRecord {
  std::uint32_t devices = 1;  // >= 1
  double seconds = 0.0;       // of a global step, finite, >= 0
  bool operator==(const SyncRecord&) const = default;
};

std::string encode_plans(const PlanListRecord& list);
// Error (failure): the bytes were not written by encode_plans.
Result<PlanListRecord> decode_plans(std::string_view bytes, const std::string& what);

// Error (failure): the bytes were not written by PlanStore for a capability.
Result<CapabilityRecord> decode_capability(std::string_view bytes, const std::string& type,
                                           const std::string& model_key);
// Error (failure): the bytes were not written by PlanStore for communication.
Result<std::vector<SyncRecord>> decode_sync(std::string_view bytes, const std::string& what);

class PlanStore {
 public:
  // `store` must outlive this object.
  explicit PlanStore(KeyValueStore& store) : store_(store) {}

  // Replaces the plans of (model_key, max_p). A power cut may lose them; they can be computed
  // again.
  Status save_plans(const std::string& model_key, std::uint32_t max_p, const PlanListRecord& list);
  // Returns nullopt if no plans were saved.
  Result<std::optional<PlanListRecord>> load_plans(const std::string& model_key,
                                                   std::uint32_t max_p) const;

  // Replaces the speed of (model_key, batch_size, record.type).
  Status save_capability(const std::string& model_key, std::uint32_t batch_size,
                         const CapabilityRecord& record);
  // All speeds of (model_key, batch_size), ordered by the name of the device type.
  Result<std::vector<CapabilityRecord>> load_capabilities(const std::string& model_key,
                                                          std::uint32_t batch_size) const;

  // Replaces the points of (model_key, batch_size). REQUIRES: they ascend by devices.
  Status save_sync(const std::string& model_key, std::uint32_t batch_size,
                   const std::vector<SyncRecord>& points);
  // Ascending by devices; empty if none were saved.
  Result<std::vector<SyncRecord>> load_sync(const std::string& model_key,
                                            std::uint32_t batch_size) const;

 private:
  KeyValueStore& store_;
};

}  // namespace es::store
