#include "gpu/import/state_names.h"

#include <algorithm>
#include <span>
#include <string>
#include <string_view>

#include "proto/base/check.h"

namespace es::gpu {
namespace {

ParamId param_named(const ParamTable& table, const std::string& name) {
  const auto found = std::ranges::find(table.params(), name, &ParamInfo::name);
  ES_CHECK_MSG(found != table.params().end(), name);
  return static_cast<ParamId>(found - table.params().begin());
}

// Returns whether the buffer is the number of batches that a batch norm of the program has seen.
// The export of weights writes this number from the steps of the version, and not from the file.
bool is_batch_count(const ModelProgram& program, const ModelBuffer& buffer) {
  constexpr std::string_view kCount = ".num_batches_tracked";
  if (!buffer.name.ends_with(kCount)) return false;
  const std::string mean =
      buffer.name.substr(0, buffer.name.size() - kCount.size()) + ".running_mean";
  return std::ranges::find(program.statistics, mean, &ModelStatistic::name) !=
         program.statistics.end();
}

}  // namespace

void add_state_names(const ModelProgram& program, ParamTable& table) {
  for (const ModelParameter& parameter : program.parameters)
    for (const std::string& alias : parameter.aliases)
      table.add_alias({alias, param_named(table, parameter.name)});
  for (const ModelBuffer& buffer : program.buffers) {
    if (is_batch_count(program, buffer)) continue;
    const auto bytes = std::as_bytes(std::span(buffer.bytes));
    table.add_buffer({.name = buffer.name,
                      .torch_shape = buffer.shape,
                      .dtype = buffer.dtype,
                      .values = {},
                      .bytes = {bytes.begin(), bytes.end()}});
  }
}

}  // namespace es::gpu
