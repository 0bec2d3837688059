// Kinds that draw random numbers. Dropouts are among the kinds that work element by element.
#include "gpu/import/kind.h"
#include "gpu/import/lowering.h"

namespace es::gpu {
namespace {

// The claim is the shape, as there is no input that could say it.
Outputs claimed_numbers(const NodeView& node) {
  if (node.node().outputs.size() != 1) return usage_error("random numbers are one output");
  return one_output(ValueType::kF32, node.out().shape);
}

std::uint32_t site_of(const NodeView& node) {
  return static_cast<std::uint32_t>(node.integer("site"));
}

// The numbers are those of the elements in logical order. A value without axes is stored as [1].
TensorId draw(GraphBuilder& b, const NodeView& node, std::uint32_t site) {
  const TensorShape& shape = node.out().shape;
  b.set_site(site);
  return b.uniform(node.label(), shape.rank() == 0 ? TensorShape{1} : shape);
}

void lower_uniform(Lowering& l, const NodeView& node) {
  l.set_logical(node, draw(l.builder(), node, site_of(node)));
}

// Box and Muller (1958): sqrt(-2 log(1 - u)) * cos(2 pi v), with two independent uniform numbers
// for each result. 1 - u is exact and never 0. The second numbers have a site that no file can
// name, so no other node draws them.
void lower_normal(Lowering& l, const NodeView& node) {
  constexpr std::uint32_t kSecondSite = 0x80000000;
  constexpr float kTwoPi = 0x1.921fb6p+2F;
  GraphBuilder& b = l.builder();
  const std::string name = node.label();
  const TensorId negative = b.unary(name, Function::kNegate, draw(b, node, site_of(node)));
  const TensorId above_zero = b.unary(name, Function::kAddScalar, negative, {.a = 1.0F});
  const TensorId log = b.unary(name, Function::kLog, above_zero);
  const TensorId radius = b.unary(name, Function::kSqrt, b.scale(name, log, -2.0F));
  const TensorId angle = b.scale(name, draw(b, node, site_of(node) | kSecondSite), kTwoPi);
  l.set_logical(node, b.mul(name, radius, b.unary(name, Function::kCos, angle)));
}

Kind numbers_kind(const char* name, const char* result, void (*lower)(Lowering&, const NodeView&)) {
  return {.name = name,
          .result = result,
          .attributes = {integer("site", 0, 0x7fffffff)},
          .outputs = claimed_numbers,
          .lower = lower};
}

}  // namespace

std::vector<Kind> random_kinds() {
  return {
      numbers_kind("uniform", "numbers in [0, 1), multiples of 2^-24, in the shape of the output",
                   lower_uniform),
      numbers_kind("normal", "standard normal numbers in the shape of the output", lower_normal)};
}

}  // namespace es::gpu
