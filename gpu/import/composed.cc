#include "gpu/import/composed.h"

#include <algorithm>

namespace es::gpu {

TensorId concat_all(GraphBuilder& b, const std::string& name, std::vector<TensorId> xs, int axis) {
  // One move takes at most kMoveTensorsMax inputs, so longer lists are joined in several rounds. A
  // concatenation copies, so the grouping changes no bit.
  while (xs.size() > 1) {
    std::vector<TensorId> joined;
    for (std::size_t i = 0; i < xs.size(); i += kMoveTensorsMax) {
      const std::size_t end = std::min(xs.size(), i + kMoveTensorsMax);
      const std::vector<TensorId> group(xs.begin() + static_cast<std::ptrdiff_t>(i),
                                        xs.begin() + static_cast<std::ptrdiff_t>(end));
      joined.push_back(group.size() == 1 ? group[0] : b.concat(name, group, axis));
    }
    xs = std::move(joined);
  }
  return xs[0];
}

TensorId log_softmax(GraphBuilder& b, const std::string& name, TensorId x) {
  const int last = b.shape(x).rank() - 1;
  // log softmax(x) = d - log(sum(exp(d))) with d = x - max(x), so that no exponential overflows.
  // The maximum cancels, so it needs no gradient.
  const TensorId top = b.stop_gradient(name, b.reduce(name, Reduction::kMax, x, {last}, true));
  const TensorId d = b.binary(name, Function::kSub, x, top);
  const TensorId sum =
      b.reduce(name, Reduction::kSum, b.unary(name, Function::kExp, d), {last}, true);
  return b.binary(name, Function::kSub, d, b.unary(name, Function::kLog, sum));
}

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
