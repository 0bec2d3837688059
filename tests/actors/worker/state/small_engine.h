#pragma once
// Small engines, updates of them and snapshots of them, for tests of what a worker writes and
// loads.
#include <doctest/doctest.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "actors/base/job_file/job_file.h"
#include "actors/worker/device/snapshot.h"
#include "actors/worker/job_model/job_model.h"
#include "gpu/engine/engine.h"

namespace es::actors::worker::test {

// A job of 8x8 images, width 8 (resnet18) or 4 (small_cnn).
inline JobSpec small_job(const std::string& name, const std::string& model, std::uint32_t max_p) {
  JobSpec s;
  s.name = name;
  s.max_p = max_p;
  s.batch_size = 2;
  s.steps = 100;
  s.model = {.name = model, .width = model == "resnet18" ? 8U : 4U};
  return s;
}

// Without a replica.
inline std::unique_ptr<gpu::Engine> empty_engine(const JobSpec& spec,
                                                 std::int64_t bucket_bytes = gpu::kBucketBytes) {
  const std::uint32_t channels = spec.model.name == "resnet18" ? 3 : 1;
  const SampleLayout layout{{{.name = "image", .height = 8, .width = 8, .channels = channels},
                             {.name = "label", .type = FieldType::kI32, .high = 9}}};
  auto graph = JobModel::open(spec.model)->graph(spec, layout);
  REQUIRE_MESSAGE(graph.ok(), (graph.ok() ? "" : graph.error().message));
  auto made = gpu::Engine::create(spec, *std::move(graph),
                                  {.cpu_class = CpuClass::kScalar, .bucket_bytes = bucket_bytes});
  REQUIRE(made.ok());
  return *std::move(made);
}

inline std::unique_ptr<gpu::Engine> small_engine(const JobSpec& spec) {
  auto engine = empty_engine(spec);
  REQUIRE(engine->init_replica().ok());
  return engine;
}

// What an update gets: a gradient that differs by element, so that momentum and statistics are not
// zero.
struct Update {
  explicit Update(const gpu::Engine& e)
      : gradient(static_cast<std::size_t>(e.table().total_floats())), next(e.contexts()) {
    for (std::size_t i = 0; i < gradient.size(); ++i)
      gradient[i] = 0.01F * static_cast<float>(i % 17) - 0.05F;
    for (gpu::EstContext& context : next) {
      ++context.version;
      for (float& stat : context.stats) stat += 0.25F;
    }
  }
  // The sums of the buckets that the engine holds.
  std::vector<const float*> sums(const gpu::Engine& e) const {
    std::vector<const float*> held;
    for (std::uint32_t b = 0; b < e.buckets().size(); ++b)
      held.push_back(e.holds(b) ? gradient.data() + e.buckets()[b].begin : nullptr);
    return held;
  }

  std::vector<float> gradient;
  std::vector<gpu::EstContext> next;
};

inline void advance(gpu::Engine& e) {
  const Update update(e);
  REQUIRE(e.apply_update(update.sums(e), update.next).ok());
}

inline Snapshot snapshot_of(const gpu::Engine& e, const JobSpec& spec) {
  return {.job_name = spec.name,
          .job_toml = to_toml(spec),
          .kernels = kernel_record(e, spec.level),
          .params = e.params_digest(),
          .table = &e.table(),
          .buckets = &e.buckets(),
          .frozen = e.frozen_digest(),
          .replica = std::make_shared<gpu::FrozenReplica>(e.replica(), e.kept_floats())};
}

}  // namespace es::actors::worker::test
