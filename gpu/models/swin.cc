// Swin Transformer (Liu et al. 2021) as torchvision 0.14 builds it.
#include <array>
#include <string_view>

#include "gpu/models/families.h"

namespace es::gpu {
namespace {

struct Config {
  std::string_view name;
  std::int64_t width;  // channels of the first stage; each stage doubles them
  std::vector<int> depths;
  std::vector<std::int64_t> heads;
  // Stochastic depth of the deepest block; it grows linearly from 0 at the first block.
  double drop;
};
const Config kVariants[] = {{"swin_t", 96, {2, 2, 6, 2}, {3, 6, 12, 24}, 0.2},
                            {"swin_s", 96, {2, 2, 18, 2}, {3, 6, 12, 24}, 0.3},
                            {"swin_b", 128, {2, 2, 18, 2}, {4, 8, 16, 32}, 0.5}};

constexpr double kEps = 1e-5;  // of layer norm
constexpr std::int64_t kSide = 7;
constexpr std::int64_t kWindowTokens = kSide * kSide;
constexpr WeightInit kInit{WeightInit::Kind::kDeviation, 0.02};

// An image of tokens, [n,h,w,channels].
struct Grid {
  std::int64_t h, w, channels;
};

// How the image of a block is divided into windows.
struct Windows {
  Grid image;   // before padding
  Grid padded;  // sides are multiples of kSide
  std::int64_t shift_h = 0, shift_w = 0;
  bool shifted() const { return shift_h + shift_w > 0; }
  std::int64_t down() const { return padded.h / kSide; }
  std::int64_t across() const { return padded.w / kSide; }
};

// A side that one window covers is not shifted.
Windows windows_of(const Grid& image, bool shift) {
  Windows w{.image = image, .padded = image};
  w.padded.h = (image.h + kSide - 1) / kSide * kSide;
  w.padded.w = (image.w + kSide - 1) / kSide * kSide;
  if (shift && w.padded.h > kSide) w.shift_h = kSide / 2;
  if (shift && w.padded.w > kSide) w.shift_w = kSide / 2;
  return w;
}

// Returns the region of row (or column) i after the roll. Rows [size - shift, size) came from the
// other end (region 2). The rows of the same last window before them are region 1. All rows of the
// other windows are region 0. Tokens of different regions in one window must not attend to each
// other.
int region(std::int64_t i, std::int64_t size, std::int64_t shift) {
  if (shift == 0 || i < size - kSide) return 0;
  return i < size - shift ? 1 : 2;
}

// Torchvision masks with -100, whose EXP is subnormal, and products with subnormal numbers take
// many times as long. This value gives exactly +0 and the same probabilities, except for a
// difference far below one unit in the last place.
constexpr float kMasked = -1000.0F;

// Returns [windows][token][token]: kMasked between tokens that were not neighbours before the roll,
// else 0.
std::vector<float> shift_mask(const Windows& w) {
  const std::int64_t across = w.across(), count = w.down() * across;
  const auto region_of = [&](std::int64_t window, std::int64_t token) {
    const std::int64_t y = window / across * kSide + token / kSide;
    const std::int64_t x = window % across * kSide + token % kSide;
    return 3 * region(y, w.padded.h, w.shift_h) + region(x, w.padded.w, w.shift_w);
  };
  std::vector<float> mask;
  mask.reserve(static_cast<std::size_t>(count * kWindowTokens * kWindowTokens));
  for (std::int64_t window = 0; window < count; ++window)
    for (std::int64_t q = 0; q < kWindowTokens; ++q)
      for (std::int64_t k = 0; k < kWindowTokens; ++k)
        mask.push_back(region_of(window, q) == region_of(window, k) ? 0.0F : kMasked);
  return mask;
}

// Returns [token][token]: the row of the bias table that belongs to the offset between the two
// tokens.
std::vector<std::int32_t> relative_position_index() {
  std::vector<std::int32_t> index;
  for (std::int64_t q = 0; q < kWindowTokens; ++q)
    for (std::int64_t k = 0; k < kWindowTokens; ++k) {
      const std::int64_t dy = q / kSide - k / kSide + kSide - 1;
      const std::int64_t dx = q % kSide - k % kSide + kSide - 1;
      index.push_back(static_cast<std::int32_t>(dy * (2 * kSide - 1) + dx));
    }
  return index;
}

ValueId linear(ModelWriter& w, const std::string& name, ValueId x, std::int64_t out) {
  return w.linear(name, x, {.out = out, .init = kInit});
}

// --- Two forms of an image of tokens. Moves work on all its axes.
ModelDims whole(const Grid& g) {
  return per_sample({g.h, g.w, g.channels});
}

// Layers on the channels work on rows, without the axes behind n that have the extent 1.
ModelDims rows(const Grid& g) {
  if (g.w > 1) return whole(g);
  return g.h > 1 ? per_sample({g.h, g.channels}) : per_sample({g.channels});
}

// [n,c,h,w] as rows, and rows as [n,c,h,w].
ValueId rows_of_image(ModelWriter& w, ValueId x, const Grid& g) {
  if (g.h * g.w > 1) x = w.permute("", x, {0, 2, 3, 1});
  return w.reshape("", x, rows(g));
}
ValueId image_of_rows(ModelWriter& w, ValueId x, const Grid& g) {
  x = w.reshape("", x, whole(g));
  if (g.h * g.w == 1) return w.reshape("", x, per_sample({g.channels, 1, 1}));
  return w.permute("", x, {0, 3, 1, 2});
}

ValueId pad_axis(ModelWriter& w, const std::string& name, ValueId x, std::size_t axis,
                 std::int64_t size) {
  ModelDims to = w.dims(x);
  Extents after(to.size(), 0);
  after[axis] = size - to[axis].size;
  if (after[axis] == 0) return x;
  to[axis].size = size;
  return w.node("pad", name, {x}, std::move(to),
                {{"before", Extents(after.size(), 0)}, {"after", after}});
}

ValueId pad_to(ModelWriter& w, const std::string& name, ValueId x, const Grid& g) {
  return pad_axis(w, name + ".pad_w", pad_axis(w, name + ".pad_h", x, 1, g.h), 2, g.w);
}

ValueId crop_axis(ModelWriter& w, const std::string& name, ValueId x, std::size_t axis,
                  std::int64_t size) {
  return size < w.extent(x, axis) ? w.slice(name, x, axis, 0, size) : x;
}

ValueId crop_to(ModelWriter& w, const std::string& name, ValueId x, const Grid& g) {
  return crop_axis(w, name + ".crop_w", crop_axis(w, name + ".crop_h", x, 1, g.h), 2, g.w);
}

ValueId roll_axis(ModelWriter& w, const std::string& name, ValueId x, std::int64_t axis,
                  std::int64_t shift) {
  if (shift == 0) return x;
  return w.element_wise("roll", name, x, {}, {{"axis", axis}, {"shift", shift}});
}

ValueId roll(ModelWriter& w, const std::string& name, ValueId x, std::int64_t shift_h,
             std::int64_t shift_w) {
  return roll_axis(w, name + "_w", roll_axis(w, name + "_h", x, 1, shift_h), 2, shift_w);
}

// [n,h,w,c] becomes [n*windows,tokens,c].
ValueId cut_windows(ModelWriter& w, const std::string& name, ValueId x, const Windows& win) {
  const std::int64_t c = win.padded.channels;
  x = w.reshape(name, x, per_sample({win.down(), kSide, win.across(), kSide, c}));
  return w.reshape(name, w.permute(name, x, {0, 1, 3, 2, 4, 5}),
                   rows_per_sample({win.down() * win.across(), kWindowTokens, c}));
}

ValueId join_windows(ModelWriter& w, const std::string& name, ValueId x, const Windows& win) {
  x = w.reshape("", x, per_sample({win.down(), win.across(), kSide, kSide, win.padded.channels}));
  return w.reshape(name, w.permute(name, x, {0, 1, 3, 2, 4, 5}), whole(win.padded));
}

// What the blocks of one stage share.
struct Stage {
  std::int64_t heads = 1;
  ValueId index = kNoValue;  // the value of relative_position_index()
  Windows plain, shifted;
  ValueId mask = kNoValue;  // the shift mask of `shifted`
};

ValueId position_bias(ModelWriter& w, const std::string& name, const Stage& stage) {
  constexpr std::int64_t kTableRows = (2 * kSide - 1) * (2 * kSide - 1);
  const ValueId bias = w.embedding(name + ".relative_position_bias_table", stage.index, kTableRows,
                                   stage.heads, kInit);
  const std::vector<std::int32_t> index = relative_position_index();
  w.buffer(name + ".relative_position_index", {kWindowTokens * kWindowTokens},
           std::vector<std::int64_t>(index.begin(), index.end()));
  return w.permute(name + ".bias", bias, {0, 3, 1, 2});
}

ValueId window_attention(ModelWriter& w, const std::string& name, ValueId x, ValueId bias,
                         const Stage& stage, bool shifted) {
  const std::int64_t channels = w.width(x);
  const ValueId packed = linear(w, name + ".qkv", x, 3 * channels);
  std::vector<ValueId> qkv;
  for (std::int64_t i = 0; i < 3; ++i)
    qkv.push_back(w.slice(name, packed, 2, i * channels, (i + 1) * channels));
  for (ValueId& part : qkv) part = w.heads(name, part, stage.heads);
  x = w.attention(name, qkv[0], qkv[1], qkv[2],
                  {.mask = shifted ? stage.mask : kNoValue, .bias = bias});
  return linear(w, name + ".proj", x, channels);
}

ValueId attend(ModelWriter& w, const std::string& name, ValueId x, const Stage& stage,
               const Windows& win) {
  const ValueId bias = position_bias(w, name, stage);
  x = pad_to(w, name, w.reshape("", x, whole(win.image)), win.padded);
  x = roll(w, name + ".roll", x, -win.shift_h, -win.shift_w);
  x = cut_windows(w, name + ".windows", x, win);
  x = window_attention(w, name, x, bias, stage, win.shifted());
  x = join_windows(w, name + ".image", x, win);
  x = roll(w, name + ".roll_back", x, win.shift_h, win.shift_w);
  return w.reshape("", crop_to(w, name, x, win.image), rows(win.image));
}

ValueId block(ModelWriter& w, const std::string& name, ValueId x, const Stage& stage, bool shift,
              double drop) {
  ValueId y = w.layer_norm(name + ".norm1", x, kEps);
  y = attend(w, name + ".attn", y, stage, shift ? stage.shifted : stage.plain);
  x = w.add(name + ".add1", x, w.sample_dropout(name + ".drop1", y, drop));

  const std::int64_t channels = w.width(x);
  y = w.layer_norm(name + ".norm2", x, kEps);
  y = w.gelu(name + ".mlp.1", linear(w, name + ".mlp.0", y, 4 * channels));
  y = linear(w, name + ".mlp.3", y, channels);
  return w.add(name + ".add2", x, w.sample_dropout(name + ".drop2", y, drop));
}

// Half as many tokens along both sides, with twice as many channels.
Grid merged(const Grid& g) {
  return {(g.h + 1) / 2, (g.w + 1) / 2, 2 * g.channels};
}

// Merges 2x2 neighbours into one token. Their channels follow each other in the order top left,
// bottom left, top right, bottom right. A layer norm and a linear layer to half of the channels
// follow.
ValueId merge_patches(ModelWriter& w, const std::string& name, ValueId x, const Grid& g) {
  const Grid to = merged(g), four{to.h, to.w, 4 * g.channels};
  x = pad_to(w, name, w.reshape("", x, whole(g)), {2 * to.h, 2 * to.w, g.channels});
  x = w.reshape("", x, rows_per_sample({to.h, 2, 2 * to.w, g.channels}));
  x = w.permute(name + ".permute", x, {0, 2, 1, 3});
  x = w.reshape("", w.reshape("", x, whole(four)), rows(four));
  x = w.layer_norm(name + ".norm", x, kEps);
  return w.linear(name + ".reduction", x, {.out = to.channels, .bias = false, .init = kInit});
}

Stage make_stage(ModelWriter& w, const std::string& name, const Grid& image, ValueId index,
                 std::int64_t heads, int depth) {
  Stage stage{.heads = heads,
              .index = index,
              .plain = windows_of(image, false),
              .shifted = windows_of(image, true)};
  const Windows& win = stage.shifted;
  if (depth > 1 && win.shifted())
    stage.mask =
        w.constant(name + ".shift_mask",
                   {win.down() * win.across(), 1, kWindowTokens, kWindowTokens}, shift_mask(win));
  return stage;
}

// Returns the last image of tokens, whose extents `grid` becomes.
ValueId stages(ModelWriter& w, ValueId x, Grid& grid, const Config& config, double deepest_drop) {
  const ValueId index = w.integers("relative_position_index", {1, kWindowTokens, kWindowTokens},
                                   relative_position_index());
  int blocks = 0, done = 0;
  for (const int depth : config.depths) blocks += depth;
  for (std::size_t s = 0; s < config.depths.size(); ++s) {
    const std::string name = "features." + std::to_string(2 * s + 1);
    const Stage stage = make_stage(w, name, grid, index, config.heads[s], config.depths[s]);
    for (int i = 0; i < config.depths[s]; ++i, ++done)
      x = block(w, name + "." + std::to_string(i), x, stage, i % 2 == 1,
                deepest_drop * done / (blocks - 1));
    if (s + 1 == config.depths.size()) break;
    x = merge_patches(w, "features." + std::to_string(2 * s + 2), x, grid);
    grid = merged(grid);
  }
  return x;
}

}  // namespace

Result<ModelProgram> swin_program(const ModelRequest& in) {
  Config config = in.variant(kVariants);
  if (in.tiny()) config = {config.name, 16, {2, 2}, {2, 4}, config.drop};
  ModelWriter w(in.spec.name, in.layout);
  ValueId x = w.conv("features.0.0", w.input("image"),
                     {.out = config.width, .kernel = 4, .stride = 4, .bias = true});
  Grid grid{w.extent(x, 2), w.extent(x, 3), config.width};
  x = w.layer_norm("features.0.2", rows_of_image(w, x, grid), kEps);
  x = stages(w, x, grid, config, in.dropout(config.drop));
  x = image_of_rows(w, w.layer_norm("norm", x, kEps), grid);
  x = w.image_linear("head", w.avg_pool("avgpool", x, 1, 1),
                     {.out = in.spec.classes, .init = kInit});
  return finish_classifier(std::move(w), x);
}

}  // namespace es::gpu
