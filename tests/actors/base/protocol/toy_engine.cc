#include "tests/actors/base/protocol/toy_engine.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <stdexcept>

#include "actors/base/protocol/core/decisions.h"

namespace es::test {

using namespace actors::protocol;
using namespace actors::worker;

namespace {

// A broken promise of the core ends the simulated run, and the test prints the seed.
void require(bool condition) {
  if (!condition) throw std::logic_error("the engine was asked for something wrong");
}

std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  std::uint64_t x = a * 0x9E3779B97F4A7C15u + b + 0x632BE59BD9B4E019u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

Bytes encode(const std::vector<std::uint64_t>& words) {
  const auto bytes = std::as_bytes(std::span(words));
  return std::make_shared<const std::vector<std::byte>>(bytes.begin(), bytes.end());
}

std::vector<std::uint64_t> decode(const Bytes& bytes) {
  std::vector<std::uint64_t> words(bytes->size() / sizeof(std::uint64_t));
  std::memcpy(words.data(), bytes->data(), bytes->size());
  return words;
}

Bulk bulk_of(const std::vector<std::uint64_t>& words) {
  return {.segment = "", .offset = 0, .bytes = words.size() * 8, .inline_bytes = encode(words)};
}

std::uint64_t sum_of(const std::vector<std::uint64_t>& gradients) {
  std::uint64_t sum = 0;
  for (const std::uint64_t g : gradients) sum = mix(sum, g);
  return sum;
}

std::uint64_t gradient(const ToyVersion& at, VirtualRank rank, std::uint32_t bucket) {
  return mix(mix(sum_of(at.params), at.contexts[rank]), mix(rank, bucket));
}

std::uint64_t next_context(const ToyVersion& at, VirtualRank rank) {
  return mix(at.contexts[rank], mix(sum_of(at.params), rank));
}

std::uint32_t loss_bits(const ToyVersion& at, VirtualRank rank) {
  return static_cast<std::uint32_t>(gradient(at, rank, 99)) & 0x3fffffffu;  // A finite fp32 value.
}

// What clipping needs of the sum of each bucket, and of all buckets together.
std::uint64_t square(std::uint64_t sum) {
  return mix(sum, 5);
}

std::uint64_t norm_of(const std::vector<std::uint64_t>& sums) {
  std::uint64_t norm = 0;
  for (const std::uint64_t sum : sums) norm = mix(norm, square(sum));
  return norm;
}

bool has_all_moments(const ToyVersion& version) {
  return std::ranges::count(version.moments, 0U) == 0;
}

LedgerLine line_of(const ToyJob& job, const ToyVersion& made, std::vector<std::uint32_t> losses) {
  LedgerLine line{.version = made.version,
                  .loss_bits = std::move(losses),
                  .params = digests_of(made).params,
                  .state = std::nullopt};
  if (may_be_last(job.spec, made.version, job.last_version) && has_all_moments(made))
    line.state = digests_of(made).state;
  return line;
}

Bytes totals_of(const ToyVersion& at) {
  return encode({sum_of(at.params), at.contexts[0]});
}

bool is_evaluated(const ToyJob& job, Version version) {
  return version == job.last_version || is_decided(version, job.spec.eval_every);
}

// The decisions with the evaluation of this version, if it has one.
std::string decided(const ToyJob& job, const ToyVersion& at) {
  if (!decides(job.spec) || !is_decided(at.version, job.spec.eval_every)) return at.decisions;
  return encode(decide(job.spec, decode_decisions(at.decisions).value(),
                       [&](const std::string& name) { return toy_metric(totals_of(at), name); }));
}

// The number of reductions is part of the new parameters.
void update(ToyVersion& at, std::uint32_t bucket, std::uint64_t sum, std::uint64_t norm,
            const std::string& decisions) {
  require(at.moments[bucket] != 0);
  at.moments[bucket] = mix(at.moments[bucket], sum) | 1U;
  at.params[bucket] = mix(at.params[bucket], mix(at.moments[bucket], norm));
  if (!decisions.empty())
    at.params[bucket] = mix(at.params[bucket], decode_decisions(decisions)->reductions);
}

}  // namespace

double toy_metric(const Bytes& totals, const std::string& metric) {
  const std::vector<std::uint64_t> words = decode(totals);
  return static_cast<double>(mix(words.at(0), metric.size()) % 8);
}

Version reference_end(const ToyJob& job) {
  for (Version version = 1; version < job.last_version; ++version)
    if (const std::string all = decided(job, reference_version(job, version));
        !all.empty() && stops(job.spec, decode_decisions(all).value()))
      return version;
  return job.last_version;
}

Version reference_best(const ToyJob& job, Version through) {
  Version best = 0;
  std::optional<double> value;
  for (Version version = 1; version <= through; ++version) {
    if (!is_evaluated(job, version)) continue;
    const double next =
        toy_metric(totals_of(reference_version(job, version)), job.spec.checkpoint.keep_best);
    if (!is_best(job.spec, next, value)) continue;
    best = version;
    value = next;
  }
  return best;
}

ToyVersion reference_version(const ToyJob& job, Version version) {
  ToyVersion at{.version = 0, .params = {}, .moments = {}, .contexts = {}};
  for (std::uint32_t bucket = 0; bucket < job.bucket_count; ++bucket) {
    at.params.push_back(mix(job.seed, 7 + bucket));
    at.moments.push_back(1);
  }
  if (decides(job.spec)) at.decisions = encode(Decisions());
  for (VirtualRank rank = 0; rank < job.max_p; ++rank) at.contexts.push_back(mix(job.seed, rank));
  while (at.version < version) {
    std::vector<std::uint64_t> buckets;
    for (std::uint32_t bucket = 0; bucket < job.bucket_count; ++bucket) {
      std::vector<std::uint64_t> gradients;
      for (VirtualRank r = 0; r < job.max_p; ++r) gradients.push_back(gradient(at, r, bucket));
      buckets.push_back(sum_of(gradients));
    }
    const std::string decisions = decided(job, at);
    ToyVersion next = at;
    ++next.version;
    next.contexts.clear();
    next.decisions = decisions;
    for (std::uint32_t bucket = 0; bucket < job.bucket_count; ++bucket)
      update(next, bucket, buckets[bucket], norm_of(buckets), decisions);
    for (VirtualRank r = 0; r < job.max_p; ++r) next.contexts.push_back(next_context(at, r));
    at = next;
  }
  return at;
}

LedgerLine reference_line(const ToyJob& job, Version version) {
  const ToyVersion before = reference_version(job, version - 1);
  std::vector<std::uint32_t> losses;
  for (VirtualRank rank = 0; rank < job.max_p; ++rank) losses.push_back(loss_bits(before, rank));
  return line_of(job, reference_version(job, version), losses);
}

VersionDigests digests_of(const ToyVersion& version) {
  VersionDigests digests{.params = {sum_of(version.params), version.version}, .state = {}};
  digests.state.high = sum_of(version.moments);
  for (const std::uint64_t context : version.contexts) {
    digests.state.low = mix(digests.state.low, context);
  }
  return digests;
}

ToyVersion only(ToyVersion version, const std::vector<std::uint32_t>& held) {
  for (std::uint32_t bucket = 0; bucket < version.moments.size(); ++bucket)
    if (!std::ranges::binary_search(held, bucket)) version.moments[bucket] = 0;
  return version;
}

std::vector<RankRange> maximal_ranges(RankRange range, std::uint32_t max_p) {
  std::vector<RankRange> parts;
  while (!range.empty()) {
    RankRange part = range;
    while (!is_tree_range(part, max_p)) --part.end;
    parts.push_back(part);
    range.begin = part.end;
  }
  return parts;
}

void ToyEngine::add(const Effect& effect) {
  if (const auto* abandon = std::get_if<AbandonGenerations>(&effect)) {
    std::erase_if(queue_, [&](const Piece& piece) {
      return !piece.atomic && piece.generation < abandon->before;
    });
    waiting_.clear();
    waiting_parts_.clear();
    return;
  }
  std::visit(
      [this](const auto& e) {
        if constexpr (requires { this->perform(e); }) perform(e);
      },
      effect);
}

bool ToyEngine::is_held_up() const {
  return waiting_parts_.size() > 1 && !queue_.empty() && queue_.front().needs_room;
}

std::deque<ToyEngine::Piece>::const_iterator ToyEngine::next_piece() const {
  if (!is_held_up()) return queue_.begin();
  return std::ranges::find_if(queue_, [](const Piece& piece) { return piece.is_step_work; });
}

EngineEvent ToyEngine::run() {
  if (is_held_up() && !std::exchange(told_held_up_, true))
    return StepsHeldUp{step_generation_, step_};
  const auto next = next_piece();
  const Piece piece = *next;
  queue_.erase(next);
  return piece.work();
}

void ToyEngine::perform(const PartsRead& effect) {
  const bool leaves =
      effect.generation == step_generation_ && waiting_parts_.erase(effect.bucket) != 0;
  if (!leaves) return;
  require(effect.step == step_);
  told_held_up_ = false;
  gone->insert({self_, effect.generation, effect.step, effect.bucket});
}

void ToyEngine::perform(const LoadVersion& effect) {
  queue_.push_back({effect.generation, true, [this, effect] { return load(effect); }});
}

EngineEvent ToyEngine::load(const LoadVersion& effect) {
  if (std::holds_alternative<FromSeed>(effect.from)) {
    held_ = reference_version(job_, 0);
  } else if (const auto* disk = std::get_if<FromCheckpoint>(&effect.from)) {
    const auto found = checkpoint_(effect.copy.empty() ? disk->path : effect.copy);
    if (!found) return CheckpointDamaged{effect.generation, disk->path, "damaged", true};
    held_ = found;
  } else {
    const State& state = std::get<State>(effect.from);
    if (!readable_(state.stamp.sender)) {
      return DataUnreadable{effect.generation, state.stamp.sender};
    }
    ToyVersion loaded{.version = state.version,
                      .params = decode(state.parameters.inline_bytes),
                      .moments = decode(state.moments.at(0).inline_bytes),
                      .contexts = {}};
    for (const Bytes& context : state.contexts) loaded.contexts.push_back(decode(context).at(0));
    require(digests_of(loaded) == state.digests);
    held_ = loaded;
  }
  // A checkpoint has the decisions, too; the head says the same.
  const bool from_disk = std::holds_alternative<FromCheckpoint>(effect.from);
  require(!from_disk || held_->decisions == effect.decisions);
  held_->decisions = effect.decisions;
  require(held_->version == effect.version);
  ahead_ = false;
  if (effect.held) held_ = only(*held_, *effect.held);
  return VersionLoaded{effect.version};
}

void ToyEngine::perform(const StartLocalSteps& effect) {
  require(held_ && held_->version == effect.step);
  step_generation_ = effect.generation;
  step_ = effect.step;
  waiting_parts_.clear();
  told_held_up_ = false;
  const bool leaves = sharded && effect.ranks.size() == 1 && job_.max_p > 1;
  for (const RankRange ranks : maximal_ranges(effect.ranks, job_.max_p)) {
    for (std::uint32_t i = 0; i < job_.bucket_count; ++i) {
      const std::uint32_t bucket = leaves ? (i + 1) % job_.bucket_count : i;
      const auto work = [=, this] {
        if (leaves && bucket != 0) waiting_parts_.insert(bucket);
        return sum(effect, bucket, ranks);
      };
      queue_.push_back({effect.generation, false, work, leaves});
    }
  }
}

EngineEvent ToyEngine::sum(const StartLocalSteps& effect, std::uint32_t bucket, RankRange ranks) {
  require(held_->version == effect.step && !ahead_);
  Contrib part{{effect.generation, {}}, effect.step, bucket, ranks, {}, {}, false};
  // The first word names the version from which the gradients were made.
  std::vector<std::uint64_t> words = {sum_of(held_->params)};
  for (VirtualRank rank = ranks.begin; rank < ranks.end; ++rank) {
    words.push_back(gradient(*held_, rank, bucket));
    if (bucket != 0) continue;
    std::vector<std::uint64_t> result = {next_context(*held_, rank)};
    if (read_samples) {
      const std::vector<std::uint64_t> samples = read_samples(effect.step, rank);
      result.insert(result.end(), samples.begin(), samples.end());
    }
    part.results.push_back({rank, loss_bits(*held_, rank), encode(result)});
  }
  part.data = bulk_of(words);
  return PartSummed{std::move(part)};
}

void ToyEngine::perform(const ReduceBucket& effect) {
  queue_.push_back(
      {effect.generation, false, [this, effect] { return reduce(effect); }, false, true});
}

EngineEvent ToyEngine::reduce(const ReduceBucket& effect) {
  require(held_->version == effect.step);
  std::vector<std::uint64_t> gradients;
  for (const Contrib& part : effect.parts) {
    const Incarnation from = part.stamp.sender;
    if (!readable_(from)) return DataUnreadable{effect.generation, from};
    require(!gone->contains({from, effect.generation, effect.step, effect.bucket}));
    const std::vector<std::uint64_t> words = decode(part.data.inline_bytes);
    require(words.at(0) == sum_of(held_->params));
    require(part.ranks.begin == effect.ranks.begin + gradients.size());
    require(is_tree_range(part.ranks, job_.max_p));
    gradients.insert(gradients.end(), words.begin() + 1, words.end());
  }
  require(gradients.size() == effect.ranks.size() && is_tree_range(effect.ranks, job_.max_p));
  if (effect.is_partial) {
    // It is made in the memory of a part of this worker.
    require(std::ranges::any_of(
        effect.parts, [this](const Contrib& part) { return part.stamp.sender == self_; }));
    gradients.insert(gradients.begin(), sum_of(held_->params));
    return PartialSumMade{{{effect.generation, {}},
                           effect.step,
                           effect.bucket,
                           effect.ranks,
                           bulk_of(gradients),
                           {},
                           false}};
  }
  return BucketReduced{{{effect.generation, {}},
                        effect.step,
                        effect.bucket,
                        bulk_of({sum_of(held_->params), sum_of(gradients)}),
                        {},
                        false}};
}

void ToyEngine::perform(const ApplyUpdate& effect) {
  queue_.push_back({effect.generation, true, [this, effect] { return update(effect); }});
}

EngineEvent ToyEngine::update(const ApplyUpdate& effect) {
  require(held_->version == effect.step);
  require(effect.buckets.size() == job_.bucket_count);
  std::vector<std::uint64_t> buckets;
  for (const Reduced& reduced : effect.buckets) {
    if (!readable_(reduced.stamp.sender)) {
      return DataUnreadable{effect.generation, reduced.stamp.sender};
    }
    const std::vector<std::uint64_t> words = decode(reduced.data.inline_bytes);
    require(words.at(0) == sum_of(held_->params));
    buckets.push_back(words.at(1));
  }
  for (std::uint32_t bucket = 0; bucket < job_.bucket_count; ++bucket)
    es::test::update(*held_, bucket, buckets[bucket], norm_of(buckets), effect.decisions);
  require(effect.last == may_be_last(job_.spec, effect.step + 1, job_.last_version));
  return commit(effect.results, effect.decisions);
}

EngineEvent ToyEngine::commit(std::vector<RankResult> results, const std::string& decisions) {
  held_->contexts.clear();
  std::vector<std::uint32_t> losses;
  std::vector<std::uint64_t> samples;
  for (const RankResult& result : results) {
    const std::vector<std::uint64_t> words = decode(result.context);
    held_->contexts.push_back(words.at(0));
    samples.insert(samples.end(), words.begin() + 1, words.end());
    losses.push_back(result.loss_bits);
  }
  ++held_->version;
  held_->decisions = decisions;
  if (on_samples_used) on_samples_used(held_->version, samples);
  return UpdateApplied{line_of(job_, *held_, losses)};
}

// --- sharded state

void ToyEngine::perform(const HoldSum& effect) {
  queue_.push_back({effect.generation, false,
                    [this, effect]() -> EngineEvent {
                      if (!readable_(effect.sum.stamp.sender))
                        return DataUnreadable{effect.generation, effect.sum.stamp.sender};
                      Reduced sum = effect.sum;
                      sum.stamp = {effect.generation, {}};
                      return SumHeld{sum, encode({square(decode(sum.data.inline_bytes).at(1))})};
                    },
                    false, true});
}

void ToyEngine::perform(const UpdateShards& effect) {
  queue_.push_back({effect.generation, true, [this, effect]() -> EngineEvent {
                      require(held_->version == effect.step && !ahead_);
                      const std::vector<std::uint64_t> squares = decode(effect.squares);
                      require(squares.size() == job_.bucket_count);
                      const std::uint64_t params = sum_of(held_->params);
                      ShardsUpdated done{effect.step, {}};
                      std::vector<std::uint32_t> buckets;
                      for (const Reduced& sum : effect.sums) {
                        const std::vector<std::uint64_t> words = decode(sum.data.inline_bytes);
                        require(words.at(0) == params && sum.step == effect.step);
                        es::test::update(*held_, sum.bucket, words.at(1), sum_of(squares),
                                         effect.decisions);
                        buckets.push_back(sum.bucket);
                        if (!std::ranges::binary_search(effect.shared, sum.bucket)) continue;
                        done.parameters.push_back({{effect.generation, {}},
                                                   effect.step,
                                                   sum.bucket,
                                                   bulk_of({held_->params[sum.bucket]})});
                      }
                      require(only(*held_, buckets) == *held_);  // All that are held are updated.
                      ahead_ = true;
                      ahead_decisions_ = effect.decisions;
                      return done;
                    }});
}

void ToyEngine::perform(const CommitShards& effect) {
  queue_.push_back({effect.generation, true, [this, effect] { return commit(effect); }});
}

EngineEvent ToyEngine::commit(const CommitShards& effect) {
  require(held_->version == effect.step && ahead_);
  for (const Updated& updated : effect.parameters)
    if (!readable_(updated.stamp.sender))
      return DataUnreadable{effect.generation, updated.stamp.sender};
  const auto held = static_cast<std::size_t>(
      std::ranges::count_if(held_->moments, [](std::uint64_t moment) { return moment != 0; }));
  require(held + effect.parameters.size() == job_.bucket_count);
  for (const Updated& updated : effect.parameters) {
    require(held_->moments[updated.bucket] == 0);
    held_->params[updated.bucket] = decode(updated.data.inline_bytes).at(0);
  }
  ahead_ = false;
  require(effect.last == may_be_last(job_.spec, effect.step + 1, job_.last_version));
  return commit(effect.results, ahead_decisions_);
}

void ToyEngine::perform(const LoadShards& effect) {
  queue_.push_back({effect.generation, true, [this, effect] { return load(effect); }});
}

EngineEvent ToyEngine::load(const LoadShards& effect) {
  for (const Shards& piece : effect.pieces)
    if (!readable_(piece.stamp.sender))
      return DataUnreadable{effect.generation, piece.stamp.sender};
  ToyVersion loaded = effect.from_nothing
                          ? ToyVersion{.version = effect.version,
                                       .params = std::vector<std::uint64_t>(job_.bucket_count),
                                       .moments = std::vector<std::uint64_t>(job_.bucket_count),
                                       .contexts = {}}
                          : *held_;
  std::vector<bool> fresh(job_.bucket_count,
                          loaded.version == effect.version && !effect.from_nothing && !ahead_);
  for (std::uint32_t bucket = 0; bucket < job_.bucket_count; ++bucket)
    if (ahead_ && !effect.from_nothing && loaded.moments[bucket] != 0) fresh[bucket] = true;
  for (const Shards& piece : effect.pieces) {
    require(piece.version == effect.version);
    const std::vector<std::uint64_t> words = decode(piece.data.inline_bytes);
    auto word = words.begin();
    for (const std::uint32_t bucket : piece.parameters) {
      loaded.params[bucket] = *word++;
      fresh[bucket] = true;
    }
    for (const std::uint32_t bucket : piece.moments) {
      require(loaded.moments[bucket] == 0);
      loaded.moments[bucket] = *word++;
    }
    require(word == words.end());
  }
  require(std::ranges::count(fresh, false) == 0);
  if (!effect.contexts.empty()) loaded.contexts.clear();
  std::vector<std::uint64_t> samples;
  for (const Bytes& context : effect.contexts) {
    const std::vector<std::uint64_t> words = decode(context);
    loaded.contexts.push_back(words.at(0));
    samples.insert(samples.end(), words.begin() + 1, words.end());
  }
  loaded.version = effect.version;
  loaded.decisions = effect.decisions;
  require(only(loaded, effect.held) == loaded);
  for (const std::uint32_t bucket : effect.held) require(loaded.moments[bucket] != 0);
  held_ = loaded;
  ahead_ = false;
  VersionLoaded done{effect.version};
  if (!effect.losses.empty()) done.line = line_of(job_, loaded, effect.losses);
  // Contexts of a version that no member has committed come with what its step had read.
  if (on_samples_used && !samples.empty()) on_samples_used(effect.version, samples);
  return done;
}

void ToyEngine::perform(const KeepShards& effect) {
  held_ = only(*held_, effect.buckets);
}

void ToyEngine::perform(const ExportShards& effect) {
  queue_.push_back({effect.generation, false, [this, effect]() -> EngineEvent {
                      const FetchShards& wanted = effect.wanted;
                      require(held_->version + (ahead_ ? 1 : 0) == wanted.version);
                      Shards shards{.version = wanted.version,
                                    .parameters = wanted.parameters,
                                    .moments = wanted.moments,
                                    .rest = wanted.rest,
                                    .frozen = wanted.frozen};
                      std::vector<std::uint64_t> words;
                      for (const std::uint32_t bucket : wanted.parameters) {
                        require(!ahead_ || held_->moments[bucket] != 0);
                        words.push_back(held_->params[bucket]);
                      }
                      for (const std::uint32_t bucket : wanted.moments) {
                        require(held_->moments[bucket] != 0);
                        words.push_back(held_->moments[bucket]);
                      }
                      shards.data = bulk_of(words);
                      if (wanted.rest)
                        for (const std::uint64_t context : held_->contexts)
                          shards.contexts.push_back(encode({context}));
                      return ShardsExported{effect.generation, wanted, shards};
                    }});
}

bool ToyEngine::holds_all() const {
  return has_all_moments(*held_);
}

void ToyEngine::with_whole(Generation generation,
                           std::function<EngineEvent(const ToyVersion&)> then) {
  require(!ahead_);
  if (holds_all()) {
    queue_.push_back({generation, true, [held = *held_, then] { return then(held); }});
  } else {
    waiting_.push_back({*held_, std::move(then)});
  }
}

void ToyEngine::perform(const DigestState& effect) {
  with_whole(effect.generation, [effect](const ToyVersion& version) -> EngineEvent {
    require(version.version == effect.version);
    return StateDigested{effect.generation, effect.version, digests_of(version).state};
  });
}

void ToyEngine::perform(const SupplyShards& effect) {
  const auto lost = std::ranges::find_if(
      effect.pieces, [this](const Shards& piece) { return !readable_(piece.stamp.sender); });
  if (lost != effect.pieces.end()) {
    std::erase_if(waiting_,
                  [&](const Waiting& one) { return one.version.version == effect.version; });
    const DataUnreadable unreadable{effect.generation, lost->stamp.sender};
    queue_.push_back(
        {effect.generation, false, [unreadable]() -> EngineEvent { return unreadable; }});
    return;
  }
  std::vector<Waiting> others;
  for (Waiting& waiting : std::exchange(waiting_, {})) {
    ToyVersion& version = waiting.version;
    if (version.version != effect.version) {
      others.push_back(std::move(waiting));
      continue;
    }
    if (effect.pieces.empty()) continue;
    for (const Shards& piece : effect.pieces) {
      const std::vector<std::uint64_t> words = decode(piece.data.inline_bytes);
      require(piece.version == effect.version && words.size() == piece.moments.size());
      for (std::size_t i = 0; i < words.size(); ++i) version.moments[piece.moments[i]] = words[i];
    }
    require(has_all_moments(version));
    queue_.push_back(
        {Generation{}, true, [version, then = waiting.then] { return then(version); }});
  }
  waiting_ = std::move(others);
  if (effect.pieces.empty()) return;
  queue_.push_back({effect.generation, false, [effect]() -> EngineEvent {
                      return ShardsTaken{effect.generation, effect.version};
                    }});
}

void ToyEngine::perform(const ExportVersion& effect) {
  queue_.push_back({effect.generation, false, [this, effect]() -> EngineEvent {
                      State state{.stamp = {},
                                  .version = held_->version,
                                  .digests = digests_of(*held_),
                                  .parameters = bulk_of(held_->params),
                                  .moments = {bulk_of(held_->moments)},
                                  .contexts = {},
                                  .unacknowledged = {}};
                      for (const std::uint64_t c : held_->contexts) {
                        state.contexts.push_back(encode({c}));
                      }
                      return VersionExported{effect.generation, effect.to, state};
                    }});
}

void ToyEngine::perform(const RunEvaluation& effect) {
  queue_.push_back({effect.generation, false, [this, effect]() -> EngineEvent {
                      require(held_->version == effect.version);
                      return EvaluationDone{effect.generation, effect.version, totals_of(*held_)};
                    }});
}

void ToyEngine::perform(const WriteVersion& effect) {
  // It is written when the queue has come to it, but a version that waits for shards is frozen now.
  const auto write = [this, effect](const ToyVersion& version) -> EngineEvent {
    const std::string path =
        effect.directory + (effect.periodic ? "/step-" + std::to_string(version.version) : "");
    CheckpointFinished done{effect.request, path, version.version, digests_of(version), ""};
    if (!on_checkpoint(path, version)) done.error = "occupied";
    return done;
  };
  with_whole({}, write);
}

}  // namespace es::test
