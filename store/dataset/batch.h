#pragma once
// Fills one EST's mini-batch: picks the samples, augments and normalises them.
//
//   value = (pixel / 255 - 0.5) / 0.5     in fp32, in this order: [0, 255] goes to [-1, 1]
//
// Training images may be shifted and mirrored. The crop is that of the image padded by
// crop_padding pixels of value 0 (so -1 after normalisation) on every side; the offset of each
// side is uniform over 2 * crop_padding + 1 values. The flip mirrors left and right with
// probability 1/2. Both are drawn by Philox from (seed, epoch, index of the sample), so they belong
// to the sample and not to whoever loads it.
//
// All functions are pure, thread-safe and allocate nothing; only + - * / on fp32 in a fixed order,
// so the batch is the same bits on any machine.
#include <cstdint>
#include <span>

#include "proto/base/ids.h"
#include "store/dataset/epoch_sampler.h"
#include "store/dataset/image_dataset.h"

namespace es::store {

struct Augmentation {
  std::uint32_t crop_padding = 0;  // pixels; 0 = no crop
  bool flip = false;
  std::uint64_t seed = 0;  // the job's seed
};

// Writes the batch of `rank` at `at`: images [batch_size, height, width, channels] and labels
// [batch_size]. REQUIRES: sampler.samples() == dataset.train.count(); the spans have exactly these
// sizes; the position is valid for the sampler.
void fill_batch(const ImageDataset& dataset, const EpochSampler& sampler,
                const Augmentation& augmentation, DataCursor at, VirtualRank rank,
                std::span<float> images, std::span<std::int32_t> labels);

// Writes labels.size() evaluation images from index `begin`, normalised only.
// REQUIRES: begin + labels.size() <= dataset.eval.count(); images has the matching size.
void fill_eval_batch(const ImageDataset& dataset, std::uint64_t begin, std::span<float> images,
                     std::span<std::int32_t> labels);

}  // namespace es::store
