#pragma once
// The core of a job's head, driven event by event. The only node, "node", is present, and can read
// every path about which the core asks, unless a test sets Bench::sight otherwise.
#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

#include "actors/head/intra_job/core/job_core.h"

namespace es::actors::intra_job {

using namespace protocol;

inline constexpr Version kLast = 10;

inline DeviceId device(std::uint32_t index, const char* type = "a") {
  return {"node", {type}, index};
}

template <class T>
std::vector<T> all(const Effects& effects) {
  std::vector<T> found;
  for (const Effect& effect : effects) {
    if (const T* one = std::get_if<T>(&effect)) found.push_back(*one);
  }
  return found;
}

// The receivers of messages of this type, in ascending order.
template <class M>
std::vector<std::uint64_t> receivers(const Effects& effects) {
  std::vector<std::uint64_t> found;
  for (const SendWorker& send : all<SendWorker>(effects)) {
    if (std::holds_alternative<M>(*send.message)) found.push_back(send.to.value);
  }
  std::sort(found.begin(), found.end());
  return found;
}

template <class M>
M message(const Effects& effects) {
  for (const SendWorker& send : all<SendWorker>(effects)) {
    if (const M* one = std::get_if<M>(send.message.get())) return *one;
  }
  FAIL("no such message was sent");
  return {};
}

inline Bytes totals(int value) {
  return std::make_shared<const std::vector<std::byte>>(4, static_cast<std::byte>(value));
}

using Ids = std::vector<std::uint64_t>;

class Bench {
 public:
  explicit Bench(const std::string& stages = "", std::uint32_t max_p = 4)
      : core(config(stages, max_p), services()) {
    start();
  }
  explicit Bench(Config config) : core(std::move(config), services()) { start(); }
  Bench(JobRecord record, LedgerHistory history, Config config = Bench::config("", 4))
      : core(std::move(config), services(), std::move(record), std::move(history)) {
    next = 100;
    start();
  }
  // Replaces the core, as a restart of the head does; start() follows.
  void replace_core(Config config, JobRecord record, LedgerHistory history) {
    std::destroy_at(&core);
    std::construct_at(&core, std::move(config), services(), std::move(record), std::move(history));
  }
  void start() {
    started = core.start(now);
    const Effects more = event(NodesPresent(std::set<std::string>{"node"}));
    started.insert(started.end(), more.begin(), more.end());
  }

  static Config config(const std::string& stages, std::uint32_t max_p) {
    Config config;
    config.spec.level = DeterminismLevel::kD2;  // The job may be given devices of any types.
    config.spec.max_p = max_p;
    if (!stages.empty()) config.spec.stages = parse_stages(stages).value();
    config.last_version = kLast;
    config.bucket_count = 2;
    return config;
  }
  Services services() {
    return {.next_incarnation = [this] { return Incarnation{next++}; },
            .assign_ranks =
                [](std::uint32_t max_p, const std::vector<DeviceId>& devices) {
                  std::vector<RankRange> ranges;
                  const auto n = static_cast<std::uint32_t>(devices.size());
                  for (std::uint32_t d = 0; d < n; ++d) {
                    ranges.push_back({d * max_p / n, (d + 1) * max_p / n});
                  }
                  return ranges;
                },
            // Every metric has the value of the totals.
            .metrics = [](const Bytes& bytes) -> MetricValue {
              return
                  [value = static_cast<double>(bytes->at(0))](const std::string&) { return value; };
            }};
  }

  Effects event(Event e) { return answered(core.on(e, now)); }
  // Nodes answer at once, except those in `silent`.
  Effects answered(Effects effects) {
    for (std::size_t i = 0; i < effects.size(); ++i) {
      const auto* find = std::get_if<FindStates>(&effects[i]);
      if (find == nullptr) continue;
      if (silent.contains(find->node)) continue;
      StatesFound found{find->node, {}};
      for (const CheckpointRef& state : find->states)
        found.states.push_back({state, sight(find->node, state), "what is wrong with it"});
      effects.erase(effects.begin() + static_cast<std::ptrdiff_t>(i--));
      const Effects more = core.on(Event(found), now);
      effects.insert(effects.end(), more.begin(), more.end());
    }
    return effects;
  }
  Effects allocate(std::vector<DeviceId> devices) {
    return event(Allocation{++sequence, releases, std::move(devices)});
  }
  Stamp stamp(std::uint64_t from) const { return {core.generation(), Incarnation{from}}; }
  Effects say(WorkerMessage message) { return answered(core.on(message, now)); }
  static ChannelPoint channel(std::uint64_t of) { return {"nccl", "GPU-" + std::to_string(of)}; }
  Effects hello(std::uint64_t from, std::string kernels = "") {
    return say(Hello{{Generation{0}, Incarnation{from}},
                     {},
                     "address",
                     "host",
                     channel(from),
                     std::move(kernels)});
  }
  Effects report(std::uint64_t from, std::optional<Version> version) {
    return say(Report{stamp(from), version});
  }
  Effects ready(std::uint64_t from, Version version) { return say(Ready{stamp(from), version}); }
  Effects drained(std::uint64_t from, Version version) {
    return say(Drained{stamp(from), version});
  }
  Effects committed(std::uint64_t from, Version version, std::uint64_t digest = 7) {
    return say(Committed{stamp(from), {version, {0, 0, 0, 0}, {digest, version}, std::nullopt}});
  }
  Effects exited(std::uint64_t who) { return event(WorkerExited{Incarnation{who}, "signal 9"}); }
  // Runs from Prepare to Go. All workers report `version`.
  Effects round(const Ids& known, std::optional<Version> version, const Ids& members) {
    for (const std::uint64_t id : known) report(id, version);
    Effects last;
    for (const std::uint64_t id : members) last = ready(id, version.value_or(0));
    return last;
  }
  // Workers 1..n on devices 0..n-1 in generation 1, running from version 0.
  void run_with(std::uint32_t n) {
    std::vector<DeviceId> devices;
    Ids ids;
    for (std::uint32_t i = 0; i < n; ++i) {
      devices.push_back(device(i));
      ids.push_back(i + 1);
    }
    allocate(devices);
    for (const std::uint64_t id : ids) hello(id);
    round(ids, std::nullopt, ids);
    REQUIRE(core.state() == JobState::kRunning);
  }

  std::set<std::string> silent;
  std::function<Sight(const std::string& node, const CheckpointRef&)> sight =
      [](const std::string&, const CheckpointRef&) { return Sight::kWhole; };
  Instant now{};
  std::uint64_t next = 1;
  std::uint64_t sequence = 0;
  std::uint64_t releases = 0;
  Effects started;
  JobCore core;
};

}  // namespace es::actors::intra_job
