#include "actors/esctl/commands/model_view.h"

#include <algorithm>
#include <functional>
#include <map>

#include "actors/views/render_json.h"
#include "actors/views/render_text.h"
#include "gpu/engine/captured_updates.h"
#include "gpu/import/import_updates.h"
#include "gpu/import/values.h"

namespace es::actors::esctl {
namespace {

using Row = std::vector<std::string>;

// "B" or "2*B" for an extent that grows with the mini-batch.
std::string dim_text(const ModelDim& dim) {
  if (!dim.per_batch) return std::to_string(dim.size);
  return dim.size == 1 ? "B" : std::to_string(dim.size) + "*B";
}

const ModelValue& value_at(const ModelProgram& program, ValueId id) {
  return program.values[static_cast<std::size_t>(id)];
}

// "f32 [B,3,32,32]"
std::string value_text(const ModelValue& value) {
  std::string text;
  for (const ModelDim& dim : value.dims) text += (text.empty() ? "" : ",") + dim_text(dim);
  return std::string(gpu::type_name(value.type)) + " [" + text + "]";
}

std::int64_t elements(const ModelValue& value) {
  std::int64_t count = 1;
  for (const ModelDim& dim : value.dims) count *= dim.size;
  return count;
}

// "11173962 in 62 tensors, 9408 of them frozen"
std::string parameters_text(const ModelProgram& program) {
  std::int64_t all = 0, frozen = 0;
  for (const ModelParameter& parameter : program.parameters) {
    const std::int64_t count = elements(value_at(program, parameter.value));
    all += count;
    if (!parameter.trainable) frozen += count;
  }
  return std::to_string(all) + " in " + counted(program.parameters.size(), "tensor") +
         (frozen == 0 ? "" : ", " + std::to_string(frozen) + " of them frozen");
}

std::string values_text(const ModelProgram& program) {
  std::vector<Row> rows{{"VALUE", "NAME", "TYPE", "RANGE"}};
  for (const ModelInput& input : program.inputs) {
    const ModelValue& value = value_at(program, input.value);
    rows.push_back({"input", input.name, value_text(value),
                    value.type == ValueType::kI32
                        ? std::to_string(input.low) + " to " + std::to_string(input.high)
                        : ""});
  }
  for (const ModelOutput& output : program.outputs)
    rows.push_back({"output", output.name, value_text(value_at(program, output.value)), ""});
  rows.push_back({"loss", "", value_text(value_at(program, program.loss)), ""});
  return table(rows);
}

std::string kinds_text(const ModelProgram& program) {
  std::map<std::string, std::size_t> counts;
  for (const ModelNode& node : program.nodes) ++counts[node.kind];
  std::vector<std::pair<std::string, std::size_t>> kinds(counts.begin(), counts.end());
  std::ranges::stable_sort(kinds, std::ranges::greater(), &decltype(kinds)::value_type::second);
  std::vector<Row> rows{{"KIND", "NODES"}};
  for (const auto& [kind, count] : kinds) rows.push_back({kind, std::to_string(count)});
  return table(rows);
}

// The inputs and outputs of the further programs.
std::string further_text(const ModelProgram& program) {
  std::string text;
  for (std::size_t i = 0; i < program.programs.size(); ++i)
    text += "\nprogram " + std::to_string(i + 1) + "\n" + values_text(program.programs[i]);
  return text;
}

// What updates the parameters: "its own: 3 updates, 2 of them element by element; 2 numbers a step
// for 100 steps".
std::string optimizer_text(const ModelProgram& program) {
  if (program.updates.empty()) return "that of the job";
  std::string text = "its own: " + counted(program.updates.size(), "update");
  // What the engine cannot execute is reported where a job uses it.
  if (const auto updates = gpu::import_updates(program))
    text += ", " + std::to_string(std::ranges::count_if(updates->updates, gpu::is_element_wise)) +
            " of them element by element";
  if (program.numbers.empty()) return text;
  return text + "; " + counted(program.numbers.size(), "number") + " a step for " +
         counted(program.numbers[0].values.size(), "step");
}

// The programs of the model: "1", or "2 losses, with a step in every 1, 5 iterations".
std::string programs_text(const ModelProgram& program) {
  std::string text = std::to_string(1 + program.programs.size());
  if (program.every.empty()) return text;
  text += " losses, with a step in every";
  for (std::size_t i = 0; i < program.every.size(); ++i)
    text += (i == 0 ? " " : ", ") + std::to_string(program.every[i]);
  return text + " iterations";
}

}  // namespace

std::string program_text(const ModelProgram& program, const Digest& digest) {
  return table({{"model", program.name},
                {"written by", program.producer},
                {"format", std::to_string(program.format)},
                {"digest", digest.hex()},
                {"parameters", parameters_text(program)},
                {"statistics", counted(program.statistics.size(), "tensor")},
                {"states", counted(program.states.size(), "tensor")},
                {"buffers", counted(program.buffers.size(), "tensor")},
                {"constants", std::to_string(program.constants.size())},
                {"nodes", std::to_string(program.nodes.size())},
                {"programs", programs_text(program)},
                {"optimizer", optimizer_text(program)}}) +
         "\n" + values_text(program) + "\n" + kinds_text(program) + further_text(program);
}

std::string packed_text(const std::string& file, const Digest& digest) {
  return table({{"file", file}, {"digest", digest.hex()}});
}

std::string packed_json(const std::string& file, const Digest& digest) {
  return fields_json({{"file", file}, {"digest", digest.hex()}});
}

}  // namespace es::actors::esctl
