#include "gpu/import/softmax.h"

namespace es::gpu {

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

}  // namespace es::gpu
