#include "proto/base/check.h"
#include "proto/base/yolo_anchors.h"
#include "store/dataset/layouts.h"
#include "store/metrics/detections.h"
#include "store/metrics/sinks.h"

namespace es::store {
namespace {

class DetectionSink final : public MetricSink {
 public:
  DetectionSink(SourcePointer source, std::uint32_t classes)
      : source_(std::move(source)), classes_(classes) {
    totals_.box_counts.assign(classes, 0);
  }

 private:
  // The grid of a scale: a cell covers 32, 16 or 8 pixels of a side.
  GridSize grid(int scale) const {
    const SampleField& image = source_->layout().fields[box_field::kImage];
    const std::int64_t stride = 32 >> scale;
    return {static_cast<std::uint32_t>(image.height / stride),
            static_cast<std::uint32_t>(image.width / stride)};
  }

  void add_sample(std::uint64_t index, std::span<const std::span<const float>> output) override {
    ES_CHECK(output.size() == kYoloScaleCount);
    std::vector<FoundBox> candidates;
    for (int s = 0; s < kYoloScaleCount; ++s)
      decode_scale(output[s], s, grid(s), classes_, candidates);
    const std::vector<FoundBox> found = suppress(std::move(candidates));
    const std::vector<TrueBox> truth = source_->true_boxes(index);
    for (const TrueBox& box : truth)
      // VOC leaves difficult objects out on both sides. They are not counted here, and match()
      // omits the boxes that find them; otherwise a model could lose recall by objects for which it
      // gets no hit.
      if (!box.difficult) ++totals_.box_counts[box.label];
    const std::vector<ScoredBox> scored = match(found, truth);
    totals_.boxes.insert(totals_.boxes.end(), scored.begin(), scored.end());
  }

  SourcePointer source_;
  std::uint32_t classes_;
};

}  // namespace

std::unique_ptr<MetricSink> detection_sink(SourcePointer source, std::uint32_t classes) {
  return std::make_unique<DetectionSink>(std::move(source), classes);
}

}  // namespace es::store
