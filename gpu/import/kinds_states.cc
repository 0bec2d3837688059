// States.
#include "gpu/import/kind.h"
#include "gpu/import/lowering.h"
#include "gpu/import/shape_rules.h"

namespace es::gpu {
namespace {

void lower_set_state(Lowering& l, const NodeView& node) {
  l.set_logical(node, l.set_state(node.label(), node.integer("state"), l.logical(node, 0)));
}

}  // namespace

std::vector<Kind> state_kinds() {
  return {{.name = kSetState.data(),
           .result = "x, which is the content of the state in the next step",
           .slots = {{"x", "fib"}},
           .attributes = {integer("state", 0, 0x7fffffff)},
           .outputs = same_as_input,
           .lower = lower_set_state}};
}

}  // namespace es::gpu
