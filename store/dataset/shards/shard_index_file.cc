#include "store/dataset/shards/shard_index_file.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>

#include "store/checkpoint/new_file.h"
#include "store/dataset/images/raw_image.h"
#include "store/dataset/shards/tar_reader.h"
#include "store/path_roots.h"
#include "store/system_error.h"

namespace es::store {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::array<char, 8> kIndexMark = {'E', 'S', 'S', 'H', 'A', 'R', 'D', '1'};
constexpr std::uint64_t kEdgeBytes = 1024;

struct IndexHead {
  std::array<char, 8> mark = kIndexMark;
  std::uint64_t bytes = 0;
  std::int64_t changed_ns = 0;
  std::uint64_t edges_high = 0, edges_low = 0;
  std::uint64_t samples = 0;
};
static_assert(sizeof(IndexHead) == 48);

struct IndexEnd {
  std::uint64_t high = 0, low = 0;
};

// An image needs a header and a block, so an archive has no more samples than this.
std::uint64_t most_samples(const ShardState& state) {
  return state.bytes / (2 * kTarBlockBytes);
}

bool is_place(const ShardSample& sample, const ShardState& state) {
  return sample.label >= 0 && sample.image_at >= kTarBlockBytes &&
         sample.image_at % kTarBlockBytes == 0 && sample.image_at < state.bytes &&
         sample.image_bytes >= 1 && sample.image_bytes <= kImageFileBytesMax &&
         sample.image_bytes <= state.bytes - sample.image_at;
}

void append_bytes(std::vector<std::byte>& out, const void* data, std::size_t size) {
  const auto* const begin = static_cast<const std::byte*>(data);
  out.insert(out.end(), begin, begin + size);
}

}  // namespace

Result<ShardState> shard_state(const DataFile& file) {
  struct stat info {};
  if (::fstat(file.descriptor(), &info) != 0) return system_failure(file.name(), "be read", errno);
  std::vector<std::uint8_t> edge(std::min(file.bytes(), kEdgeBytes));
  DigestBuilder digest;
  for (const std::uint64_t at : {std::uint64_t{0}, file.bytes() - edge.size()}) {
    ES_RETURN_IF_ERROR(file.read(at, edge));
    digest.add(edge.data(), edge.size());
  }
  return ShardState{
      .bytes = file.bytes(),
      .changed_ns = std::int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec,
      .edges = digest.finish()};
}

std::filesystem::path shard_index_path(const ShardFile& shard) {
  return shard.path.string() + ".index";
}

std::vector<std::byte> shard_index_bytes(const ShardState& state,
                                         std::span<const ShardSample> samples) {
  const IndexHead head{.bytes = state.bytes,
                       .changed_ns = state.changed_ns,
                       .edges_high = state.edges.high,
                       .edges_low = state.edges.low,
                       .samples = samples.size()};
  std::vector<std::byte> out;
  out.reserve(sizeof head + samples.size_bytes() + sizeof(IndexEnd));
  append_bytes(out, &head, sizeof head);
  append_bytes(out, samples.data(), samples.size_bytes());
  const Digest digest = digest_of(out);
  const IndexEnd end{digest.high, digest.low};
  append_bytes(out, &end, sizeof end);
  return out;
}

std::optional<std::vector<ShardSample>> parse_shard_index(std::span<const std::uint8_t> content,
                                                          const ShardState& state) {
  IndexHead head;
  IndexEnd end;
  if (content.size() < sizeof head + sizeof end) return std::nullopt;
  const std::size_t digested = content.size() - sizeof end;
  std::memcpy(&head, content.data(), sizeof head);
  std::memcpy(&end, content.data() + digested, sizeof end);
  const ShardState described{head.bytes, head.changed_ns, {head.edges_high, head.edges_low}};
  const bool fits = head.mark == kIndexMark && described == state &&
                    head.samples <= most_samples(state) &&
                    digested - sizeof head == head.samples * sizeof(ShardSample) &&
                    digest_of(std::as_bytes(content.first(digested))) == Digest{end.high, end.low};
  if (!fits) return std::nullopt;
  std::vector<ShardSample> samples(head.samples);
  std::memcpy(samples.data(), content.data() + sizeof head, head.samples * sizeof(ShardSample));
  const bool good = std::ranges::all_of(
      samples, [&](const ShardSample& sample) { return is_place(sample, state); });
  return good ? std::optional(std::move(samples)) : std::nullopt;
}

std::optional<std::vector<ShardSample>> read_shard_index(const ShardFile& shard,
                                                         const ShardState& state) {
  const auto file = DataFile::open(shard_index_path(shard), shard.name);
  const std::uint64_t most =
      sizeof(IndexHead) + most_samples(state) * sizeof(ShardSample) + sizeof(IndexEnd);
  if (!file.ok() || file->bytes() > most) return std::nullopt;
  std::vector<std::uint8_t> content(file->bytes());
  if (!file->read(0, content).ok()) return std::nullopt;
  return parse_shard_index(content, state);
}

Status write_shard_index(FileSystem& files, const ShardFile& shard, const ShardState& state,
                         std::span<const ShardSample> samples) {
  const std::filesystem::path path = shard_index_path(shard);
  ES_RETURN_IF_ERROR(check_place(RootKind::kData, path));
  ES_RETURN_IF_ERROR(files.remove_file(path));
  return write_new_file(files, path, [&](WritableFile& file) {
    return file.append(shard_index_bytes(state, samples));
  });
}

}  // namespace es::store
