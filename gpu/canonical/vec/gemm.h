#pragma once
// GEMM. One of the operands stays in the second-level cache while the other passes by, slice by
// slice. A slice is one chunk of K of a tile of rows of A, or of a panel of columns of B. `Form` is
// the form of copied slices: WholeNumbers (gemm_pack.h) or Pairs (pairs.h).
#include "gpu/canonical/vec/exact.h"
#include "gpu/canonical/vec/gemm_narrow.h"
#include "gpu/canonical/vec/gemm_pack.h"
#include "gpu/canonical/vec/gemm_plan.h"
#if defined(__AVX512F__)
#include "gpu/canonical/vec/pairs.h"
#endif

namespace es::gpu {
namespace {

// One product in progress.
struct GemmRun {
  const GemmShape& s;  // REQUIRES: !computes_transpose(s)
  const GemmPlan& plan;
  const float *a, *b;
  const float* bias;  // by column, or by row if `bias_by_row`; nullptr: none
  bool bias_by_row;
  float* c;
  float *a_copy, *b_copy, *stage;
};

// The place from which a tile reads one of its operands.
struct Slice {
  const float* at;
  std::int64_t stride;
};

// --- Slices of A (`lanes` are rows of a tile) and of B (`lanes` are columns of a panel).

template <class Form>
struct LeftSlices {
  const GemmRun& r;

  bool copied() const { return r.plan.copy_a; }
  std::int64_t floats() const { return a_slice_floats(r.plan.side, r.plan.depth_step); }
  float* copies() const { return r.a_copy; }
  std::int64_t copied_stride(const Span&) const {
    return r.plan.side == ASide::kRows ? Form::row_stride(r.plan.depth_step) : kTileRows;
  }
  Slice in_place(const Span& k, const Span& lanes) const {
    return {r.a + lanes.begin * r.s.a_row + k.begin * r.s.a_col,
            r.plan.side == ASide::kRows ? r.s.a_row : r.s.a_col};
  }
  // Copies the k of `part`, which lies in `chunk`, of the slice that begins at `out`.
  void pack(const Span& chunk, const Span& part, const Span& lanes, float* out) const {
    Form::pack_tile(r.s, r.plan.side, chunk, part, lanes, copied_stride(lanes), r.a, out);
  }
  Fetch fetch(const Span& part, const Span& lanes) const {
    const bool by_k = r.s.a_col == 1;
    return fetch_block(r.s.a_stored, r.a, lanes.begin * r.s.a_row + part.begin * r.s.a_col,
                       by_k ? lanes.size() : part.size(), by_k ? part.size() : lanes.size(),
                       by_k ? r.s.a_row : r.s.a_col);
  }
};

template <class Form>
struct RightSlices {
  const GemmRun& r;

  bool copied() const { return r.plan.copy_b; }
  std::int64_t floats() const { return b_slice_floats(kPanelWidth, r.plan.depth_step); }
  float* copies() const { return r.b_copy; }
  std::int64_t copied_stride(const Span& lanes) const { return copied_panel_stride(lanes.size()); }
  Slice in_place(const Span& k, const Span& lanes) const {
    return {r.b + k.begin * r.s.b_row + lanes.begin * r.s.b_col, r.s.b_row};
  }
  void pack(const Span& chunk, const Span& part, const Span& lanes, float* out) const {
    Form::pack_panel(r.s, chunk, part, lanes, r.b, out);
  }
  Fetch fetch(const Span& part, const Span& lanes) const {
    const bool by_k = r.s.b_row == 1;
    return fetch_block(r.s.b_stored, r.b, part.begin * r.s.b_row + lanes.begin * r.s.b_col,
                       by_k ? lanes.size() : part.size(), by_k ? part.size() : lanes.size(),
                       by_k ? r.s.b_col : r.s.b_row);
  }
};

// The slices of the operand that passes by. While one slice is used, the next one is copied part by
// part. Each part is copied after a tile has prefetched it from memory.
template <class Form, class Slices>
class Passing {
 public:
  explicit Passing(const GemmRun& r) : slices_{r} {}

  // Returns the slice that is used now: the one announced before, or the first one.
  Slice current(const Span& chunk, const Span& lanes) {
    if (!slices_.copied()) return slices_.in_place(chunk, lanes);
    if (!ready_) slices_.pack(chunk, chunk, lanes, buffer());
    const Slice slice{buffer(), slices_.copied_stride(lanes)};
    // There are two buffers: the slice in use stays in one, and the next slice is copied to the
    // other.
    turn_ ^= 1;
    ready_ = false;
    return slice;
  }
  // Announces the slice that follows; it is copied in `steps` parts.
  void announce(const Span& chunk, const Span& lanes, std::int64_t steps) {
    chunk_ = chunk;
    lanes_ = lanes;
    next_ = chunk.begin;
    step_ = round_up(ceil_div(chunk.size(), steps), Form::kPart);
    ready_ = true;
  }
  Fetch fetch() const { return pending() ? slices_.fetch(part(), lanes_) : Fetch(); }
  void step() {
    if (!pending()) return;
    slices_.pack(chunk_, part(), lanes_, buffer());
    next_ += step_;
  }

 private:
  bool pending() const { return ready_ && slices_.copied() && next_ < chunk_.end; }
  Span part() const { return {next_, smaller(chunk_.end, next_ + step_)}; }
  float* buffer() const { return slices_.copies() + turn_ * slices_.floats(); }

  Slices slices_;
  int turn_ = 0;
  bool ready_ = false;
  Span chunk_{0, 0}, lanes_{0, 0};
  std::int64_t next_ = 0, step_ = 0;
};

// --- Tiles.

// Adds a tile of one chunk to C, element by element, with the bias.
inline void spread_stage(const GemmRun& r, const Span& k, const Span& rows, const Span& columns) {
  const bool last = k.end == r.s.k && r.bias != nullptr;
  for (std::int64_t i = rows.begin; i < rows.end; ++i) {
    for (std::int64_t j = columns.begin; j < columns.end; ++j) {
      float& c = r.c[i * r.s.c_row + j * r.s.c_col];
      const float sum = r.stage[(i - rows.begin) * kPanelWidth + j - columns.begin];
      // The first chunk is added to +0, as DOT demands. What C contained before is not read.
      c = (k.begin == 0 && !r.s.add ? 0.0f : c) + sum;
      if (last) c = c + r.bias[r.bias_by_row ? i : j];
    }
  }
}

// A tile of results and the chunk by which it advances.
struct Step {
  Span k, rows, columns;
};

template <class Form>
void multiply(const GemmRun& r, const Step& at, const Slice& a, const Slice& b,
              const Fetch& fetch) {
  const bool last = at.k.end == r.s.k && r.bias != nullptr;
  GemmTile t{.a = a.at,
             .a_stride = a.stride,
             .b = b.at,
             .b_stride = b.stride,
             .width = at.columns.size(),
             .depth = Form::words(at.k.size()),
             .c = r.c + at.rows.begin * r.s.c_row + at.columns.begin,
             .c_stride = r.s.c_row,
             .start = nullptr,
             .start_stride = 0,
             .add = at.k.begin != 0 || r.s.add,
             .bias = last ? r.bias + at.columns.begin : nullptr,
             .stream = r.plan.stream && at.columns.size() == kPanelWidth};
  if (r.plan.staged) {
    t.c = r.stage;
    t.c_stride = kPanelWidth;
    t.add = false;
    t.bias = nullptr;
  }
  Form::run_tile(r.plan.side, at.rows.size(), t, fetch);
  if (r.plan.staged) spread_stage(r, at.k, at.rows, at.columns);
}

// --- Loops.

inline Span chunk_at(std::int64_t k, const Span& depth) {
  return {k, smaller(depth.end, k + kDotChunk)};
}
inline Span panel_at(std::int64_t column, const Span& columns) {
  return {column, column + next_panel(columns.end - column)};
}

// Returns a slice of the operand that stays. It is copied to `out` at its first use.
template <class Slices>
Slice staying_slice(const Slices& slices, const Span& chunk, const Span& lanes, float* out,
                    bool first) {
  if (!slices.copied()) return slices.in_place(chunk, lanes);
  if (first) slices.pack(chunk, chunk, lanes, out);
  return {out, slices.copied_stride(lanes)};
}

// Copies the chunks of a block of A that is read in strips: the tiles of all its rows, a few k at a
// time, so that rows of memory are read completely. Returns whether the block is one.
template <class Form>
bool copy_strips(const GemmRun& r, const Span& depth, const Span& rows) {
  if (!r.plan.copy_a || r.plan.side != ASide::kColumns || r.s.a_row != 1) return false;
  float* out = r.a_copy;
  const LeftSlices<Form> left{r};
  const std::int64_t tiles = ceil_div(rows.size(), kTileRows);
  for (Span chunk = chunk_at(depth.begin, depth); chunk.size() > 0;
       chunk = chunk_at(chunk.end, depth), out += tiles * left.floats()) {
    for (std::int64_t k = chunk.begin; k < chunk.end; k += Form::kPart) {
      const Span few{k, smaller(chunk.end, k + Form::kPart)};
      for (std::int64_t i = 0; i < tiles; ++i)
        left.pack(chunk, few, tile_rows(rows, i), out + i * left.floats());
    }
  }
  return true;
}

// The block of A stays, and the panels of B pass by.
template <class Form>
void pass_panels(const GemmRun& r, const Span& depth, const Span& rows) {
  const LeftSlices<Form> left{r};
  Passing<Form, RightSlices<Form>> right(r);
  const Span all{0, r.s.n};
  const std::int64_t tiles = ceil_div(rows.size(), kTileRows);
  const bool copied = copy_strips<Form>(r, depth, rows);
  for (Span columns = panel_at(0, all); columns.size() > 0; columns = panel_at(columns.end, all)) {
    float* slot = left.copies();
    for (Span chunk = chunk_at(depth.begin, depth); chunk.size() > 0;
         chunk = chunk_at(chunk.end, depth)) {
      const Slice b = right.current(chunk, columns);
      const bool turns = chunk.end == depth.end;  // the next slice belongs to the next panel
      const Span next = turns ? panel_at(columns.end, all) : columns;
      if (next.size() > 0) {
        // The chunks of K ascend for each tile, as DOT requires; the order of tiles is free.
        right.announce(chunk_at(turns ? depth.begin : chunk.end, depth), next, tiles);
      }
      for (std::int64_t i = 0; i < tiles; ++i, slot += left.floats()) {
        const Span tile = tile_rows(rows, i);
        const Slice a = staying_slice(left, chunk, tile, slot, !copied && columns.begin == 0);
        multiply<Form>(r, {chunk, tile, columns}, a, b, right.fetch());
        right.step();
      }
    }
  }
}

// The block of B stays, and the tiles of A pass by.
template <class Form>
void pass_tiles(const GemmRun& r, const Span& depth, const Span& block) {
  const RightSlices<Form> right{r};
  Passing<Form, LeftSlices<Form>> left(r);
  const Span all{0, r.s.m};
  const std::int64_t tiles = ceil_div(r.s.m, kTileRows);
  for (std::int64_t i = 0; i < tiles; ++i) {
    float* slot = right.copies();
    for (Span chunk = chunk_at(depth.begin, depth); chunk.size() > 0;
         chunk = chunk_at(chunk.end, depth)) {
      const Span tile = tile_rows(all, i);
      const Slice a = left.current(chunk, tile);
      const bool turns = chunk.end == depth.end;  // the next slice belongs to the next tile
      if (!turns || i + 1 < tiles) {
        left.announce(chunk_at(turns ? depth.begin : chunk.end, depth),
                      turns ? tile_rows(all, i + 1) : tile, ceil_div(block.size(), kPanelWidth));
      }
      for (Span columns = panel_at(block.begin, block); columns.size() > 0;
           columns = panel_at(columns.end, block)) {
        const Slice b = staying_slice(right, chunk, columns, slot, i == 0);
        slot += copied_panel_stride(columns.size()) * chunk.size();
        multiply<Form>(r, {chunk, tile, columns}, a, b, left.fetch());
        left.step();
      }
    }
  }
}

template <class Form>
void run_gemm_with(const GemmRun& r) {
  const GemmPlan& p = r.plan;
  for (std::int64_t i = 0; i < r.s.m; i += p.rows_step) {
    for (std::int64_t j = 0; j < r.s.n; j += p.columns_step) {
      for (std::int64_t k = 0; k < r.s.k; k += p.depth_step) {
        const Span depth{k, smaller(r.s.k, k + p.depth_step)};
        if (p.b_stays) {
          pass_tiles<Form>(r, depth, {j, smaller(r.s.n, j + p.columns_step)});
        } else {
          pass_panels<Form>(r, depth, {i, smaller(r.s.m, i + p.rows_step)});
        }
      }
    }
  }
}

inline void run_gemm(const GemmRun& r) {
#if defined(__AVX512F__)
  if (multiplies_pairs(r.s)) return run_gemm_with<Pairs>(r);
#endif
  run_gemm_with<WholeNumbers>(r);
}

// A shape with all decisions about its execution, for any number of products.
struct PreparedGemm {
  explicit PreparedGemm(const GemmShape& shape)
      : swap(computes_transpose(shape)),
        s(swap ? transposed(shape) : shape),
        narrow(is_narrow(s)),
        plan(plan_gemm(s)) {}

  std::int64_t floats() const {
    // The transposed product may have a bias for each row. run() then needs a stage although the
    // plan has none.
    const std::int64_t general = plan.floats() + (swap ? kStageFloats : 0);
    return larger(general, narrow ? narrow_floats(s) : 0);
  }

  void run(const float* a, const float* b, const float* bias, float* c, float* ws) const {
    const bool bias_by_row = swap && bias != nullptr;
    if (swap) {
      const float* left = a;
      a = b;
      b = left;
    }
    if (narrow && !bias_by_row && !s.add) return gemm_narrow(s, a, b, bias, c, ws);
    GemmPlan p = plan;
    p.staged = p.staged || bias_by_row;
    // Stores that bypass the caches need aligned addresses.
    p.stream = p.stream && reinterpret_cast<std::uintptr_t>(c) % sizeof(Vec) == 0;
    float *b_copy = ws + p.a_floats, *stage = b_copy + p.b_floats;
    const GemmRun r{s, p, a, b, bias, bias_by_row, c, ws, b_copy, stage};
    run_gemm(r);
    // Such stores are weakly ordered. Without the fence another thread could read old values of C
    // after the threads have synchronised.
    if (p.stream) stream_fence();
  }

  bool swap;    // the transpose of the requested product is computed
  GemmShape s;  // shape of the computed product
  bool narrow;
  GemmPlan plan;
};

inline std::size_t gemm_workspace_floats(const GemmShape& shape) {
  if (shape.arithmetic != Arithmetic::kFp32) return exact_workspace_floats(shape);
  return static_cast<std::size_t>(PreparedGemm(shape).floats());
}

inline void gemm(const GemmShape& s, const float* a, const float* b, const float* bias, float* c,
                 float* ws) {
  if (s.arithmetic != Arithmetic::kFp32) return exact_gemm(s, a, b, bias, c, ws);
  PreparedGemm(s).run(a, b, bias, c, ws);
}

inline void gemm_batched(const GemmShape& s, std::int64_t count, std::int64_t a_step,
                         std::int64_t b_step, std::int64_t c_step, const float* a, const float* b,
                         float* c, float* ws) {
  const auto each = [&](const auto& product) {
    for (std::int64_t i = 0; i < count; ++i)
      product(number_at(s.a_stored, a, i * a_step), number_at(s.b_stored, b, i * b_step),
              c + i * c_step);
  };
  if (s.arithmetic != Arithmetic::kFp32)
    return each([&](const float* left, const float* right, float* out) {
      exact_gemm(s, left, right, nullptr, out, ws);
    });
  const PreparedGemm prepared(s);
  each([&](const float* left, const float* right, float* out) {
    prepared.run(left, right, nullptr, out, ws);
  });
}

}  // namespace
}  // namespace es::gpu
