// Engines that hold the moments of some buckets, and the parts of their updates.
#include <algorithm>
#include <utility>

#include "gpu/engine/engine.h"
#include "gpu/engine/if_memory_suffices.h"
#include "proto/base/check.h"

namespace es::gpu {

bool Engine::holds_all() const {
  return std::ranges::all_of(held_, [](bool held) { return held; });
}

std::vector<std::uint32_t> Engine::held_buckets() const {
  std::vector<std::uint32_t> buckets;
  for (std::uint32_t bucket = 0; bucket < held_.size(); ++bucket)
    if (held_[bucket]) buckets.push_back(bucket);
  return buckets;
}

// Throws NoMemory; the arrays may then differ.
void Engine::set_held(std::vector<bool> held) {
  const std::vector<FloatRange> ranges = ranges_of(buckets_, held);
  for (HeldArray& moment : replica_.moments) moment.hold(ranges, "moments of the optimizer");
  held_ = std::move(held);
  held_ranges_ = ranges;
}

Status Engine::hold(std::span<const std::uint32_t> buckets) {
  std::vector<bool> wanted(buckets_.size(), false), kept = wanted;
  for (const std::uint32_t bucket : buckets) {
    ES_CHECK(bucket < wanted.size() && !wanted[bucket]);
    wanted[bucket] = true;
    kept[bucket] = held_[bucket];
  }
  if (wanted == held_) return {};
  ES_RETURN_IF_ERROR(fetch_replica());
  return if_memory_suffices(spec_, [&]() -> Status {
    // Memory is given back by all arrays before one of them takes some.
    set_held(kept);
    try {
      set_held(wanted);
    } catch (const NoMemory&) {
      set_held(kept);
      throw;
    }
    host_changed();
    return {};
  });
}

Status Engine::check_update(const std::vector<EstContext>& next) const {
  ES_RETURN_IF_ERROR(usable_);
  return check_contexts(next, replica_.version + 1);
}

void Engine::sums_of_squares(std::uint32_t bucket, const float* sum, std::span<float> by_param) {
  const std::span<const Bucket> one = std::span(buckets_).subspan(bucket, 1);
  gpu::sums_of_squares({table_, one, std::span(&sum, 1)}, params_of(table_, one.front()), kernels_,
                       parallel_, by_param);
}

Status Engine::update_held(std::span<const float* const> sums, std::span<const float> squares,
                           std::uint32_t reductions) {
  ES_CHECK(sums.size() == buckets_.size() && squares.size() == squares_.size());
  for (std::size_t b = 0; b < buckets_.size(); ++b) ES_CHECK((sums[b] != nullptr) == held_[b]);
  ES_RETURN_IF_ERROR(usable_);
  ES_RETURN_IF_ERROR(receive_sums(sums));
  std::ranges::copy(squares, squares_.begin());
  return update(sums, reductions);
}

std::span<const float> Engine::bucket_params(std::uint32_t bucket) const {
  const Bucket& floats = buckets_[bucket];
  return {replica().params.data() + floats.begin, static_cast<std::size_t>(floats.floats())};
}

void Engine::replace_params(std::uint32_t bucket, const float* params) {
  ES_CHECK(fetched_);
  const Bucket& floats = buckets_[bucket];
  std::copy_n(params, floats.floats(), replica_.params.data() + floats.begin);
  next_[bucket] = true;
  host_changed();
}

void Engine::replace_moments(std::uint32_t bucket, std::size_t moment, const float* values) {
  ES_CHECK(fetched_ && holds(bucket));
  const Bucket& floats = buckets_[bucket];
  std::copy_n(values, floats.floats(), replica_.moments.at(moment).data() + floats.begin);
  host_changed();
}

Status Engine::commit_update(std::vector<EstContext> next) {
  ES_CHECK(std::ranges::all_of(next_, [](bool updated) { return updated; }));
  ES_RETURN_IF_ERROR(check_update(next));
  // Contexts and version follow last. A replica whose update failed keeps its old version, and
  // lose_replica() has marked it as unusable if its parameters were already changed.
  replica_.contexts = std::move(next);
  ++replica_.version;
  next_.assign(buckets_.size(), false);
  return {};
}

}  // namespace es::gpu
