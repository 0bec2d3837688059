#include "actors/worker/device/snapshot.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "actors/worker/state/checkpoint_sections.h"
#include "gpu/est/est_context.h"
#include "proto/base/check.h"

namespace es::actors::worker {
namespace {

namespace fs = std::filesystem;

std::uint64_t unix_ms_now() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(now).count());
}

// Provides the sections of a snapshot and computes the digests of the bytes that the writer reads.
class Source {
 public:
  explicit Source(const Snapshot& snapshot)
      : snapshot_(snapshot),
        params_(*snapshot.table),
        state_(*snapshot.table),
        kernels_(encode(snapshot.kernels)),
        base_(snapshot.frozen.hex()) {
    for (const gpu::EstContext& context : snapshot.replica->contexts())
      contexts_.push_back(gpu::encode(context));
    add_sections();
  }
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  Result<VersionDigests> digests() {
    std::vector<std::byte> piece(std::size_t{1} << 20);
    for (std::size_t a = 0; a < snapshot_.replica->arrays(); ++a) {
      const std::uint64_t bytes = snapshot_.replica->bytes(a);
      for (std::uint64_t offset = 0; offset < bytes; offset += piece.size())
        ES_RETURN_IF_ERROR(read_array(
            a, offset,
            std::span(piece).first(std::min<std::uint64_t>(piece.size(), bytes - offset))));
    }
    store::CheckpointHead head{.version = snapshot_.replica->version()};
    ES_RETURN_IF_ERROR(complete(head));
    return VersionDigests{head.params_digest, head.state_digest};
  }

  store::CheckpointContents contents() {
    return {{.job_name = snapshot_.job_name,
             .version = snapshot_.replica->version(),
             .params_digest = {},
             .state_digest = {},
             .run = snapshot_.run},
            snapshot_.job_toml,
            sections_,
            [this](store::CheckpointHead& head) { return complete(head); }};
  }

 private:
  void add_sections() {
    for (std::size_t a = 0; a < snapshot_.replica->arrays(); ++a)
      sections_.push_back({a == 0 ? kParamsSection : moment_section(a - 1),
                           snapshot_.replica->bytes(a),
                           [this, a](std::uint64_t offset, std::span<std::byte> out) {
                             return read_array(a, offset, out);
                           }});
    for (VirtualRank rank = 0; rank < contexts_.size(); ++rank)
      sections_.push_back(store::section_of(context_section(rank), contexts_[rank]));
    sections_.push_back(store::section_of(kKernelsSection, std::as_bytes(std::span(kernels_))));
    const std::string& decisions = snapshot_.decisions;
    if (!decisions.empty())
      sections_.push_back(
          store::section_of(kDecisionsSection, std::as_bytes(std::span(decisions))));
    if (leaves_base_out())
      sections_.push_back(store::section_of(kBaseSection, std::as_bytes(std::span(base_))));
  }

  std::uint64_t trained_bytes() const {
    return static_cast<std::uint64_t>(snapshot_.table->trained_floats()) * sizeof(float);
  }
  bool leaves_base_out() const {
    return snapshot_.replica->bytes(0) <
           static_cast<std::uint64_t>(snapshot_.table->total_floats()) * sizeof(float);
  }

  // The digests are computed from the very bytes that the writer puts into the file, so no second
  // pass over the arrays is necessary.
  Status read_array(std::size_t array, std::uint64_t offset, std::span<std::byte> out) {
    ES_RETURN_IF_ERROR(read_floats(array, offset, out));
    if (array != 0) {
      state_.add(out);
      return {};
    }
    // The digest of the parameters has one of the frozen ones in their place.
    const std::uint64_t before = std::min(offset, trained_bytes());
    const std::uint64_t trained = std::min(offset + out.size(), trained_bytes()) - before;
    params_.add(out.first(trained));
    frozen_.add(out.subspan(trained));
    return {};
  }

  // Pieces of the replica and of others, in order.
  Status read_floats(std::size_t array, std::uint64_t offset, std::span<std::byte> out) {
    const std::vector<gpu::FloatRange>& held = snapshot_.replica->held(array);
    constexpr auto kFloat = sizeof(float);
    ES_CHECK(offset % kFloat == 0 && out.size() % kFloat == 0);
    auto at = static_cast<std::int64_t>(offset / kFloat);
    while (!out.empty()) {
      std::int64_t end = at + static_cast<std::int64_t>(out.size() / kFloat);
      const auto range = std::ranges::upper_bound(held, at, {}, &gpu::FloatRange::end);
      const bool here = range != held.end() && range->begin <= at;
      if (range != held.end()) end = std::min(end, here ? range->end : range->begin);
      if (!here) end = std::min(end, bucket_at(at).end);
      const auto piece = out.first(static_cast<std::size_t>(end - at) * kFloat);
      ES_RETURN_IF_ERROR(here ? snapshot_.replica->read(array, at * kFloat, piece)
                              : read_other(array - 1, at, piece));
      out = out.subspan(piece.size());
      at = end;
    }
    return {};
  }

  // The bucket that contains this float. The first bucket has the last floats.
  const gpu::Bucket& bucket_at(std::int64_t at) const {
    return *std::ranges::find_if(*snapshot_.buckets, [&](const gpu::Bucket& bucket) {
      return bucket.begin <= at && at < bucket.end;
    });
  }

  Status read_other(std::size_t moment, std::int64_t at, std::span<std::byte> out) {
    const gpu::Bucket& bucket = bucket_at(at);
    ES_CHECK(snapshot_.other != nullptr);
    return snapshot_.other(moment, static_cast<std::uint32_t>(&bucket - snapshot_.buckets->data()),
                           at - bucket.begin,
                           {reinterpret_cast<float*>(out.data()), out.size() / sizeof(float)});
  }

  Status complete(store::CheckpointHead& head) {
    state_.add(snapshot_.replica->contexts());
    params_.add_frozen(leaves_base_out() ? snapshot_.frozen : frozen_.finish());
    head.params_digest = params_.finish();
    head.state_digest = state_.finish();
    head.written_unix_ms = unix_ms_now();
    // The ledger has the digest that was computed at the commit. A difference means that memory was
    // damaged since, and such a checkpoint must not be published.
    if (!snapshot_.params || *snapshot_.params == head.params_digest) return {};
    return failure("version " + std::to_string(head.version) + ": parameters have digest " +
                   head.params_digest.hex() + ", and in the ledger " + snapshot_.params->hex());
  }

  const Snapshot& snapshot_;
  gpu::ArrayDigest params_, state_;
  DigestBuilder frozen_;
  std::vector<std::vector<std::byte>> contexts_;
  std::string kernels_, base_;
  std::vector<store::Section> sections_;
};

Result<store::CheckpointDraft> draft_of(const Snapshot& snapshot, const fs::path& directory) {
  Source source(snapshot);
  return store::CheckpointDraft::write(store::posix_file_system(), directory, source.contents());
}

bool holds(const fs::path& path, const store::CheckpointHead& head) {
  const auto reader = store::CheckpointReader::open(path);
  return reader && reader->head().params_digest == head.params_digest &&
         reader->head().state_digest == head.state_digest && reader->verify().ok();
}

Written written(const fs::path& path, const store::CheckpointDraft& draft) {
  return {path, {draft.head().params_digest, draft.head().state_digest}};
}

}  // namespace

Result<VersionDigests> digests_of(const Snapshot& snapshot) {
  return Source(snapshot).digests();
}

Result<Written> write_snapshot(const Snapshot& snapshot, const fs::path& directory) {
  ES_RETURN_IF_ERROR(store::check_free(directory));
  auto draft = draft_of(snapshot, directory);
  if (!draft) return draft.error();
  if (const Status published = draft->publish(directory); !published.ok())
    return draft->give_up(published.error());
  return written(directory, *draft);
}

Result<Written> keep_snapshot(const Snapshot& snapshot, const fs::path& directory) {
  constexpr int kNamesMax = 1000;
  auto draft = draft_of(snapshot, directory);
  if (!draft) return draft.error();
  // The file is read back before it gets its name. A checkpoint with a final name is therefore
  // whole.
  if (const Status whole = draft->verify(); !whole.ok()) return draft->give_up(whole.error());
  fs::path path = directory;
  Status published = draft->publish(path);
  for (int n = 2; n <= kNamesMax && !published.ok(); ++n) {
    // Refused means that the name is taken, which another name can solve. No other error can be
    // solved in this way.
    if (published.error().kind != ErrorKind::kRefused) break;
    // Another worker, or this job before a loss, may have written the same version. Its checkpoint
    // has the same bits and is used.
    if (holds(path, draft->head())) return written(path, *draft);
    path = directory.string() + "-" + std::to_string(n);
    published = draft->publish(path);
  }
  if (!published.ok()) return draft->give_up(published.error());
  return written(path, *draft);
}

}  // namespace es::actors::worker
