#pragma once
// What computed a version: kept in every checkpoint, because at levels D0 and D1 the bits of the
// next step belong to kernels of a vendor library, and those to a device type and a library
// version. The text of a checkpoint's section `kernels`; its form: store/checkpoint/FORMAT.md.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/engine.h"
#include "proto/base/device.h"
#include "proto/base/job_spec.h"
#include "proto/base/result.h"
#include "store/checkpoint/checkpoint.h"

namespace es::actors {

struct KernelRecord {
  DeterminismLevel level = DeterminismLevel::kD2;
  DeviceType device_type;              // empty at D2: there it does not matter
  std::string library;                 // "oneDNN 2.6.3"; empty: no operator runs a vendor kernel
  std::vector<std::string> operators;  // as gpu::Engine::vendor_ops()
  bool operator==(const KernelRecord&) const = default;
};

// `level`: of the job that the engine trains.
KernelRecord kernel_record(const gpu::Engine& engine, DeterminismLevel level);

// Exact inverses. Error (usage), beginning with `where`: not in the one form that encode gives.
std::string encode(const KernelRecord& record);
Result<KernelRecord> decode_kernel_record(std::string_view text, const std::string& where);

// Name of the section that keeps it.
inline constexpr const char* kKernelsSection = "kernels";

// The record of a checkpoint; nothing when it has none, as those of earlier versions of EasyScale.
// Errors: damage; a record that cannot be read.
Result<std::optional<KernelRecord>> read_kernel_record(const store::CheckpointReader& reader,
                                                       const std::string& where);

// Whether an engine may go on from a version without another result than the engine that computed
// it: at D0 and D1 from a version of D0 or D1, with equal kernels only. A version of D2 depends on
// none, and a job of D2 uses none: there any two go together. Without a record, only a job of D2
// may. Between two device types of the job's own stages its user wants the change.
// Error (refused), beginning with `where` and naming both.
Status check_kernels(const std::optional<KernelRecord>& saved, const KernelRecord& present,
                     const std::vector<Stage>& stages, const std::string& where);

// The part of that which is known before a device is chosen: the types where the job may begin
// (empty: any).
Status check_device_types(const std::optional<KernelRecord>& saved, DeterminismLevel level,
                          const std::vector<DeviceType>& types, const std::string& where);

}  // namespace es::actors
