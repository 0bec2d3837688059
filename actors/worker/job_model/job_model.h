#pragma once
// The model of a job and its samples, whether the model is built in or comes from a model file. It
// is the only door to them: everything that needs the graph or the data of a job asks here.
//
// Immutable and cheap to copy.
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "gpu/graph/graph.h"
#include "proto/base/digest.h"
#include "proto/base/job_spec.h"
#include "proto/base/loss_turns.h"
#include "proto/base/model_program.h"
#include "proto/base/result.h"
#include "store/dataset/sample_source.h"

namespace es::actors {

class JobModel {
 public:
  // Reads the model file, if the job has one. Errors: those of read_model; usage if the digest of
  // the model is not model.file_digest, because the file was changed after the job was admitted.
  static Result<JobModel> open(const ModelSpec& model);

  // The model of the file; nullptr for a built-in model.
  const ModelProgram* program() const { return program_.get(); }
  // The digest of the model in the file; empty for a built-in model.
  const std::string& file_digest() const { return file_digest_; }

  // The order in which its losses make steps.
  const LossTurns& turns() const { return turns_; }

  // The inputs of that model; nullptr for a built-in model.
  const std::shared_ptr<const store::CapturedInputs>& inputs() const { return inputs_; }

  // As those of store/dataset/sample_source.h. `spec` is that of the job.
  Result<store::DataFacts> data_facts(const JobSpec& spec) const;
  Result<std::shared_ptr<const store::SampleSource>> open_samples(const JobSpec& spec) const;

  // Checks that the job has initial values for all parameters and states: model.weights, or a model
  // without states that says them itself. Error (usage): the first parameter or state of the model
  // file that lacks them.
  Status check_initial_values(const ModelSpec& model) const;

  // The model for mini-batches of spec.batch_size samples of `layout`. Error (usage): the model
  // does not fit the samples or the batch size; the engine cannot execute it.
  Result<gpu::Graph> graph(const JobSpec& spec, const SampleLayout& layout) const;

  // The same model as a program, with the adapters of the job. Error (usage): as graph().
  Result<ModelProgram> whole_program(const JobSpec& spec, const SampleLayout& layout) const;
  // The graph of a program that was made of it. Error (usage): as graph().
  static Result<gpu::Graph> graph_of(const ModelProgram& program, std::int64_t batch);

 private:
  std::string where_;  // the file
  std::shared_ptr<const ModelProgram> program_;
  std::shared_ptr<const store::CapturedInputs> inputs_;
  std::string file_digest_;
  LossTurns turns_;
};

// Checks that a model whose loss is one number for a mini-batch, without losses of samples, is
// evaluated on whole mini-batches: an incomplete one would count repeated samples
// (gpu::Graph::loss_of_batch). `inputs` are those of the model file, nullptr for a built-in model.
// Error (usage), also those of store::job_evaluation.
Status check_eval_count(const gpu::Graph& graph, const JobSpec& spec, std::uint64_t eval_count,
                        const store::CapturedInputs* inputs);

// Reads a model file and checks that the engine knows what is in it. Errors: those of
// store::read_model_file; usage, naming file and field (gpu/import/check.h).
Result<ModelProgram> read_model(const std::filesystem::path& file);

// The inputs of a model. REQUIRES: gpu::check_program accepts it.
store::CapturedInputs captured_inputs(const ModelProgram& program);

}  // namespace es::actors
