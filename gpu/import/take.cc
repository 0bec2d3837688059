#include "gpu/import/take.h"

namespace es::gpu {

// The axes up to this one become rows, so that no element has to be moved first. Row numbers are
// first + index, where `first` is the first row of each outer place. The builder derives their
// range from the constants, so it can prove that they are inside the table.
TensorId take_along(GraphBuilder& b, const std::string& name, TensorId x, int axis,
                    const std::vector<std::int32_t>& index) {
  const TensorShape in = b.shape(x);
  const auto count = static_cast<std::int64_t>(index.size());
  const std::int64_t outer = in.count(0, axis), extent = in[axis];
  const TensorId table = b.reshape(name, x, {outer * extent, in.count(axis + 1, in.rank())});
  const TensorId first =
      b.binary(name, Function::kMul, b.reshape(name, b.numbers(name, outer), {outer, 1}),
               b.constant_ids(name, {1}, {static_cast<std::int32_t>(extent)}));
  const TensorId rows = b.binary(name, Function::kAdd, first, b.constant_ids(name, {count}, index));
  return b.reshape(name, b.take_rows(name, table, rows), with_extent(in, axis, count));
}

}  // namespace es::gpu
