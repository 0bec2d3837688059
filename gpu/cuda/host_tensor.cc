#include "gpu/cuda/host_tensor.h"

#include <utility>

#include "proto/base/check.h"

namespace es::gpu::cuda::on_host {
namespace {

constexpr unsigned kGroup = 128;  // threads

std::int32_t number(std::uint8_t byte, bool is_signed) {
  return is_signed ? static_cast<std::int8_t>(byte) : byte;
}

// The bytes of a factor as numbers: kLines rows of A, or columns of B, of kDepth numbers each.
template <int kLines, int kDepth>
struct Factor {
  std::int16_t at[kLines][kDepth];

  // Four bytes that one thread holds.
  void set(unsigned line, unsigned k, std::uint32_t word, bool is_signed) {
    for (unsigned i = 0; i < 4; ++i)
      at[line][k + i] =
          static_cast<std::int16_t>(number(static_cast<std::uint8_t>(word >> 8 * i), is_signed));
  }
};

template <int kDepth>
std::int32_t sum_of_products(const std::int16_t (&a)[kDepth], const std::int16_t (&b)[kDepth]) {
  std::int32_t sum = 0;
  for (int k = 0; k < kDepth; ++k) sum += a[k] * b[k];
  return sum;
}

// 8 x 16 by 16 x 8: rows of A in the words `a` of all threads, columns of B in the words `b`, the
// results in two words from `c` on.
void multiply_small(const RunFragments& run, int a, int b, int c) {
  Factor<8, 16> left, right;
  for (unsigned lane = 0; lane < run.size(); ++lane) {
    left.set(lane / 4, lane % 4 * 4, run[lane]->a[a], run[lane]->signs.a);
    right.set(lane / 4, lane % 4 * 4, run[lane]->b[b], run[lane]->signs.b);
  }
  for (unsigned lane = 0; lane < run.size(); ++lane)
    for (unsigned i = 0; i < 2; ++i)
      run[lane]->c[c + static_cast<int>(i)] +=
          sum_of_products(left.at[lane / 4], right.at[lane % 4 * 2 + i]);
}

// The address of the 16 bytes from k = 16 * unit on of a row, by the descriptor of a matrix in core
// matrices without swizzle.
std::uint32_t place_of(std::uint64_t matrix, unsigned row, unsigned unit) {
  const auto field = [&](int bit) {
    return static_cast<std::uint32_t>(matrix >> bit & 0x3fff) << 4;
  };
  const std::uint32_t start = field(0), across = field(16), down = field(32);
  return start + unit * across + row / 8 * down + row % 8 * 16;
}

}  // namespace

void multiply_m16n8k32(const RunFragments& run) {
  Factor<16, 32> left;
  Factor<8, 32> right;
  for (unsigned lane = 0; lane < run.size(); ++lane) {
    const Fragments& mine = *run[lane];
    // The words of A: rows of 0 to 7 and of 8 to 15 with k below 16, then both with k from 16 on.
    for (unsigned i = 0; i < 4; ++i)
      left.set(lane / 4 + i % 2 * 8, i / 2 * 16 + lane % 4 * 4, mine.a[i], mine.signs.a);
    for (unsigned i = 0; i < 2; ++i)
      right.set(lane / 4, i * 16 + lane % 4 * 4, mine.b[i], mine.signs.b);
  }
  for (unsigned lane = 0; lane < run.size(); ++lane)
    for (unsigned i = 0; i < 4; ++i)
      run[lane]->c[i] +=
          sum_of_products(left.at[lane / 4 + i / 2 * 8], right.at[lane % 4 * 2 + i % 2]);
}

void multiply_m8n8k16(const RunFragments& run) {
  multiply_small(run, 0, 0, 0);
  multiply_small(run, 2, 1, 0);
  multiply_small(run, 1, 0, 2);
  multiply_small(run, 3, 1, 2);
}

HostProducts::HostProducts(const HostShared& shared, unsigned threads, bool at_once)
    : shared_(shared),
      at_once_(at_once),
      threads_(threads),
      added_((threads + kGroup - 1) / kGroup) {}

void HostProducts::begin(unsigned thread) {
  threads_[thread].began = true;
}

void HostProducts::add(unsigned thread, std::int32_t* c, std::uint64_t a, std::uint64_t b,
                       Signs signs) {
  Thread& mine = threads_[thread];
  ES_CHECK_MSG(mine.began, "products without begin_products()");
  const Product product{c, {a, b, signs}};
  auto& all = added_[thread / kGroup];
  if (mine.added == all.size()) all.push_back(product.factors);
  ES_CHECK_MSG(all[mine.added++] == product.factors, "the runs of a group add different products");
  mine.open.push_back(product);
  if (at_once_) make(thread, product);
}

void HostProducts::end(unsigned thread) {
  Thread& mine = threads_[thread];
  mine.sets.push_back(std::exchange(mine.open, {}));
  mine.began = false;
}

void HostProducts::await(unsigned thread, std::size_t newest) {
  auto& sets = threads_[thread].sets;
  while (sets.size() > newest) {
    if (!at_once_)
      for (const Product& product : sets.front()) make(thread, product);
    sets.erase(sets.begin());
  }
}

// A run has 16 rows, and a thread the columns 2 * (lane % 4) and the next of each eight.
void HostProducts::make(unsigned thread, const Product& product) const {
  const unsigned lane = thread % 32, top = thread % kGroup / 32 * 16 + lane / 4;
  const auto [a, b, signs] = product.factors;
  for (unsigned unit = 0; unit < 2; ++unit) {
    const std::uint8_t* const rows[] = {shared_.read(place_of(a, top, unit)),
                                        shared_.read(place_of(a, top + 8, unit))};
    for (unsigned i = 0; i < 32; i += 2) {
      const unsigned col = i / 4 * 8 + lane % 4 * 2;
      const std::uint8_t* const row = rows[i / 2 % 2];
      for (unsigned j = 0; j < 2; ++j) {
        const std::uint8_t* const column = shared_.read(place_of(b, col + j, unit));
        std::int32_t sum = 0;
        for (int k = 0; k < 16; ++k) sum += number(row[k], signs.a) * number(column[k], signs.b);
        product.c[i + j] += sum;
      }
    }
  }
}

void HostProducts::check_end() const {
  for (std::size_t i = 0; i < threads_.size(); ++i) {
    ES_CHECK_MSG(threads_[i].open.empty() && threads_[i].sets.empty(),
                 "products that nobody awaits");
    ES_CHECK_MSG(threads_[i].added == added_[i / kGroup].size() || threads_[i].added == 0,
                 "a run of a group adds fewer products than the others");
  }
}

}  // namespace es::gpu::cuda::on_host
