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

// How the image of a block is divided into windows.
struct Windows {
  ImageShape image;   // before padding
  ImageShape padded;  // sides are multiples of kSide
  std::int64_t shift_h = 0, shift_w = 0;
  bool shifted() const { return shift_h + shift_w > 0; }
};

// A side that one window covers is not shifted.
Windows windows_of(const ImageShape& image, bool shift) {
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
  const std::int64_t across = w.padded.w / kSide;
  const std::int64_t count = w.padded.h / kSide * across;
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

TensorId linear(GraphBuilder& b, const std::string& name, TensorId x, std::int64_t out) {
  return b.linear(name, x, {.out = out, .init = kInit});
}

TensorId pad_to(GraphBuilder& b, const std::string& name, TensorId x, std::int64_t h,
                std::int64_t w) {
  const ImageShape from = b.image(x);
  if (h > from.h) x = b.pad(name + ".pad_h", x, Axis::kH, 0, h - from.h);
  if (w > from.w) x = b.pad(name + ".pad_w", x, Axis::kW, 0, w - from.w);
  return x;
}

TensorId crop_to(GraphBuilder& b, const std::string& name, TensorId x, std::int64_t h,
                 std::int64_t w) {
  const ImageShape from = b.image(x);
  if (h < from.h) x = b.slice(name + ".crop_h", x, Axis::kH, 0, h);
  if (w < from.w) x = b.slice(name + ".crop_w", x, Axis::kW, 0, w);
  return x;
}

TensorId roll(GraphBuilder& b, const std::string& name, TensorId x, std::int64_t shift_h,
              std::int64_t shift_w) {
  if (shift_h != 0) x = b.roll(name + "_h", x, Axis::kH, shift_h);
  if (shift_w != 0) x = b.roll(name + "_w", x, Axis::kW, shift_w);
  return x;
}

// What the blocks of one stage share.
struct Stage {
  std::int64_t heads = 1;
  TensorId index = kNoTensor;  // the tensor of relative_position_index()
  Windows plain, shifted;
  TensorId mask = kNoTensor;  // the shift mask of `shifted`
};

TensorId attend(GraphBuilder& b, const std::string& name, TensorId x, const Stage& stage,
                const Windows& w) {
  const std::int64_t channels = b.shape(x).row();
  constexpr std::int64_t kTableRows = (2 * kSide - 1) * (2 * kSide - 1);
  TensorId bias =
      b.lookup(name + ".relative_position_bias_table", stage.index, kTableRows, stage.heads, kInit);
  const std::vector<std::int32_t> index = relative_position_index();
  b.state_dict_buffer({.name = name + ".relative_position_index",
                       .torch_shape = {kWindowTokens * kWindowTokens},
                       .dtype = "I64",
                       .values = {index.begin(), index.end()}});
  bias = b.permute(name + ".bias", bias, {Axis::kN, Axis::kC, Axis::kH, Axis::kW});

  x = pad_to(b, name, x, w.padded.h, w.padded.w);
  x = roll(b, name + ".roll", x, -w.shift_h, -w.shift_w);
  x = b.window_partition(name + ".windows", x, kSide);
  x = linear(b, name + ".qkv", x, 3 * channels);
  x = b.attention(
      name, x, {.heads = stage.heads, .bias = bias, .mask = w.shifted() ? stage.mask : kNoTensor});
  x = linear(b, name + ".proj", x, channels);
  x = b.window_reverse(name + ".image", x, kSide, w.padded);
  x = roll(b, name + ".roll_back", x, w.shift_h, w.shift_w);
  return crop_to(b, name, x, w.image.h, w.image.w);
}

TensorId block(GraphBuilder& b, const std::string& name, TensorId x, const Stage& stage, bool shift,
               double drop) {
  TensorId y = b.layer_norm(name + ".norm1", x, kEps);
  y = attend(b, name + ".attn", y, stage, shift ? stage.shifted : stage.plain);
  x = b.add(name + ".add1", x, b.drop_path(name + ".drop1", y, drop));

  const std::int64_t channels = b.shape(x).row();
  y = b.layer_norm(name + ".norm2", x, kEps);
  y = b.gelu(name + ".mlp.1", linear(b, name + ".mlp.0", y, 4 * channels));
  y = linear(b, name + ".mlp.3", y, channels);
  return b.add(name + ".add2", x, b.drop_path(name + ".drop2", y, drop));
}

// Merges 2x2 neighbours into one token. Their channels follow each other in the order top left,
// bottom left, top right, bottom right. A layer norm and a linear layer to half of the channels
// follow.
TensorId merge_patches(GraphBuilder& b, const std::string& name, TensorId x) {
  const ImageShape from = b.image(x);
  x = pad_to(b, name, x, from.h + from.h % 2, from.w + from.w % 2);
  const ImageShape even = b.image(x);
  x = b.reshape(name + ".pairs", x, {even.n * even.h / 2, 2, even.w, even.c});
  x = b.permute(name + ".permute", x, {Axis::kN, Axis::kW, Axis::kH, Axis::kC});
  x = b.reshape(name + ".merged", x, {even.n, even.h / 2, even.w / 2, 4 * even.c});
  x = b.layer_norm(name + ".norm", x, kEps);
  return b.linear(name + ".reduction", x, {.out = 2 * even.c, .bias = false, .init = kInit});
}

Stage make_stage(GraphBuilder& b, const std::string& name, TensorId x, TensorId index,
                 std::int64_t heads, int depth) {
  const ImageShape image = b.image(x);
  Stage stage{.heads = heads,
              .index = index,
              .plain = windows_of(image, false),
              .shifted = windows_of(image, true)};
  if (depth > 1 && stage.shifted.shifted()) {
    const ImageShape& padded = stage.shifted.padded;
    stage.mask =
        b.constant(name + ".shift_mask",
                   {padded.h / kSide * (padded.w / kSide), 1, kWindowTokens, kWindowTokens},
                   shift_mask(stage.shifted));
  }
  return stage;
}

TensorId stages(GraphBuilder& b, TensorId x, const Config& config, double deepest_drop) {
  const TensorId index = b.constant_ids(
      "relative_position_index", {1, kWindowTokens, kWindowTokens, 1}, relative_position_index());
  int blocks = 0, done = 0;
  for (const int depth : config.depths) blocks += depth;
  for (std::size_t s = 0; s < config.depths.size(); ++s) {
    const std::string name = "features." + std::to_string(2 * s + 1);
    const Stage stage = make_stage(b, name, x, index, config.heads[s], config.depths[s]);
    for (int i = 0; i < config.depths[s]; ++i, ++done)
      x = block(b, name + "." + std::to_string(i), x, stage, i % 2 == 1,
                deepest_drop * done / (blocks - 1));
    if (s + 1 < config.depths.size())
      x = merge_patches(b, "features." + std::to_string(2 * s + 2), x);
  }
  return x;
}

}  // namespace

Result<Graph> build_swin(const ModelRequest& in) {
  Config config = in.variant(kVariants);
  if (in.tiny()) config = {config.name, 16, {2, 2}, {2, 4}, config.drop};
  GraphBuilder& b = in.builder;
  TensorId x = b.conv2d("features.0.0", b.input("image"),
                        {.out = config.width, .kernel = 4, .stride = 4, .bias = true});
  x = b.layer_norm("features.0.2", x, kEps);
  x = stages(b, x, config, in.dropout(config.drop));
  x = b.global_avg_pool("avgpool", b.layer_norm("norm", x, kEps));
  return finish_classifier(b, linear(b, "head", x, in.spec.classes));
}

}  // namespace es::gpu
