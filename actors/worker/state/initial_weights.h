#pragma once
// Model weights in safetensors files, with the names and layouts of PyTorch's state dicts. A job
// may begin from such a file (ModelSpec::weights), and `esctl export` writes one.
#include <filesystem>
#include <string>
#include <vector>

#include "gpu/engine/engine.h"
#include "gpu/params/param_table.h"
#include "gpu/params/pytorch_layout.h"
#include "proto/base/digest.h"
#include "proto/base/job_spec.h"
#include "proto/base/result.h"
#include "store/safetensors/safetensors.h"

namespace es::actors {

// Checks that the file has exactly the model's tensors: F32, with their shapes, finite, and no
// variance below 0. Returns the digest of all its bytes. The file may also contain what else
// PyTorch's state dict has: num_batches_tracked of a batch norm, and ParamTable::buffers(), which
// must have the values that follow from the model. Errors: not found; usage, naming the file, the
// tensor, the element and what is allowed.
//
// The file of a job with adapters (LoraSpec) has none of theirs, because it is that of the model
// without them. It has all `states` of a captured optimizer, with the names of state_name(), or
// none of them: then they begin as +0.
Result<Digest> check_weights(const std::filesystem::path& file, const gpu::ParamTable& table,
                             const LoraSpec& lora, std::span<const gpu::ParamState> states = {});

// Returns for example "exp_avg.fc.weight".
std::string state_name(const gpu::ParamTable& table, const gpu::ParamState& state);
// The name of such a tensor among the initial weights begins with this.
constexpr std::string_view kOptimizerPrefix = "optimizer/";

// Replaces parameters, statistics and states of version 0 by those of model.weights, for all ESTs;
// adapters keep their values. Does nothing if model.weights is empty. Errors: those of
// check_weights; usage if the digest of the file is not model.weights_digest, because the file was
// changed after the job was admitted.
Status load_initial_weights(gpu::Engine& engine, const JobSpec& spec);

// The whole state dict of a model: parameters, statistics, num_batches_tracked = `version` for
// every batch norm, and the buffers that current state dicts have. `flat` and `stats` are those of
// gpu::export_state.
class StateDict {
 public:
  StateDict(const gpu::ParamTable& table, const float* flat, const float* stats,
            std::uint64_t version);
  StateDict(const StateDict&) = delete;
  StateDict& operator=(const StateDict&) = delete;
  // Valid during the lifetime of this object.
  const std::vector<store::TensorData>& tensors() const { return tensors_; }

 private:
  std::vector<gpu::NamedTensor> values_;
  std::int64_t version_;
  std::vector<std::vector<std::byte>> buffers_;
  std::vector<store::TensorData> tensors_;
};

// The tensors of one array of the optimizer, for all parameters that are trained. Their names are
// PREFIX.NAME.
std::vector<gpu::NamedTensor> optimizer_tensors(const gpu::ParamTable& table, const float* flat,
                                                const std::string& prefix);

// One parameter of a flat array, in PyTorch's layout.
gpu::NamedTensor exported(const gpu::ParamInfo& param, const float* flat, const std::string& name);

store::TensorData tensor_data(const gpu::NamedTensor& tensor);

}  // namespace es::actors
