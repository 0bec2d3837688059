#pragma once
// The operations on the rows of scores of a strip (attention_math.h) between its products.
//
// Rows in the workspace begin at vector boundaries. Dense rows would be slow: each row would be
// loaded directly after a store that also covers its first lanes.
#include "gpu/canonical/vec/dropout.h"
#include "gpu/canonical/vec/elementwise.h"
#include "gpu/canonical/vec/softmax.h"

namespace es::gpu {
namespace {

inline bool drops(const AttentionShape& s) {
  return s.dropout.threshold != 0;
}

// Floats between rows. Rows at multiples of 1,024 floats would share their sets in the caches.
inline std::int64_t row_stride(const AttentionShape& s) {
  const std::int64_t stride = round_up(keys_of(s), kWidth);
  return stride % 128 == 0 ? stride + kWidth : stride;
}

// Returns the queries of a strip: a divisor of a chunk of DOT, or all queries. The rows of a strip
// stay in the second-level cache.
inline std::int64_t strip_rows(const AttentionShape& s) {
  constexpr std::int64_t kFloats = 96 * 1024, kFewest = 16, kMost = 128;
  std::int64_t rows = kMost;
  while (rows > kFewest && rows * keys_of(s) > kFloats) rows /= 2;
  return smaller(rows, queries_of(s));
}

// The dropout decisions of a strip.
class StripDropout {
 public:
  // Returns the floats for the decisions, beginning with the block that contains the first one.
  static std::int64_t floats(const AttentionShape& s) {
    if (!drops(s)) return 0;
    const std::int64_t blocks = strip_rows(s) * keys_of(s) / kDropoutBlock + 2;
    return round_up(blocks * kDropoutBlock / 8 + kKeepSlack, 64) / 4;
  }

  // Computes the decisions of the strip; `head` is the first one of the head.
  StripDropout(const AttentionShape& s, const DropoutKey& key, std::int64_t head,
               const Strip& strip, float* memory)
      : bits_(reinterpret_cast<std::uint8_t*>(memory)), factor_(set(s.dropout.factor)) {
    if (!drops(s)) return;
    const std::int64_t first = head + strip.begin * keys_of(s);
    skipped_ = first % kDropoutBlock;
    keep_bits(s.dropout, key, first / kDropoutBlock,
              ceil_div(skipped_ + strip.rows() * keys_of(s), kDropoutBlock), bits_);
  }
  // Applies dropout to the vector v of the elements i, i + 1, ... of the strip.
  Vec operator()(std::int64_t i, Vec v) const {
    return keep_if_or_nan(kept_lanes(bits_, skipped_ + i), mul(v, factor_));
  }

 private:
  std::uint8_t* bits_;
  std::int64_t skipped_ = 0;
  Vec factor_;
};

// What turns the products of a query with the keys into scores.
struct ScoreTerms {
  const float *bias, *mask;  // nullptr: none
  KeyRange seen;             // the scores of other keys are -inf
  Vec scale;

  // Returns vector i of the scores. load_at(p) reads a vector.
  template <class Load>
  inline __attribute__((always_inline)) Vec score(std::int64_t i, Vec product, Load load_at) const {
    Vec x = mul(product, scale);
    if (bias != nullptr) x = add(x, load_at(bias + i));
    if (mask != nullptr) x = add(x, load_at(mask + i));
    const Vec lowest = set(-kInfinity);
    if (i < seen.begin) x = first_or(lowest, x, first_lanes(smaller(kWidth, seen.begin - i)));
    if (i + kWidth <= seen.end) return x;
    return first_or(x, lowest, first_lanes(larger(0, seen.end - i)));
  }
};

// The rows of one strip of a sequence and head.
class StripRows {
 public:
  StripRows(const AttentionShape& s, const AttentionExtras& extras, std::int64_t b, std::int64_t h,
            const Strip& strip, const StripDropout& dropout)
      : s_(s),
        extras_(extras),
        b_(b),
        h_(h),
        strip_(strip),
        dropout_(dropout),
        short_(smaller(strip.keys, kSumLanes)),
        keys_(keys_of(s)),
        stride_(row_stride(s)) {}

  // Turns the products with the keys into probabilities after dropout. `stats` are those of the
  // head.
  void probabilities(float* scores, float* stats) const {
    for (std::int64_t r = 0; r < strip_.rows(); ++r) {
      float* const row = scores + r * stride_;
      const RowStats kept =
          strip_.keys <= kSumLanes ? short_probabilities(r, row) : long_probabilities(r, row);
      float* const to = stats + (strip_.begin + r) * kRowStats;
      // The addition of +0 removes the sign of a zero, which depends on the order of comparisons.
      to[0] = kept.shift + 0.0f;
      to[1] = kept.scale;
    }
  }

  // Turns the products with the keys into probabilities after dropout again, and the gradients of
  // these, in `slopes`, into those of the products. Rows of `sums`, if it is not nullptr, receive
  // the gradients of the scores in addition.
  void gradients(float* scores, float* slopes, const float* stats, float* sums) const {
    for (std::int64_t r = 0; r < strip_.rows(); ++r) {
      const float* const kept = stats + (strip_.begin + r) * kRowStats;
      const Row row{r * keys_,
                    terms(r),
                    {kept[0], kept[1]},
                    scores + r * stride_,
                    slopes + r * stride_,
                    sums == nullptr ? nullptr : sums + r * stride_};
      strip_.keys <= kSumLanes ? short_gradients(row) : long_gradients(row);
    }
  }

 private:
  struct Row {
    std::int64_t decision;  // the number of the first one in the strip
    ScoreTerms terms;
    RowStats stats;
    float *scores, *slopes, *sums;
  };

  ScoreTerms terms(std::int64_t r) const {
    const std::int64_t query = strip_.begin + r;
    return {bias_row(s_, extras_, h_, query), mask_row(s_, extras_, b_, h_, query),
            keys_seen(s_, extras_, b_, query), set(s_.scale)};
  }
  Vec dropped(std::int64_t i, Vec v) const { return drops(s_) ? dropout_(i, v) : v; }

  RowStats short_probabilities(std::int64_t r, float* scores) const {
    const ScoreTerms t = terms(r);
    return short_.softmax(
        [&](std::int64_t i, Mask m) {
          return t.score(i, load(scores + i), [m](const float* p) { return load(p, m); });
        },
        [&](std::int64_t i, Mask, Vec p) { store(scores + i, dropped(r * keys_ + i, p)); });
  }

  RowStats long_probabilities(std::int64_t r, float* scores) const {
    const ScoreTerms t = terms(r);
    const Vec lowest = set(-kInfinity);
    Vec best = lowest;
    for_vectors(strip_.keys, [&](std::int64_t i, auto at) {
      const Vec x = t.score(i, at.load(scores + i), [&](const float* p) { return at.load(p); });
      at.store(scores + i, x);
      best = larger_of(best, at.keep_or(x, lowest));
    });
    const float shift = softmax_shift(largest_lane(best));
    const float scale = softmax_scale(exponentials(strip_.keys, scores, shift, scores));
    const Vec factor = set(scale);
    for_vectors(strip_.keys, [&](std::int64_t i, auto at) {
      at.store(scores + i, dropped(r * keys_ + i, mul(at.load(scores + i), factor)));
    });
    return {shift, scale};
  }

  // Returns vector i of the probabilities, given their products.
  template <class Load>
  inline __attribute__((always_inline)) Vec probability(const Row& row, std::int64_t i, Vec product,
                                                        Load load_at) const {
    const Vec x = row.terms.score(i, product, load_at);
    return mul(canonical_exp(sub(x, set(row.stats.shift))), set(row.stats.scale));
  }

  // Writes vector i of a row: the probability p and the gradient of the score.
  template <class Store>
  inline __attribute__((always_inline)) void finish(const Row& row, std::int64_t i, Vec p,
                                                    Vec gradient, Store store_at) const {
    // Lanes beyond the row get numbers that are never read.
    if (row.sums != nullptr) store(row.sums + i, add(load(row.sums + i), gradient));
    store_at(row.slopes + i, mul(gradient, set(s_.scale)));
    if (drops(s_)) store_at(row.scores + i, dropout_(row.decision + i, p));
  }

  void short_gradients(const Row& row) const {
    short_.gradient(
        [&](std::int64_t i, Mask m) {
          const Vec p = probability(row, i, load(row.scores + i),
                                    [m](const float* at) { return load(at, m); });
          if (!drops(s_)) store(row.scores + i, p);
          return p;
        },
        [&](std::int64_t i, Mask m) { return dropped(row.decision + i, load(row.slopes + i, m)); },
        [&](std::int64_t i, Mask, Vec p, Vec gradient) {
          finish(row, i, p, gradient, [](float* at, Vec v) { store(at, v); });
        });
  }

  void long_gradients(const Row& row) const {
    const float total = sum64_chunks(strip_.keys, [&](std::int64_t begin, std::int64_t count) {
      SumLanes lanes;
      for_sum_lanes(count, [&](std::int64_t j, auto at, int v) {
        const std::int64_t i = begin + j;
        const Vec p = at.keep(probability(row, i, at.load(row.scores + i),
                                          [&](const float* from) { return at.load(from); }));
        const Vec slope = dropped(row.decision + i, at.load(row.slopes + i));
        at.store(row.scores + i, p);
        at.store(row.slopes + i, slope);
        lanes.sum[v] = fma(slope, p, lanes.sum[v]);
      });
      return lanes.fold();
    });
    for_vectors(strip_.keys, [&](std::int64_t i, auto at) {
      const Vec p = at.load(row.scores + i);
      finish(row, i, p, mul(p, sub(at.load(row.slopes + i), set(total))),
             [&](float* to, Vec v) { at.store(to, v); });
    });
  }

  const AttentionShape& s_;
  const AttentionExtras& extras_;
  std::int64_t b_, h_;
  const Strip& strip_;
  const StripDropout& dropout_;
  ShortRow short_;
  std::int64_t keys_, stride_;
};

}  // namespace
}  // namespace es::gpu
