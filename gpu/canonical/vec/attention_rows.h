#pragma once
// The operations on the rows of scores of one head between its products.
//
// The matrices [tokens][tokens] in the workspace have rows that begin at vector boundaries. Dense
// rows would be slow: each row would be loaded directly after a store that also covers its first
// lanes.
#include "gpu/canonical/vec/dropout.h"
#include "gpu/canonical/vec/elementwise.h"
#include "gpu/canonical/vec/softmax.h"

namespace es::gpu {
namespace {

inline bool drops(const AttentionShape& s) {
  return s.dropout.threshold != 0;
}
inline std::int64_t padded_row(const AttentionShape& s) {
  return round_up(s.tokens, kWidth);
}

// The workspace of one head: two matrices [tokens][stride], the levels of a COLSUM of such
// matrices, and the dropout decisions.
struct HeadScratch {
  HeadScratch(const AttentionShape& s, float* ws)
      : stride(padded_row(s)),
        size(s.tokens * stride),
        scores(ws),
        kept(scores + size),
        sums(kept + (drops(s) ? size : 0)),
        bits(reinterpret_cast<std::uint8_t*>(sums + sums_floats(s))),
        end(ws + floats(s)) {}

  static std::int64_t floats(const AttentionShape& s) {
    const std::int64_t size = s.tokens * padded_row(s);
    return size + sums_floats(s) + (drops(s) ? size + bits_floats(s) : 0);
  }

  std::int64_t stride, size;
  float* scores;       // scores, or their gradient
  float* kept;         // the probabilities after dropout
  float* sums;         // levels of the COLSUM of dbias; the highest is the result
  std::uint8_t* bits;  // dropout decisions
  float* end;

 private:
  static std::int64_t sums_floats(const AttentionShape& s) {
    return (colsum_levels(s.batch) + 1) * s.tokens * padded_row(s);
  }
  // Returns the floats for the decisions of a head, beginning with the block that contains the
  // first one.
  static std::int64_t bits_floats(const AttentionShape& s) {
    const std::int64_t bytes = (s.tokens * s.tokens / kDropoutBlock + 2) * kDropoutBlock / 8;
    return round_up(bytes + kKeepSlack, 64) / 4;
  }
};

// Dropout of one head.
class HeadDropout {
 public:
  // Computes the decisions from `first` on.
  HeadDropout(const AttentionShape& s, const DropoutKey& key, std::int64_t first,
              const HeadScratch& scratch)
      : bits_(scratch.bits), skipped_(first % kDropoutBlock), factor_(set(s.dropout.factor)) {
    if (!drops(s)) return;
    const std::int64_t count = skipped_ + s.tokens * s.tokens;
    keep_bits(s.dropout, key, first / kDropoutBlock, ceil_div(count, kDropoutBlock), scratch.bits);
  }
  // Applies dropout to the vector v of the elements i, i + 1, ... of the head.
  Vec operator()(std::int64_t i, Vec v) const {
    return keep_if_or_nan(kept_lanes(bits_, skipped_ + i), mul(v, factor_));
  }

 private:
  const std::uint8_t* bits_;
  std::int64_t skipped_;
  Vec factor_;
};

// The terms that are added to the scores of one sequence and head; nullptr: none.
struct ScoreTerms {
  const float* bias;
  const float* mask;
  std::int64_t keys;  // the scores of later keys are -inf
};

inline ScoreTerms score_terms(const AttentionShape& s, const AttentionExtras& extras,
                              std::int64_t b, std::int64_t h) {
  const std::int64_t size = s.tokens * s.tokens;
  return {extras.bias != nullptr ? extras.bias + h * size : nullptr,
          s.masks != 0 ? extras.mask + b % s.masks * size : nullptr,
          extras.length != nullptr ? extras.length[b] : s.tokens};
}

// Returns vector i of the head's scores, given their product. load_at(p) reads a vector.
template <class Load>
inline __attribute__((always_inline)) Vec finished_score(const ScoreTerms& terms, Vec scale,
                                                         Vec product, std::int64_t i,
                                                         Load load_at) {
  Vec x = mul(product, scale);
  if (terms.bias != nullptr) x = add(x, load_at(terms.bias + i));
  if (terms.mask != nullptr) x = add(x, load_at(terms.mask + i));
  return x;
}

inline void short_rows_softmax(const AttentionShape& s, const ScoreTerms& terms,
                               const HeadDropout& dropout, const HeadScratch& scratch,
                               float* probs) {
  const ShortRow row(s.tokens, terms.keys);
  const Vec scale = set(s.scale);
  const bool keeps_all = !drops(s);
  for (std::int64_t r = 0; r < s.tokens; ++r) {
    const std::int64_t at = r * s.tokens, padded = r * scratch.stride;
    row.softmax(
        [&](std::int64_t i, Mask m) {
          return finished_score(terms, scale, load(scratch.scores + padded + i), at + i,
                                [m](const float* p) { return load(p, m); });
        },
        [&](std::int64_t i, Mask m, Vec p) {
          store(probs + at + i, p, m);
          if (!keeps_all) store(scratch.kept + padded + i, dropout(at + i, p));
        });
  }
}

inline void long_row_softmax(const AttentionShape& s, const ScoreTerms& terms,
                             const HeadDropout& dropout, const HeadScratch& scratch, std::int64_t r,
                             float* probs) {
  const std::int64_t at = r * s.tokens;
  const Vec scale = set(s.scale);
  float* scores = scratch.scores + r * scratch.stride;
  for_vectors(s.tokens, [&](std::int64_t i, auto part) {
    part.store(scores + i, finished_score(terms, scale, part.load(scores + i), at + i,
                                          [&](const float* p) { return part.load(p); }));
  });
  for (std::int64_t i = terms.keys; i < s.tokens; ++i) scores[i] = -kInfinity;
  softmax_long_row(s.tokens, scores, probs + at);
  if (!drops(s)) return;
  float* kept = scratch.kept + r * scratch.stride;
  for_vectors(s.tokens, [&](std::int64_t i, auto part) {
    part.store(kept + i, dropout(at + i, part.load(probs + at + i)));
  });
}

// Turns the products in scratch.scores into probabilities, and with dropout also fills
// scratch.kept.
inline void head_softmax(const AttentionShape& s, const ScoreTerms& terms,
                         const HeadDropout& dropout, const HeadScratch& scratch, float* probs) {
  if (s.tokens <= kSumLanes) return short_rows_softmax(s, terms, dropout, scratch, probs);
  for (std::int64_t r = 0; r < s.tokens; ++r) {
    long_row_softmax(s, terms, dropout, scratch, r, probs);
  }
}

// scratch.kept = the probabilities after dropout.
inline void head_keep(const AttentionShape& s, const HeadDropout& dropout,
                      const HeadScratch& scratch, const float* probs) {
  for (std::int64_t r = 0; r < s.tokens; ++r) {
    const std::int64_t at = r * s.tokens;
    float* kept = scratch.kept + r * scratch.stride;
    for_vectors(s.tokens, [&](std::int64_t i, auto part) {
      part.store(kept + i, dropout(at + i, part.load(probs + at + i)));
    });
  }
}

// Computes one row of the gradient of the scores in place of the gradient of the probabilities
// after dropout. The row is added to the sums of dbias, if these are wanted, before it is scaled.
class GradientRow {
 public:
  GradientRow(const AttentionShape& s, const HeadDropout& dropout, const float* probs, bool sums)
      : short_(smaller(s.tokens, kSumLanes), s.tokens),
        s_(s),
        dropout_(dropout),
        probs_(probs),
        sums_(sums),
        scale_(set(s.scale)) {}

  void run(std::int64_t r, const HeadScratch& scratch) const {
    const std::int64_t at = r * s_.tokens;
    float *ds = scratch.scores + r * scratch.stride, *sum = scratch.sums + r * scratch.stride;
    const auto finish = [&](std::int64_t i, auto store_at, Vec v) {
      // Lanes beyond the row get numbers that are never read.
      if (sums_) store(sum + i, add(load(sum + i), v));
      store_at(ds + i, mul(v, scale_));
    };
    if (s_.tokens <= kSumLanes) {
      return short_.gradient(
          probs_ + at, [&](std::int64_t i, Mask m) { return slope(at, i, load(ds + i, m)); },
          [&](std::int64_t i, Mask, Vec v) {
            finish(
                i, [](float* p, Vec x) { store(p, x); }, v);
          });
    }
    for_vectors(s_.tokens, [&](std::int64_t i, auto part) {
      part.store(ds + i, slope(at, i, part.load(ds + i)));
    });
    const Vec total = set(sum64_products(s_.tokens, ds, probs_ + at));
    for_vectors(s_.tokens, [&](std::int64_t i, auto part) {
      const Vec v = mul(part.load(probs_ + at + i), sub(part.load(ds + i), total));
      finish(
          i, [&](float* p, Vec x) { part.store(p, x); }, v);
    });
  }

 private:
  Vec slope(std::int64_t at, std::int64_t i, Vec v) const {
    return drops(s_) ? dropout_(at + i, v) : v;
  }

  ShortRow short_;
  const AttentionShape& s_;
  const HeadDropout& dropout_;
  const float* probs_;
  bool sums_;
  Vec scale_;
};

// Ends row `row` of `rows` of a COLSUM; the row is already in level 0.
inline void finish_colsum_row(std::int64_t row, std::int64_t rows, const HeadScratch& scratch) {
  for (std::int64_t l = 0; l < colsum_finished(row, rows); ++l) {
    float *level = scratch.sums + l * scratch.size, *above = level + scratch.size;
    add_floats(scratch.size, above, level, above);
    zero_floats(level, scratch.size);
  }
}

}  // namespace
}  // namespace es::gpu
