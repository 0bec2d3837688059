#pragma once
// Element-wise programs. Tiles of elements that fit the first-level cache pass through one
// instruction after the other, or through machine code that has all of them.
#include "gpu/canonical/space_math.h"
#include "gpu/canonical/vec/functions.h"

namespace es::gpu {
namespace {

constexpr std::int64_t kTile = 512;  // elements at most
// Rows that are shorter share a tile.
constexpr std::int64_t kShortTileRow = 64;

using TileKernel = void (*)(std::int64_t n, float* to, const float* a, const float* b,
                            const float* c, const float* d);

// An elementary function needs many registers; of other instructions several vectors are in
// progress at once.
constexpr bool is_function(ElementOp op) {
  return op >= ElementOp::kExp && op <= ElementOp::kPow;
}

template <ElementOp kOp>
requires(is_word_op(kOp)) void run_tile(std::int64_t n, float* to, const float* a, const float* b,
                                        const float* c, const float* d) {
  for (std::int64_t i = 0; i < n; ++i) to[i] = words<kOp>(a[i], b[i], c[i], d[i]);
}

template <ElementOp kOp>
requires(!is_word_op(kOp)) void run_tile(std::int64_t n, float* to, const float* a, const float* b,
                                         const float* c, const float*) {
  constexpr int kOperands = operands_of(kOp), kVecs = is_function(kOp) ? 1 : 4;
  for_columns<kVecs>(n, [=](std::int64_t i, auto at, auto vecs) {
#pragma GCC unroll 4
    for (std::int64_t j = i; j < i + decltype(vecs)::value * kWidth; j += kWidth) {
      const Vec x = at.load(a + j);
      const Vec y = kOperands > 1 ? at.load(b + j) : x, z = kOperands > 2 ? at.load(c + j) : x;
      at.store(to + j, element<kOp>(x, y, z));
    }
  });
}

constexpr TileKernel kTileKernels[] = {
#define ES_ELEMENT_OP(name, operands) run_tile<ElementOp::name>,
    ES_ELEMENT_OPS(ES_ELEMENT_OP)
#undef ES_ELEMENT_OP
};

inline void fill_floats(float* to, float value, std::int64_t n) {
  const Vec v = set(value);
  for_vectors(n, [=](std::int64_t i, auto at) { at.store(to + i, v); });
}

// Rows of elements that are processed together, beginning at element `first`.
struct TileShape {
  std::int64_t first, rows, columns;
  std::int64_t count() const { return rows * columns; }
};

// The elements of a tile: half as many if the tiles of all registers, inputs and constants would
// not fit a first-level cache of 32 KiB. Adam as a program then takes 0.8 of the time.
inline std::int64_t tile_of(const ElementCode& code) {
  constexpr std::int64_t kFloats = (std::int64_t{24} << 10) / sizeof(float);
  std::int64_t tiles = code.inputs + code.constants;
  std::int64_t registers = 0;
  for (std::int32_t i = 0; i < code.instructions; ++i)
    registers = registers > code.instruction[i].to ? registers : code.instruction[i].to + 1;
  tiles += registers;
  return tiles * kTile > kFloats ? kTile / 2 : kTile;
}

// Returns the tile at element `first`: a part of a row, or several short rows, of at most `most`
// elements.
inline TileShape tile_at(const ElementSpace& s, std::int64_t most, std::int64_t first,
                         std::int64_t end) {
  const std::int64_t inner = s.size[s.rank - 1], column = first % inner;
  if (inner < kShortTileRow && s.rank > 1 && column == 0) {
    const std::int64_t outer = s.size[s.rank - 2], row = first / inner % outer;
    const std::int64_t rows = smaller(smaller(most / inner, outer - row), (end - first) / inner);
    if (rows > 1) return {first, rows, inner};
  }
  return {first, 1, smaller(smaller(most, inner - column), end - first)};
}

// The tiles of a thread. They are not a power of two apart: a load 4 KiB behind a store in flight
// would wait for it.
class Tiles {
 public:
  static constexpr std::int64_t kApart = kTile + 48;

  Tiles(const ElementSpace& space, const float* const* in) : space_(space), in_(in) {}

  // REQUIRED before run().
  void prepare(const ElementCode& code) {
    for (int r = 0; r < kProgramRegisters; ++r) at_[r] = registers_[r];
    for (std::int32_t k = 0; k < code.constants; ++k) {
      fill_floats(constants_[k], code.constant[k], kTile);
      at_[kFirstConstant + k] = constants_[k];
    }
  }

  // Makes an input of the tile readable: in its own memory if the elements are neighbours there.
  void read(std::int32_t k, const TileShape& tile) {
    const auto& stride = space_.stride[k];
    const std::int32_t last = space_.rank - 1;
    const std::int64_t step = stride[last], row_step = tile.rows > 1 ? stride[last - 1] : 0;
    const float* from = in_[k];
    std::int64_t rest = tile.first;
    for (std::int32_t d = last; d >= 0; rest /= space_.size[d--])
      from += rest % space_.size[d] * stride[d];
    const bool dense = step == 1 && (tile.rows == 1 || row_step == tile.columns);
    if (!dense) gather(k, from, tile, step, row_step);
    at_[kFirstInput + k] = dense ? from : gathered_[k];
  }

  // The tile of each input.
  const float* const* inputs() const { return at_ + kFirstInput; }

  // Runs the code on n elements. An instruction that writes `redirected` writes to `to`.
  void run(const ElementCode& code, std::int64_t n, std::int32_t redirected, float* to) {
    for (std::int32_t i = 0; i < code.instructions; ++i) {
      const Instruction& step = code.instruction[i];
      kTileKernels[static_cast<int>(step.op)](n, i == redirected ? to : registers_[step.to],
                                              at_[step.a], at_[step.b], at_[step.c], at_[step.d]);
    }
  }
  const float* result(std::uint8_t name) const { return registers_[name]; }

 private:
  // What a gathered tile contains; it stays for the next tile if that is the same.
  struct Kept {
    const float* from = nullptr;
    std::int64_t rows = 0, columns = 0;
  };

  void gather(std::int32_t k, const float* from, const TileShape& tile, std::int64_t step,
              std::int64_t row_step) {
    Kept& kept = kept_[k];
    const bool enough = kept.columns == tile.columns ||
                        (step == 0 && kept.columns > tile.columns && tile.rows == 1);
    if (kept.from == from && kept.rows == tile.rows && enough) return;
    kept = {from, tile.rows, tile.columns};
    float* to = gathered_[k];
    for (std::int64_t r = 0; r < tile.rows; ++r, from += row_step, to += tile.columns) {
      if (step == 0) {
        fill_floats(to, *from, tile.columns);
      } else if (step == 1) {
        copy_floats(to, from, tile.columns);
      } else {
        for (std::int64_t i = 0; i < tile.columns; ++i) to[i] = from[i * step];
      }
    }
  }

  const ElementSpace& space_;
  const float* const* in_;
  const float* at_[kOperandNames];
  Kept kept_[kProgramInputs];
  alignas(64) float registers_[kProgramRegisters][kApart];
  alignas(64) float gathered_[kProgramInputs][kApart];
  alignas(64) float constants_[kProgramConstants][kApart];
};

// Runs machine code on n elements, the last ones in a vector of their own.
inline void run_machine_code(TileCode machine_code, const ElementCode& code, std::int64_t n,
                             const float* const* in, float* const* out) {
  const std::int64_t vectors = n / kWidth, done = vectors * kWidth, rest = n - done;
  machine_code(in, out, code.constant.data(), vectors);
  if (rest == 0) return;
  float values[kProgramInputs][kWidth] = {}, results[kProgramOutputs][kWidth];
  const float* from[kProgramInputs];
  float* to[kProgramOutputs];
  for (std::int32_t k = 0; k < code.inputs; ++k) {
    copy_floats(values[k], in[k] + done, rest);
    from[k] = values[k];
  }
  for (std::int32_t k = 0; k < code.outputs; ++k) to[k] = results[k];
  machine_code(from, to, code.constant.data(), 1);
  for (std::int32_t k = 0; k < code.outputs; ++k) copy_floats(out[k] + done, results[k], rest);
}

// A tile is as long as a row if no row must be gathered.
inline void program_by_machine_code(TileCode machine_code, const ElementCode& code,
                                    const ElementSpace& s, const float* const* in,
                                    float* const* out, std::int64_t begin, std::int64_t end) {
  Tiles tiles(s, in);
  bool dense = s.rank == 1;
  for (std::int32_t k = 0; k < code.inputs; ++k) dense = dense && s.stride[k][0] == 1;
  while (begin < end) {
    const TileShape tile = tile_at(s, dense ? end - begin : kTile, begin, end);
    float* to[kProgramOutputs];
    for (std::int32_t k = 0; k < code.inputs; ++k) tiles.read(k, tile);
    for (std::int32_t k = 0; k < code.outputs; ++k) to[k] = out[k] + begin;
    run_machine_code(machine_code, code, tile.count(), tiles.inputs(), to);
    begin += tile.count();
  }
}

// The last instruction writes to memory directly if it computes the only output: an output may take
// the memory of an input, so nothing may be read after it.
inline void program(const ElementCode& code, TileCode machine_code, const ElementSpace& space,
                    const float* const* in, float* const* out, std::int64_t begin,
                    std::int64_t end) {
  const ElementSpace s = joined(space, code.inputs);
  if (machine_code != nullptr)
    return program_by_machine_code(machine_code, code, s, in, out, begin, end);
  Tiles tiles(s, in);
  tiles.prepare(code);
  const std::int64_t most = tile_of(code);
  const std::int32_t last = code.instructions - 1;
  const bool direct = code.outputs == 1 && code.instruction[last].to == code.result[0];
  while (begin < end) {
    const TileShape tile = tile_at(s, most, begin, end);
    const std::int64_t n = tile.count();
    for (std::int32_t k = 0; k < code.inputs; ++k) tiles.read(k, tile);
    tiles.run(code, n, direct ? last : -1, out[0] + begin);
    for (std::int32_t k = 0; k < code.outputs && !direct; ++k)
      copy_floats(out[k] + begin, tiles.result(code.result[k]), n);
    begin += n;
  }
}

}  // namespace
}  // namespace es::gpu
