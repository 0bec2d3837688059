#pragma once
// The job of a checkpoint and the model that it trains, for commands that use a checkpoint without
// a head.
#include <CLI/CLI.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "actors/worker/job_model/job_model.h"
#include "gpu/engine/engine.h"
#include "gpu/graph/graph.h"
#include "proto/base/job_spec.h"
#include "proto/base/result.h"
#include "store/checkpoint/checkpoint.h"

namespace es::actors::esctl {

struct CheckpointModel {
  std::string directory;
  store::CheckpointReader reader;
  JobSpec spec;
  JobModel model;
  gpu::Graph graph;
};

// Opens a checkpoint. `change` may change what the parameters do not depend on: the size of a
// mini-batch, the data, the length of sequences. Errors: those of CheckpointReader::open,
// parse_job, JobModel and data_facts.
Result<CheckpointModel> open_checkpoint_model(const std::string& checkpoint,
                                              const std::function<void(JobSpec&)>& change);
// The same; `data` replaces the job's data.path; empty: no replacement.
Result<CheckpointModel> open_checkpoint_model(const std::string& checkpoint,
                                              const std::string& data);

// The device on which a trained model runs.
struct RunDevice {
  std::string type;           // empty: the fastest class of this processor
  std::uint32_t threads = 0;  // 0: all of the machine; the results do not depend on it
};
void add_device_options(CLI::App& command, RunDevice& device);

// Returns an engine that holds the version of the checkpoint. It computes with the canonical
// kernels, so its results do not depend on the device. Errors: those of choose_device,
// Engine::create and load_checkpoint.
Result<std::unique_ptr<gpu::Engine>> trained_engine(const CheckpointModel& source,
                                                    const RunDevice& device);

}  // namespace es::actors::esctl
