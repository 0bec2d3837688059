#include "gpu/graph/move_compose.h"

#include <algorithm>
#include <tuple>
#include <vector>

namespace es::gpu {
namespace {

// More copies than this are many small pieces, which cost more than one more pass over the tensor.
constexpr std::size_t kCopiesMax = 64;
constexpr std::int64_t kRunsMax = 1 << 20;  // with more runs the search would take too long

// A run of words that are consecutive in both arrays.
struct WordRun {
  std::int32_t source = 0, target = 0;
  std::int64_t from = 0, to = 0, words = 0;
};

// Returns the part of the copy within the first image; nothing if the copy is not the same in every
// image.
std::optional<BlockCopy> first_image(BlockCopy copy, std::int64_t images, std::int64_t source_words,
                                     std::int64_t target_words) {
  if (images == 1) return copy;
  // The images are a part of the outermost dimension of a simplified copy. The copy is the same in
  // every image if this dimension is a multiple of the images and each image's part ends where the
  // next image begins, in the source and in the target.
  std::size_t d = 0;
  while (d < kMoveRank && copy.size[d] == 1) ++d;
  if (d == kMoveRank || copy.size[d] % images != 0) return std::nullopt;
  copy.size[d] /= images;
  if (copy.size[d] * copy.source_stride[d] != source_words / images ||
      copy.size[d] * copy.target_stride[d] != target_words / images)
    return std::nullopt;
  return copy;
}

// Returns the same copy for every image. Dimension 0 is free here (grouped).
BlockCopy all_images(BlockCopy copy, std::int64_t images, std::int64_t source_words,
                     std::int64_t target_words) {
  copy.size[0] = images;
  copy.source_stride[0] = source_words / images;
  copy.target_stride[0] = target_words / images;
  return simplified(copy);
}

void append_runs(const BlockCopy& copy, std::vector<WordRun>& runs) {
  constexpr std::size_t kLast = kMoveRank - 1;
  // A run is the innermost dimension if it is contiguous in both arrays, and otherwise a single
  // word.
  const bool dense = copy.source_stride[kLast] == 1 && copy.target_stride[kLast] == 1;
  const std::int64_t words = dense ? copy.size[kLast] : 1;
  for (std::int64_t i = 0; i < copy.count() / words; ++i) {
    WordRun run{copy.source, copy.target, copy.source_offset, copy.target_offset, words};
    std::int64_t rest = i;
    for (std::size_t d = dense ? kLast : kMoveRank; d-- > 0; rest /= copy.size[d]) {
      run.from += rest % copy.size[d] * copy.source_stride[d];
      run.to += rest % copy.size[d] * copy.target_stride[d];
    }
    runs.push_back(run);
  }
}

// Appends the origins of the words that `second` reads, piece by piece. `first` is sorted by
// target.
void append_composed(const std::vector<WordRun>& first, const WordRun& second,
                     std::vector<WordRun>& out) {
  const std::int64_t end = second.from + second.words;
  // The first run that ends behind the beginning of `second`.
  auto run =
      std::upper_bound(first.begin(), first.end(), second.from,
                       [](std::int64_t at, const WordRun& r) { return at < r.to + r.words; });
  // Words between the runs are +0 in the tensor that vanishes. Nothing is appended for them, and
  // the result leaves them +0 too.
  for (; run != first.end() && run->to < end; ++run) {
    const std::int64_t begin = std::max(second.from, run->to);
    const std::int64_t words = std::min(end, run->to + run->words) - begin;
    out.push_back({run->source, second.target, run->from + begin - run->to,
                   second.to + begin - second.from, words});
  }
}

// Groups copies of one form into a copy with one more dimension: a maximal sequence at equal
// distances becomes one copy. Returns whether it grouped anything.
bool group(std::vector<BlockCopy>& copies, std::size_t dimension) {
  // Copies that can be grouped become neighbours, in ascending order of their targets.
  std::stable_sort(copies.begin(), copies.end(), [](const BlockCopy& a, const BlockCopy& b) {
    return std::tie(a.source, a.target, a.size, a.source_stride, a.target_stride, a.target_offset) <
           std::tie(b.source, b.target, b.size, b.source_stride, b.target_stride, b.target_offset);
  });
  const auto alike = [](const BlockCopy& a, const BlockCopy& b) {
    return a.source == b.source && a.target == b.target && a.size == b.size &&
           a.source_stride == b.source_stride && a.target_stride == b.target_stride;
  };
  std::vector<BlockCopy> groups;
  for (std::size_t i = 0; i < copies.size();) {
    BlockCopy copy = copies[i];
    std::size_t end = i + 1;
    if (end < copies.size() && alike(copy, copies[end])) {
      const std::int64_t from = copies[end].source_offset - copy.source_offset;
      const std::int64_t to = copies[end].target_offset - copy.target_offset;
      while (end < copies.size() && alike(copy, copies[end]) &&
             copies[end].source_offset - copies[end - 1].source_offset == from &&
             copies[end].target_offset - copies[end - 1].target_offset == to)
        ++end;
      copy.size[dimension] = static_cast<std::int64_t>(end - i);
      copy.source_stride[dimension] = from;
      copy.target_stride[dimension] = to;
    }
    groups.push_back(copy);
    i = end;
  }
  const bool any = groups.size() < copies.size();
  copies = std::move(groups);
  return any;
}

// Expresses the runs as few copies. Dimension 0 stays free; all_images() uses it.
std::vector<BlockCopy> grouped(const std::vector<WordRun>& runs) {
  std::vector<BlockCopy> copies;
  for (const WordRun& r : runs) {
    BlockCopy copy;
    copy.source = r.source;
    copy.target = r.target;
    copy.source_offset = r.from;
    copy.target_offset = r.to;
    copy.size[kMoveRank - 1] = r.words;
    copy.source_stride[kMoveRank - 1] = copy.target_stride[kMoveRank - 1] = 1;
    copies.push_back(copy);
  }
  // From the dimension next to the runs outwards, until there is nothing to group.
  for (std::size_t d = kMoveRank - 1; d-- > 1;)
    if (!group(copies, d)) break;
  return copies;
}

// Joins runs that are neighbours in both arrays.
std::vector<WordRun> joined(std::vector<WordRun> runs) {
  std::sort(runs.begin(), runs.end(), [](const WordRun& a, const WordRun& b) {
    return std::tie(a.target, a.to) < std::tie(b.target, b.to);
  });
  std::vector<WordRun> out;
  for (const WordRun& r : runs) {
    if (!out.empty() && out.back().source == r.source && out.back().target == r.target &&
        out.back().from + out.back().words == r.from && out.back().to + out.back().words == r.to) {
      out.back().words += r.words;
    } else {
      out.push_back(r);
    }
  }
  return out;
}

// Returns all runs of a move in its first image, or nothing.
std::optional<std::vector<WordRun>> runs_of(const Move& move, std::int64_t images,
                                            std::span<const std::int64_t> inputs,
                                            std::span<const std::int64_t> outputs) {
  std::vector<WordRun> runs;
  for (const BlockCopy& copy : move) {
    const std::optional<BlockCopy> one =
        first_image(copy, images, inputs[static_cast<std::size_t>(copy.source)],
                    outputs[static_cast<std::size_t>(copy.target)]);
    if (!one || one->count() > kRunsMax) return std::nullopt;
    append_runs(*one, runs);
    if (static_cast<std::int64_t>(runs.size()) > kRunsMax) return std::nullopt;
  }
  return runs;
}

}  // namespace

std::optional<Move> composed(const Move& first, const Move& second, std::int32_t between,
                             const ComposeSizes& sizes) {
  const auto first_inputs = static_cast<std::int32_t>(sizes.first_inputs.size());
  // Copies of `second` that do not read the tensor in between stay as they are. The inputs of
  // `first` come first now, so the indices of the others change.
  Move through, result;
  for (BlockCopy copy : second) {
    if (copy.source == between) {
      through.push_back(copy);
    } else {
      copy.source += first_inputs - (copy.source > between ? 1 : 0);
      result.push_back(copy);
    }
  }
  const std::int64_t between_words[] = {sizes.between};
  auto before = runs_of(first, sizes.images, sizes.first_inputs, between_words);
  const auto after = runs_of(through, sizes.images, sizes.second_inputs, sizes.second_outputs);
  if (!before || !after) return std::nullopt;
  // What the first image reads must be what the first image wrote. Otherwise one image does not
  // represent all images.
  const std::int64_t image = sizes.between / sizes.images;
  for (const WordRun& r : *before)
    if (r.to + r.words > image) return std::nullopt;
  for (const WordRun& r : *after)
    if (r.from + r.words > image) return std::nullopt;
  std::sort(before->begin(), before->end(),
            [](const WordRun& a, const WordRun& b) { return a.to < b.to; });
  std::vector<WordRun> runs;
  for (const WordRun& r : *after) append_composed(*before, r, runs);
  for (const BlockCopy& copy : grouped(joined(std::move(runs))))
    result.push_back(all_images(copy, sizes.images,
                                sizes.first_inputs[static_cast<std::size_t>(copy.source)],
                                sizes.second_outputs[static_cast<std::size_t>(copy.target)]));
  if (result.size() > kCopiesMax) return std::nullopt;
  // A fixed order of the copies, whatever the search found first.
  std::stable_sort(result.begin(), result.end(), [](const BlockCopy& a, const BlockCopy& b) {
    return std::tie(a.target, a.target_offset) < std::tie(b.target, b.target_offset);
  });
  return result;
}

}  // namespace es::gpu
