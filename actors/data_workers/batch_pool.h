#pragma once
// BatchPool: the memory for the mini-batches of one worker process, a fixed number of slots that
// data workers fill and the device reads. Messages name slots; a slot has one user at a time, so
// no lock is needed: the messages that hand it over order the accesses.
#include <cstdint>
#include <span>
#include <vector>

namespace es::actors {

class BatchPool {
 public:
  // slots >= 1; image_floats = floats of one mini-batch's images; labels per mini-batch.
  BatchPool(std::uint32_t slots, std::size_t image_floats, std::size_t labels)
      : slots_(slots),
        image_floats_(image_floats),
        labels_(labels),
        images_data_(slots * image_floats),
        labels_data_(slots * labels) {}

  std::uint32_t slots() const { return slots_; }
  std::span<float> images(std::uint32_t slot) {
    return std::span(images_data_).subspan(slot * image_floats_, image_floats_);
  }
  std::span<std::int32_t> labels(std::uint32_t slot) {
    return std::span(labels_data_).subspan(slot * labels_, labels_);
  }

 private:
  std::uint32_t slots_;
  std::size_t image_floats_, labels_;
  std::vector<float> images_data_;
  std::vector<std::int32_t> labels_data_;
};

}  // namespace es::actors
