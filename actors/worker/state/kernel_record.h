#pragma once
// A kernel record says which kernels computed a version. Every checkpoint contains one, because at
// the levels D0 and D1 the bits of the next step belong to the kernels of a vendor library, and
// these to a device type and a library version. It is the text of the checkpoint section `kernels`;
// store/checkpoint/FORMAT.md defines its form.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/engine/engine.h"
#include "proto/base/device.h"
#include "proto/base/job_spec.h"
#include "proto/base/result.h"
#include "store/checkpoint/checkpoint.h"

namespace es::actors {

struct KernelRecord {
  DeterminismLevel level = DeterminismLevel::kD2;
  DeviceType device_type;  // empty at D2, where it does not matter
  std::string library;     // such as "oneDNN 2.6.3"; empty: no operator uses a vendor kernel
  std::vector<std::string> operators;  // same form as gpu::Engine::vendor_ops()
  bool operator==(const KernelRecord&) const = default;
};

// `level` is the level of the job that the engine trains.
KernelRecord kernel_record(const gpu::Engine& engine, DeterminismLevel level);

// encode() and decode_kernel_record() are exact inverses. Error (usage), beginning with `where`:
// the text is not in the one form that encode() produces.
std::string encode(const KernelRecord& record);
Result<KernelRecord> decode_kernel_record(std::string_view text, const std::string& where);

// Name of the section that contains the record.
inline constexpr const char* kKernelsSection = "kernels";

// Returns the record of a checkpoint; nullopt if it has none, like checkpoints of earlier versions
// of EasyScale. Errors: damage; a record that cannot be read.
Result<std::optional<KernelRecord>> read_kernel_record(const store::CheckpointReader& reader,
                                                       const std::string& where);

// Checks that an engine can continue from a version with the same result as the engine that
// computed it. A version of D2 depends on no vendor kernel, and a job of D2 uses none, so either of
// them goes with every kernel. Otherwise, at D0 and D1, the kernels must be equal. Without a record
// only a job of D2 may continue. A change between two device types of the job's own stages is
// allowed, because its user wants it. Error (refused), beginning with `where` and naming both.
Status check_kernels(const std::optional<KernelRecord>& saved, const KernelRecord& present,
                     const std::vector<Stage>& stages, const std::string& where);

// The part of this check that is possible before a device is chosen. `types` are the types on which
// the job may begin (empty: any).
Status check_device_types(const std::optional<KernelRecord>& saved, DeterminismLevel level,
                          const std::vector<DeviceType>& types, const std::string& where);

}  // namespace es::actors
