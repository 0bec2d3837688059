// Samples of classification from tar files (shard_files.h, shard_index.h), without unpacking them.
// A worker reads an image from its file when it needs it.
#include "store/dataset/sources.h"

#include "store/dataset/images/augmented_image.h"
#include "store/dataset/shards/shard_index.h"
#include "store/dataset/shards/tar_reader.h"
#include "store/field_error.h"

namespace es::store {
namespace {

class WebDatasetSource final : public RecordSource {
 public:
  WebDatasetSource(DataFacts facts, ShardIndex train, ShardIndex eval, AugmentedImage images)
      : RecordSource(std::move(facts)),
        train_(std::move(train)),
        eval_(std::move(eval)),
        images_(std::move(images)) {}

  std::int32_t true_label(std::uint64_t index) const override { return eval_.samples[index].label; }

 private:
  Status write(Half half, std::uint64_t epoch, std::uint64_t index, const SampleBlock& block,
               std::uint64_t position, Scratch& scratch) const override {
    const ShardIndex& shards = half == Half::kTrain ? train_ : eval_;
    const ShardSample& sample = shards.samples[index];
    ES_RETURN_IF_ERROR(read_image_of(shards.shard_of(index), sample, scratch));
    images_.write(half, epoch, index, scratch, block.field(image_field::kImage, position));
    block.set_i32(image_field::kLabel, position, 0, sample.label);
    return {};
  }

  // The file is opened for each image, so the number of open files does not grow with the shards.
  static Status read_image_of(const Shard& shard, const ShardSample& sample, Scratch& scratch) {
    const auto file = open_shard(shard.file);
    if (!file) return file.error();
    if (file->bytes() != shard.state.bytes)
      return bad_field(shard.file.name, "size in bytes", std::to_string(file->bytes()),
                       std::to_string(shard.state.bytes) + ", which it had when the job opened it");
    // The header is before the image.
    scratch.pixels.resize(kTarBlockBytes + sample.image_bytes);
    ES_RETURN_IF_ERROR(file->read(sample.image_at - kTarBlockBytes, scratch.pixels));
    const std::string place = tar_place(*file, sample.image_at / kTarBlockBytes - 1);
    const std::span<const std::uint8_t> read(scratch.pixels);
    if (!is_tar_header(read.first(kTarBlockBytes)))
      return bad_content(place, "header of the image", "that of when the file was indexed");
    const std::string_view bytes(reinterpret_cast<const char*>(read.data()) + kTarBlockBytes,
                                 sample.image_bytes);
    return decode_image(bytes, place, scratch.decoded);
  }

  ShardIndex train_, eval_;
  AugmentedImage images_;
};

}  // namespace

Result<std::shared_ptr<const SampleSource>> webdataset_source(const JobSpec& spec) {
  Result<AugmentedImage> images = AugmentedImage::create(spec);
  if (!images) return images.error();
  const auto files = shard_files(spec.data.path);
  if (!files) return files.error();
  auto train = index_shards(files->train, spec.model.classes, KeysInErrors::kHidden);
  if (!train) return train.error();
  auto eval = files->eval.empty()
                  ? Result<ShardIndex>(ShardIndex())
                  : index_shards(files->eval, spec.model.classes, KeysInErrors::kHidden);
  if (!eval) return eval.error();
  DataFacts facts{.layout = image_layout(images->shape(), spec.model.classes),
                  .train_count = train->samples.size(),
                  .eval_count = eval->samples.size()};
  return std::shared_ptr<const SampleSource>(std::make_shared<WebDatasetSource>(
      std::move(facts), *std::move(train), *std::move(eval), *std::move(images)));
}

}  // namespace es::store
