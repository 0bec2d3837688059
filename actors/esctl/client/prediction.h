#pragma once
// Runs a trained model on samples without targets.
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "actors/esctl/client/checkpoint_model.h"
#include "proto/base/result.h"
#include "store/dataset/arrays/input_array.h"

namespace es::actors::esctl {

// The samples: for each field of the model's layout the array with its values, or nothing for a
// field that only the loss reads.
struct PredictionInput {
  std::vector<std::optional<store::InputArray>> arrays;
  std::uint64_t samples = 0;
  std::uint32_t program = 0;  // of the model, which computes samples of these shapes

  // Opens the arrays of the fields that the outputs of the model depend on. `place` is a file .npz,
  // or a directory with NAME.npy for each of them. Their shapes are those of PyTorch: an image is
  // [c,h,w]. They choose the first program of a model file that has inputs of these shapes. Errors:
  // those of NpzFile, NpyFile and InputArray; not found, naming all arrays that the model needs;
  // usage for arrays with different numbers of samples or without any.
  static Result<PredictionInput> open(const CheckpointModel& source,
                                      const std::filesystem::path& place);
};

// [field of the layout]: whether an output of the model depends on it.
std::vector<bool> fields_of_outputs(const gpu::Graph& graph);

// The name of an output, and its extents for one sample in a program of the model, in the order of
// PyTorch: an image is [c,h,w]. REQUIRES: the output exists.
std::string output_name(const CheckpointModel& source, std::size_t output);
std::vector<std::uint64_t> output_extents(const CheckpointModel& source, std::size_t output,
                                          std::uint32_t program = 0);

// One output of the model for all samples.
struct Prediction {
  std::string name;
  std::vector<std::uint64_t> shape;  // the first axis counts the samples, or a multiple of them
  std::vector<float> values;         // row-major
};

// Computes the outputs, in the order of the model. An output of a built-in model is called
// "output", or "output0", "output1", ... if there are several. Pixels of type u1 are normalised as
// those of the job's images; all other numbers are taken as they are. Errors: those of
// InputArray::read and Engine::evaluate.
Result<std::vector<Prediction>> predict(gpu::Engine& engine, const CheckpointModel& source,
                                        const PredictionInput& input);

}  // namespace es::actors::esctl
