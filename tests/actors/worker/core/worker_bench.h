#pragma once
// The core of one worker, driven message by message.
#include <doctest/doctest.h>

#include <algorithm>

#include "actors/worker/core/worker_core.h"

namespace es::actors::worker {

using namespace protocol;

inline constexpr Incarnation kSelf{1};
inline constexpr Incarnation kPeer{2};
inline constexpr Incarnation kSource{3};
inline constexpr Version kLast = 10;
inline const ChannelPoint kPeersChannel{"nccl 2.28.9", "GPU-2"};

inline Stamp from_head(std::uint64_t generation) {
  return {Generation{generation}, Incarnation{}};
}
inline Stamp from_peer(std::uint64_t generation) {
  return {Generation{generation}, kPeer};
}

template <class T>
const T* find(const Effects& effects) {
  for (const Effect& effect : effects) {
    if (const T* found = std::get_if<T>(&effect)) return found;
  }
  return nullptr;
}

template <class M>
const M* to_head(const Effects& effects) {
  for (const Effect& effect : effects) {
    const auto* send = std::get_if<SendHead>(&effect);
    if (send == nullptr) continue;
    if (const M* found = std::get_if<M>(&send->message)) return found;
  }
  return nullptr;
}

template <class M>
const M* to_peer(const Effects& effects) {
  for (const Effect& effect : effects) {
    const auto* send = std::get_if<SendPeer>(&effect);
    if (send == nullptr) continue;
    if (const M* found = std::get_if<M>(&send->message)) return found;
  }
  return nullptr;
}

// max_p = 2, two buckets: this worker has rank 0 and owns bucket 0, the peer rank 1 and bucket 1.
class Bench {
 public:
  Bench() : core(config()) {}
  explicit Bench(WorkerConfig config) : core(std::move(config)) {}
  // Seven ranks.
  explicit Bench(bool sum_per_worker) : core(wide_config(sum_per_worker)) {}

  static WorkerConfig wide_config(bool sum_per_worker) {
    WorkerConfig wide = config();
    wide.max_p = 7;
    wide.sum_per_worker = sum_per_worker;
    return wide;
  }
  static WorkerConfig config() {
    WorkerConfig config;
    config.self = kSelf;
    config.max_p = 2;
    config.eval_every = 4;
    return config;
  }
  static Install install(std::uint64_t generation, Version target, Source source) {
    Install install;
    install.stamp = from_head(generation);
    install.target = target;
    install.members = {{kSelf, {0, 1}, "self", "h"}, {kPeer, {1, 2}, "peer", "h", kPeersChannel}};
    install.source = std::move(source);
    install.bucket_count = 2;
    install.last_version = kLast;
    return install;
  }
  static FromPeer source() { return {kSource, "source", "h"}; }

  template <class Message>
  Effects head(Message message) {
    return core.on(HeadMessage(std::move(message)), now);
  }
  template <class Message>
  Effects peer(Message message) {
    return core.on(PeerMessage(std::move(message)), now);
  }
  template <class Event>
  Effects engine(Event event) {
    return core.on(EngineEvent(std::move(event)), now);
  }

  // Runs to Ready at `version` in generation 1, loaded from the seed or a checkpoint.
  void ready_at(Version version) {
    head(Prepare{from_head(1)});
    head(install(1, version, FromCheckpoint{"path"}));
    engine(VersionLoaded{version});
    REQUIRE(core.phase() == Phase::kReady);
  }
  Effects go() { return head(Go{from_head(1)}); }

  static Bytes context() { return std::make_shared<const std::vector<std::byte>>(1); }
  static Contrib contrib(std::uint64_t generation, Version step) {
    return {from_peer(generation), step, 0, {1, 2}, {}, {{1, 0, context()}}, false};
  }
  static Reduced reduced(std::uint64_t generation, Version step) {
    return {from_peer(generation), step, 1, {}, {}, false};
  }
  // What the engine says of rank 0 and of bucket 0.
  static PartSummed own_part(std::uint64_t generation, Version step, std::uint32_t bucket) {
    PartSummed summed{{{Generation{generation}, {}}, step, bucket, {0, 1}, {}, {}, false}};
    if (bucket == 0) summed.part.results = {{0, 0, context()}};
    return summed;
  }
  static BucketReduced bucket_reduced(std::uint64_t generation, Version step) {
    return {{{Generation{generation}, {}}, step, 0, {}, {}, false}};
  }
  // The own part of step `step`: both buckets of rank 0.
  Effects sum_own(Version step) {
    engine(own_part(1, step, 1));
    return engine(own_part(1, step, 0));
  }
  // All of step `step` up to the running update.
  Effects step_until_update(Version step, bool peer_drains = false) {
    sum_own(step);
    Contrib other = contrib(1, step);
    other.drain = peer_drains;
    peer(other);
    peer(reduced(1, step));
    return engine(bucket_reduced(1, step));
  }
  Effects commit(Version step) { return engine(UpdateApplied{{step + 1, {0, 0}, {}, {}}}); }

  Instant now{};
  WorkerCore core;
};

}  // namespace es::actors::worker
