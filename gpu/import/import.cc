#include "gpu/import/import.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "gpu/graph/update_graphs.h"
#include "gpu/import/check.h"
#include "gpu/import/import_updates.h"
#include "gpu/import/kind.h"
#include "gpu/import/lowering.h"

namespace es::gpu {
namespace {

// Marks the nodes on which the loss, an output or the next content of a state depends, in reverse,
// as readers come after what they read. A zero_loss is a term of the loss. The other nodes are left
// out, so that they need neither be supported nor take time.
std::vector<bool> live_nodes(const ModelProgram& program) {
  std::vector<bool> needed(program.values.size(), false), live(program.nodes.size(), false);
  const auto need = [&](ValueId id) {
    if (id != kNoValue) needed[static_cast<std::size_t>(id)] = true;
  };
  need(program.loss);
  for (const ModelOutput& output : program.outputs) need(output.value);
  for (std::size_t n = program.nodes.size(); n-- > 0;) {
    if (program.nodes[n].kind == kSetState || program.nodes[n].kind == kZeroLoss) live[n] = true;
    for (const ValueId id : program.nodes[n].outputs)
      if (needed[static_cast<std::size_t>(id)]) live[n] = true;
    if (!live[n]) continue;
    for (const ValueId id : program.nodes[n].inputs) need(id);
  }
  return live;
}

// Lists what the engine cannot execute: each kind and reason once, with the number of its nodes and
// the first of them.
class Unsupported {
 public:
  void look_at(const NodeView& node) {
    const Kind& kind = node.kind();
    const std::string reason = kind.unsupported == nullptr ? "" : kind.unsupported(node);
    if (reason.empty()) return;
    Entry& entry = entries_[std::string(kind.name) + ": " + reason];
    if (entry.nodes++ == 0) entry.first = node.where();
  }

  Status result() const {
    if (entries_.empty()) return {};
    std::string text = "unsupported nodes:";
    for (const auto& [what, entry] : entries_)
      text += (text.back() == ':' ? " " : "; ") + what + " (" + std::to_string(entry.nodes) +
              " x, first " + entry.first + ")";
    return usage_error(text);
  }

 private:
  struct Entry {
    std::int64_t nodes = 0;
    std::string first;
  };
  std::map<std::string, Entry> entries_;  // [kind and reason]
};

void lower_node(Lowering& l, const NodeView& node) {
  const Kind& kind = node.kind();
  bool has_longs = node.out().type == ValueType::kI64;
  for (std::size_t slot = 0; slot < node.inputs(); ++slot)
    has_longs = has_longs || (node.has(slot) && node.in(slot).type == ValueType::kI64);
  if (!has_longs) return kind.lower(l, node);
  if (kind.lower_long != nullptr) return kind.lower_long(l, node);
  for (const bool high : {true, false}) {
    l.select_word(high);
    kind.lower(l, node);
  }
}

// Finds the nodes that are lowered.
Status find_live(const ModelProgram& program, std::int64_t batch, LiveProgram& live) {
  if (batch < 1)
    return usage_error("batch_size = " + std::to_string(batch) + ": allowed is 1 or more");
  // check_program() has checked the batch sizes 2 and 3. This one can still fail, for example by a
  // variance over the batch axis, which needs more than one sample, or by a value that becomes too
  // large.
  ES_RETURN_IF_ERROR(check_shapes(program, batch));
  auto values = values_at(program.values, batch);
  if (!values) return values.error();
  live.program = &program;
  live.values = *std::move(values);
  const std::vector<bool> is_live = live_nodes(program);
  Unsupported unsupported;
  for (std::size_t n = 0; n < program.nodes.size(); ++n) {
    if (!is_live[n]) continue;
    live.nodes.emplace_back(*find_kind(program.nodes[n].kind), program.nodes[n], n, live.values);
    unsupported.look_at(live.nodes.back());
  }
  live.uses = uses_of_values(live);
  // All nodes have been looked at, so the user sees the complete list at once.
  return unsupported.result();
}

Result<Graph> lower(const LiveProgram& live, const StoredModel& stored, std::int64_t batch) {
  const ModelProgram& program = *live.program;
  GraphBuilder builder(program.name, batch, layout_of(program), stored.table);
  Lowering lowering(live, stored, batch, builder);
  for (const NodeView& node : live.nodes) {
    builder.set_region(node.node().region);
    lower_node(lowering, node);
    if (builder.failed()) break;  // the value of the node may be missing
  }
  builder.set_region(0);
  return lowering.finish();
}

Error in_program(std::size_t program, const Error& error) {
  return usage_error("programs[" + std::to_string(program) + "]: " + error.message);
}

}  // namespace

SampleLayout program_layout(const ModelProgram& program) {
  return layout_of(program);
}

Result<Graph> import_nodes(const ModelProgram& program, std::int64_t batch) {
  std::vector<LiveProgram> programs(1);
  ES_RETURN_IF_ERROR(find_live(program, batch, programs.front()));
  return lower(programs.front(), stored_model(programs), batch);
}

Result<Graph> import_model(const ModelProgram& program, std::int64_t batch) {
  // Nodes are views of what is in this list.
  std::vector<LiveProgram> programs(1 + program.programs.size());
  ES_RETURN_IF_ERROR(find_live(program, batch, programs.front()));
  for (std::size_t p = 0; p < program.programs.size(); ++p) {
    const Status found = find_live(program.programs[p], batch, programs[p + 1]);
    if (!found.ok()) return in_program(p, found.error());
  }
  const StoredModel stored = stored_model(programs);
  auto graph = lower(programs.front(), stored, batch);
  if (!graph) return graph;
  for (std::size_t p = 0; p < program.programs.size(); ++p) {
    auto further = lower(programs[p + 1], stored, batch);
    if (!further) return in_program(p, further.error());
    graph->programs.push_back(*std::move(further));
  }
  if (program.updates.empty()) return graph;
  auto updates = import_updates(program);
  if (!updates) return updates.error();
  graph->updates = std::make_shared<const ModelUpdates>(*std::move(updates));
  return graph;
}

}  // namespace es::gpu
