#pragma once
// Executes a chain of operations over rows in memory in one thread, without waiting for each row.
#include <cstdint>

#include "gpu/canonical/on_device.h"

namespace es::gpu::cuda {
namespace {

// Processes the rows [base, base + kAtOnce): first all loads, then the chain.
template <int kAtOnce, bool kWhole, class Load, class Chain>
ES_HD void walk_rows(std::int64_t base, std::int64_t count, Load load, Chain chain) {
  decltype(load(base)) rows[kAtOnce] = {};
  ES_UNROLL
  for (int r = 0; r < kAtOnce; ++r) {
    if (kWhole || base + r < count) rows[r] = load(base + r);
  }
  ES_UNROLL
  for (int r = 0; r < kAtOnce; ++r) {
    if (kWhole || base + r < count) chain(rows[r]);
  }
}

// Executes a chain over `count` rows: chain(row) in ascending order, where load(r) reads the data
// of row r. The loads of kAtOnce rows are in flight together.
template <int kAtOnce, class Load, class Chain>
ES_HD void walk_run(std::int64_t count, Load load, Chain chain) {
  std::int64_t base = 0;
  for (; base + kAtOnce <= count; base += kAtOnce)
    walk_rows<kAtOnce, true>(base, count, load, chain);
  for (; base < count; base += kAtOnce) walk_rows<kAtOnce, false>(base, count, load, chain);
}

}  // namespace
}  // namespace es::gpu::cuda
