#include <string>
#include <vector>

#include "tests/bench/cases.h"
#include "tests/bench/dnnl_contestants.h"
#include "tests/bench/floats.h"

namespace es::bench {
namespace {

using gpu::ConvShape;
using gpu::KernelTable;

// Our side of one convolution, with buffers for all three passes.
struct OurConv {
  OurConv(const KernelTable& kernels, const ConvShape& shape)
      : table(kernels),
        s(shape),
        x(s.n * s.h * s.w * s.c),
        y(s.n * s.oh() * s.ow() * s.oc),
        w(s.oc * s.kh * s.kw * s.c / s.groups),
        ws(table.conv_fwd_workspace_floats(s) + table.conv_dgrad_workspace_floats(s) +
           table.conv_wgrad_workspace_floats(s)) {}

  void run(ConvPass pass) {
    switch (pass) {
      case ConvPass::kForward:
        return table.conv_fwd(s, 0, s.oc, x, w, nullptr, y, ws);
      case ConvPass::kDataGradient:
        return table.conv_dgrad(s, 0, s.c, y, w, x, ws);
      case ConvPass::kWeightGradient:
        return table.conv_wgrad(s, 0, s.oc, x, y, w, ws);
    }
  }

  const KernelTable& table;
  const ConvShape s;
  Floats x, y, w, ws;
};

struct ConvCase {
  std::string name;
  ConvShape shape;
  bool data_gradient = true;  // The first layer of a model has none.
};

// A square convolution with padding that keeps the side (or halves it with stride 2).
ConvCase square(const std::string& model, std::int64_t n, std::int64_t side, std::int64_t c,
                std::int64_t oc, std::int64_t k, std::int64_t stride = 1, std::int64_t groups = 1) {
  const std::string filter = std::to_string(k) + "x" + std::to_string(k);
  const std::string kind = groups == 1   ? filter
                           : groups == c ? "dw"
                                         : filter + "g" + std::to_string(groups);
  const std::string channels =
      c == oc ? std::to_string(c) : std::to_string(c) + "-" + std::to_string(oc);
  const std::string name = model + " " + kind + (stride == 2 ? "s2 " : " ") + channels + " " +
                           std::to_string(side) + "^2";
  return {name,
          {.n = n,
           .h = side,
           .w = side,
           .c = c,
           .oc = oc,
           .kh = k,
           .kw = k,
           .stride = stride,
           .pad = k / 2,
           .groups = groups},
          c > 3};
}

// ResNet18 with the CIFAR stem, batch 32.
std::vector<ConvCase> resnet18() {
  std::vector<ConvCase> cases = {square("resnet18", 32, 32, 3, 64, 3)};
  for (std::int64_t c = 64, side = 32; c <= 512; c *= 2, side /= 2) {
    cases.push_back(square("resnet18", 32, side, c, c, 3));
    if (c == 512) break;
    cases.push_back(square("resnet18", 32, side, c, 2 * c, 3, 2));
    cases.push_back(square("resnet18", 32, side, c, 2 * c, 1, 2));
  }
  return cases;
}

// ResNet50 on 64x64 images, batch 8.
std::vector<ConvCase> resnet50() {
  std::vector<ConvCase> cases = {square("resnet50", 8, 64, 3, 64, 7, 2)};
  for (std::int64_t c = 64, side = 16; c <= 512; c *= 2, side /= 2) {
    cases.push_back(square("resnet50", 8, side, c, c, 3));
    cases.push_back(square("resnet50", 8, side, 4 * c, c, 1));
    cases.push_back(square("resnet50", 8, side, c, 4 * c, 1));
  }
  return cases;
}

// ShuffleNetV2 on 64x64 images, batch 32: pairs of pointwise and depthwise convolutions.
std::vector<ConvCase> shufflenet() {
  std::vector<ConvCase> cases = {square("shuffle", 32, 64, 3, 24, 3, 2),
                                 square("shuffle", 32, 16, 24, 24, 3, 2, 24),
                                 square("shuffle", 32, 16, 24, 58, 1)};
  for (std::int64_t c = 58, side = 8; c <= 232; c *= 2, side /= 2) {
    cases.push_back(square("shuffle", 32, side, c, c, 1));
    cases.push_back(square("shuffle", 32, side, c, c, 3, 1, c));
    cases.push_back(square("shuffle", 32, side, 2 * c, 2 * c, 3, 2, 2 * c));
  }
  cases.push_back(square("shuffle", 32, 2, 464, 1024, 1));
  return cases;
}

// The remaining shapes: YOLOv3 on 96x96 images, batch 2 (its weights are larger than its
// activations), VGG19 on 64x64 images, batch 8, the patches of Swin, and further shapes.
std::vector<ConvCase> others() {
  return {square("yolo", 2, 96, 32, 64, 3, 2),
          square("yolo", 2, 12, 128, 256, 3),
          square("yolo", 2, 6, 256, 512, 3),
          square("yolo", 2, 3, 512, 1024, 3),
          square("yolo", 2, 3, 1024, 512, 1),
          square("vgg19", 8, 64, 64, 64, 3),
          square("vgg19", 8, 16, 256, 256, 3),
          square("vgg19", 8, 4, 512, 512, 3),
          {"swin 4x4s4 3-96 64^2",
           {.n = 8, .h = 64, .w = 64, .c = 3, .oc = 96, .kh = 4, .kw = 4, .stride = 4},
           false},
          square("large 7x7", 4, 224, 3, 64, 7, 2),
          square("large", 8, 56, 64, 64, 3),
          square("large", 32, 32, 64, 64, 3, 1, 64),
          square("mobilenet", 32, 32, 16, 96, 1),
          square("mobilenet", 32, 16, 144, 24, 1),
          square("regnet", 16, 32, 48, 48, 3, 2, 6),
          square("regnet", 16, 8, 104, 104, 3, 1, 13),
          square("regnet", 16, 4, 208, 208, 3, 1, 26),
          square("resnext", 8, 16, 128, 128, 3, 1, 32)};
}

void conv_case(const KernelTable& table, Report& report, const ConvCase& c) {
  const ConvShape& s = c.shape;
  const double flops = 2.0 * s.n * s.oh() * s.ow() * s.oc * s.kh * s.kw * s.c / s.groups;
  OurConv ours(table, s);
  const std::pair<ConvPass, const char*> passes[] = {{ConvPass::kForward, "fwd"},
                                                     {ConvPass::kDataGradient, "dgrad"},
                                                     {ConvPass::kWeightGradient, "wgrad"}};
  for (const auto& [pass, name] : passes) {
    if (pass == ConvPass::kDataGradient && !c.data_gradient) continue;
    Measurement m{.name = c.name, .pass = name, .vendor = "oneDNN", .duel = {}, .flops = flops};
    for (const DnnlLayout layout : {DnnlLayout::kNhwc, DnnlLayout::kOwn}) {
      const auto vendor = dnnl_conv(s, pass, layout);
      if (!vendor) continue;
      const Duel d = duel(
          vendor, [&, p = pass] { ours.run(p); }, kSecondsPerDuel);
      if (m.duel.ratio == 0 || d.vendor_us < m.duel.vendor_us) m.duel = d;
    }
    report.add(m);
  }
}

}  // namespace

void conv_cases(const KernelTable& table, Report& report) {
  for (const auto& model : {resnet18(), resnet50(), shufflenet(), others()}) {
    for (const ConvCase& c : model) {
      if (report.wants(c.name)) conv_case(table, report, c);
    }
  }
}

}  // namespace es::bench
