#pragma once
// Element-wise chains. Blocks of elements that fit the first-level cache pass through one stage
// after the other.
#include "gpu/canonical/vec/bf16.h"
#include "gpu/canonical/vec/dropout.h"
#include "gpu/canonical/vec/elementwise.h"
#include "gpu/canonical/vec/math.h"

namespace es::gpu {
namespace {

constexpr std::int64_t kChainBlock = kKeepBlocks * kDropoutBlock;
// Rows that are shorter are repeated in memory, so that a vector of them can be loaded at any
// position.
constexpr std::int64_t kShortRow = 64;

// to[i] = from[i] + row[(first + i) % columns] for a short row.
inline void add_short_row(std::int64_t n, std::int64_t first, std::int64_t columns,
                          const float* row, const float* from, float* to) {
  float repeated[kShortRow + kWidth];
  for (std::int64_t i = 0, j = 0; i < columns + kWidth; ++i, j = j + 1 < columns ? j + 1 : 0) {
    repeated[i] = row[j];
  }
  const std::int64_t step = kWidth % columns;
  std::int64_t at_row = first % columns;
  for_vectors(n, [&](std::int64_t i, auto at) {
    at.store(to + i, add(at.load(from + i), at.load(repeated + at_row)));
    at_row += step;
    at_row -= at_row >= columns ? columns : 0;
  });
}

inline void add_row(std::int64_t n, std::int64_t first, std::int64_t columns, const float* row,
                    const float* from, float* to) {
  if (columns < kShortRow) return add_short_row(n, first, columns, row, from, to);
  std::int64_t column = first % columns;
  for (std::int64_t i = 0; i < n; column = 0) {
    const std::int64_t count = smaller(n - i, columns - column);
    for_vectors(count, [&](std::int64_t j, auto at) {
      at.store(to + i + j, add(at.load(from + i + j), at.load(row + column + j)));
    });
    i += count;
  }
}

// There is one decision for each run of `columns` elements.
inline void drop_runs(const ChainStage& stage, const DropoutKey& key, std::int64_t first,
                      std::int64_t n, const float* from, float* to) {
  if (stage.dropout.threshold == 0) return copy_floats(to, from, n);
  for (std::int64_t i = 0; i < n;) {
    const std::int64_t run = (first + i) / stage.columns;
    const std::int64_t count = smaller(n - i, (run + 1) * stage.columns - (first + i));
    if (keeps(stage.dropout, key, run)) {
      scale(count, from + i, stage.dropout.factor, to + i);
    } else {
      for_vectors(count, [=](std::int64_t j, auto at) {
        const Vec v = at.load(from + i + j);
        at.store(to + i + j, keep_if(unordered(v, v), v));
      });
    }
    i += count;
  }
}

// to[i] = function(from[i])
template <class Function>
inline __attribute__((always_inline)) void map(std::int64_t n, const float* from, float* to,
                                               Function function) {
  for_columns<2>(n, [&](std::int64_t i, auto at, auto vecs) {
#pragma GCC unroll 2
    for (int v = 0; v < decltype(vecs)::value; ++v) {
      at.store(to + i + v * kWidth, function(at.load(from + i + v * kWidth)));
    }
  });
}

// to[i] = function(from[i], operand[i])
template <class Function>
inline __attribute__((always_inline)) void map(std::int64_t n, const float* from,
                                               const float* operand, float* to, Function function) {
  for_columns<2>(n, [&](std::int64_t i, auto at, auto vecs) {
#pragma GCC unroll 2
    for (int v = 0; v < decltype(vecs)::value; ++v) {
      const std::int64_t j = i + v * kWidth;
      at.store(to + j, function(at.load(from + j), at.load(operand + j)));
    }
  });
}

// Applies one stage to the elements [first, first + n); to[i] is element first + i. `to` may be
// equal to `from` or to the stage's operand at `first`.
inline void chain_stage(const ChainStage& stage, const DropoutKey& key, std::int64_t first,
                        std::int64_t n, const float* from, float* to) {
  const Vec factor = set(stage.factor), one = set(1.0f);
  const float* operand = stage.operand == nullptr ? nullptr : stage.operand + first;
  switch (stage.kind) {
    case ChainKind::kScale:
      return map(n, from, to, [=](Vec v) { return mul(v, factor); });
    case ChainKind::kAdd:
      return map(n, from, operand, to, [](Vec v, Vec x) { return add(v, x); });
    case ChainKind::kMul:
      return map(n, from, operand, to, [](Vec v, Vec x) { return mul(v, x); });
    case ChainKind::kAddRow:
      return add_row(n, first, stage.columns, stage.operand, from, to);
    case ChainKind::kRelu:
      return map(n, from, to, [](Vec v) { return positive_part(v); });
    case ChainKind::kLeakyRelu:
      return map(n, from, to, [=](Vec v) { return leaky(v, factor); });
    case ChainKind::kGelu:
      return map(n, from, to, [](Vec v) { return canonical_gelu(v); });
    case ChainKind::kTanh:
      return map(n, from, to, [](Vec v) { return canonical_tanh(v); });
    case ChainKind::kSigmoid:
      return map(n, from, to, [](Vec v) { return canonical_sigmoid(v); });
    case ChainKind::kDropout:
      if (stage.columns != 1) return drop_runs(stage, key, first, n, from, to);
      return drop(stage.dropout, key, first, n, from, to);
    case ChainKind::kReluGrad:
      return map(n, from, operand, to, [](Vec v, Vec y) { return keep_positive(v, y); });
    case ChainKind::kLeakyReluGrad:
      return map(n, from, operand, to, [=](Vec v, Vec y) { return leaky(v, y, factor); });
    case ChainKind::kGeluGrad:
      return map(n, from, operand, to,
                 [](Vec v, Vec x) { return mul(v, canonical_gelu_gradient(x)); });
    case ChainKind::kTanhGrad:
      return map(n, from, operand, to,
                 [=](Vec v, Vec y) { return mul(v, fma(negate(y), y, one)); });
    case ChainKind::kSigmoidGrad:
      return map(n, from, operand, to, [=](Vec v, Vec y) { return mul(v, mul(y, sub(one, y))); });
    case ChainKind::kRoundBf16:
      return map(n, from, to, [](Vec v) { return rounded_to_bf16(v); });
  }
}

// The values between stages are kept apart from y, because y may be an operand of a later stage.
// Blocks end at multiples of kChainBlock, where blocks of dropout decisions end too.
inline void chain(std::int64_t begin, std::int64_t end, const float* x, const ChainStage* stages,
                  std::int64_t count, const DropoutKey& key, float* y) {
  float values[kChainBlock];
  while (begin < end) {
    const std::int64_t n = smaller(end - begin, kChainBlock - begin % kChainBlock);
    const float* from = x + begin;
    for (std::int64_t s = 0; s < count; ++s) {
      float* to = s + 1 < count ? values : y + begin;
      chain_stage(stages[s], key, begin, n, from, to);
      from = to;
    }
    if (count == 0 && x != y) copy_floats(y + begin, x + begin, n);
    begin += n;
  }
}

}  // namespace
}  // namespace es::gpu
