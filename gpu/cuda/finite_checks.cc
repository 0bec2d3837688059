#include "gpu/cuda/finite_checks.h"

#include <algorithm>
#include <functional>

#include "gpu/graph/ops/operator.h"

namespace es::gpu::cuda {
namespace {

// 16 MiB. More would have left the cache of most GPUs before it is read again.
constexpr std::int64_t kPendingFloatsMax = 4 << 20;

bool overlap(const float* a, std::int64_t a_count, const float* b, std::int64_t b_count) {
  const std::less<const float*> before;
  return before(a, b + b_count) && before(b, a + a_count);
}

}  // namespace

Result<std::unique_ptr<FiniteChecks>> FiniteChecks::create(Device& device, const Graph& graph) {
  std::unique_ptr<FiniteChecks> checks(new FiniteChecks(device, graph));
  for (const std::vector<OpResult>& results : op_results(graph)) {
    checks->begin_.push_back(checks->results_.size());
    checks->results_.insert(checks->results_.end(), results.begin(), results.end());
  }
  checks->begin_.push_back(checks->results_.size());
  checks->pending_.reserve(kFiniteChecksMax);
  // The words lie in pinned host memory. The device writes a word only if it finds something, so a
  // good step transfers nothing.
  const std::size_t count = kVariants * checks->results_.size();
  const auto words = device.allocate_host(count * sizeof(std::int32_t), "flags");
  if (!words) return words.error();
  checks->words_ = checks->found_ = static_cast<std::int32_t*>(*words);
  return checks;
}

void FiniteChecks::begin() {
  std::fill_n(found_, results_.size(), 0);
}

void FiniteChecks::before(Stream stream, std::size_t op, const RunBuffers& buffers) {
  // A view writes nothing, although its output has the address of its input.
  if (op_def(graph_.ops[op].kind).is_view) return;
  for (const TensorId t : graph_.ops[op].out) {
    const float* const written = buffers.tensors[static_cast<std::size_t>(t)];
    const std::int64_t count = graph_.shape(t).count();
    const auto overwritten = [&](const FiniteCheck& check) {
      return overlap(check.x, check.count, written, count);
    };
    // The pending checks must read their values before this operator overwrites them.
    if (std::any_of(pending_.begin(), pending_.end(), overwritten)) return finish(stream);
  }
}

bool FiniteChecks::wanted(const OpResult& result) const {
  return scope_ == Scope::kAll || result.place != OpResult::Place::kTensor ||
         result.tensor == graph_.mean_loss;
}

void FiniteChecks::after(Stream stream, std::size_t op, const RunBuffers& buffers) {
  for (std::size_t i = begin_[op]; i < begin_[op + 1]; ++i) {
    if (!wanted(results_[i])) continue;
    pending_.push_back(
        {results_[i].values(buffers), results_[i].count, found_ + i, results_[i].bf16});
    pending_floats_ += results_[i].count;
    // A launch passes its checks by value and has room for this number.
    if (std::ssize(pending_) == kFiniteChecksMax) finish(stream);
  }
  if (pending_floats_ >= kPendingFloatsMax) finish(stream);
}

void FiniteChecks::finish(Stream stream) {
  if (!pending_.empty())
    device_.kernels().find_non_finite(stream, pending_.data(), std::ssize(pending_));
  pending_.clear();
  pending_floats_ = 0;
}

Fault FiniteChecks::fault(std::size_t first, std::size_t end) const {
  // The operators are visited in the order of execution, because later findings may only be
  // consequences of the first one.
  for (std::size_t op = first; op < end; ++op)
    for (std::size_t i = begin_[op]; i < begin_[op + 1]; ++i)
      if (found_[i] != 0) return {&graph_.ops[op], results_[i].param};
  return {};
}

}  // namespace es::gpu::cuda
