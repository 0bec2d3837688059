// Whole jobs whose gradients stay in device memory or leave it by random choice: at each worker, on
// each way between two workers, in each step. They give the same bytes as one CPU.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <random>

#include "gpu/cuda/device_reduction.h"
#include "proto/base/check.h"
#include "tests/gpu/support/training.h"
#include "tests/support/seed.h"

TEST_SUITE("gpu/cuda/device_exchange") {
  using namespace es;
  using namespace es::gpu;
  using cuda::DevicePool;
  using test::WorkerPlan;

  namespace {

  // Host memory replaces device memory, so the test itself can be the transport.
  constexpr DeviceKind kDevice = DeviceKind::kCudaHost;
  constexpr std::int64_t kBucketBytes = 1000;

  SampleLayout images() {
    return {{{.name = "image", .height = 6, .width = 6, .channels = 1},
             {.name = "label", .type = FieldType::kI32, .high = 9}}};
  }

  JobSpec job_spec(std::uint32_t max_p, DeterminismLevel level) {
    JobSpec spec;
    spec.max_p = max_p;
    spec.batch_size = 2;
    spec.steps = 100;
    spec.level = level;
    spec.model = {.name = "small_cnn", .width = 4, .classes = 10};
    spec.optimizer = {.learning_rate = 0.02, .momentum = 0.9, .weight_decay = 1e-3};
    return spec;
  }

  // Floats of a worker: in the memory of its device, in host memory, or in both.
  struct Floats {
    DevicePool::Block block;
    const float* device = nullptr;
    std::vector<float> copy;  // Data that were received in host memory.
    const float* host = nullptr;

    const float* any() const { return device != nullptr ? device : host; }
  };

  class Job {
   public:
    Job(const JobSpec& spec, const std::vector<WorkerPlan>& plans, std::uint64_t seed)
        : spec_(spec), batches_(spec, images()), random_(seed) {
      for (const WorkerPlan& plan : plans) add_worker(plan);
      for (std::size_t i = 0; i < workers_.size(); ++i)
        workers_[i].tree = std::make_unique<GradientTree>(
            workers_[i].range, spec.max_p, workers_[i].engine->buckets().size(),
            [this, i](const PartReady& ready) { add_part(i, ready); },
            workers_[i].engine->gradient_order());
    }

    void step() {
      parts_.assign(workers_[0].engine->buckets().size(), {});
      std::vector<EstContext> next(spec_.max_p);
      for (Worker& w : workers_) run(w, next);
      std::vector<Floats> sums;
      for (std::uint32_t b = 0; b < parts_.size(); ++b) sums.push_back(sum(b));
      for (std::size_t w = 0; w < workers_.size(); ++w) update(w, sums, next);
    }

    Engine& engine(std::size_t worker) { return *workers_[worker].engine; }
    int summed_on_device() const { return summed_on_device_; }

   private:
    struct Worker {
      RankRange range;
      std::unique_ptr<Engine> engine;
      std::vector<AlignedBuffer> slots;
      std::vector<DevicePool::Block> blocks;  // By slot.
      std::vector<bool> in_host;
      std::unique_ptr<GradientTree> tree;

      DevicePool* pool() const {
        return engine->reduction() != nullptr ? engine->reduction()->pool().get() : nullptr;
      }
    };
    struct Part {
      std::size_t worker;
      PartReady ready;
      Floats floats;
    };

    bool coin() { return random_() % 2 == 0; }

    void add_worker(const WorkerPlan& plan) {
      Worker w{.range = plan.range};
      w.engine = *Engine::create(spec_, images(),
                                 {.device = plan.device,
                                  .total_steps = 100,
                                  .bucket_bytes = kBucketBytes,
                                  .device_sums = plan.device_sums});
      const auto slots = max_live_buffers(plan.range, spec_.max_p, w.engine->gradient_order());
      for (std::uint32_t i = 0; i < slots; ++i)
        w.slots.emplace_back(w.engine->table().total_floats());
      ES_CHECK(w.engine->init_replica().ok());
      workers_.push_back(std::move(w));
    }

    // The way of each part in this step.
    void take_places(Worker& w) {
      w.blocks.assign(w.slots.size(), nullptr);
      w.in_host.assign(w.slots.size(), true);
      for (const std::uint32_t slot : w.tree->part_slots()) {
        if (w.pool() != nullptr && coin()) w.blocks[slot] = w.pool()->take(w.slots[slot].bytes());
        if (w.blocks[slot]) w.in_host[slot] = coin();
      }
      for (AlignedBuffer& slot : w.slots)
        std::fill_n(slot.data(), slot.floats(), std::numeric_limits<float>::quiet_NaN());
    }

    void run(Worker& w, std::vector<EstContext>& next) {
      w.tree->release_all();
      take_places(w);
      for (VirtualRank rank = w.range.begin; rank < w.range.end; ++rank) {
        const EstContext& current = w.engine->contexts()[rank];
        GradientTarget target(w.tree->begin_rank(rank),
                              [&w](std::uint32_t slot) { return w.slots[slot].data(); });
        target.device = [&w](std::uint32_t slot) {
          return reinterpret_cast<float*>(w.blocks[slot].get());
        };
        target.in_host = w.in_host[target.path.slots.back()];
        const Result<float> loss = w.engine->local_step(
            rank, batches_.make(rank, current.version), advance(current.cursor, 3), target,
            next[rank], [&w](std::uint32_t bucket) { w.tree->bucket_ready(bucket); });
        ES_CHECK_MSG(loss.ok(), loss.ok() ? "" : loss.error().message);
      }
    }

    void add_part(std::size_t worker, const PartReady& ready) {
      Worker& w = workers_[worker];
      const std::int64_t begin = w.engine->buckets()[ready.bucket].begin;
      Floats floats{.block = w.blocks[ready.slot], .copy = {}};
      if (floats.block) floats.device = reinterpret_cast<const float*>(floats.block.get()) + begin;
      if (w.in_host[ready.slot]) floats.host = w.slots[ready.slot].data() + begin;
      parts_[ready.bucket].push_back({worker, ready, std::move(floats)});
    }

    // The data that another worker gets.
    Floats send(const Floats& floats, std::int64_t count, Worker& to) {
      const auto bytes = static_cast<std::size_t>(count) * sizeof(float);
      Floats got;
      if (to.pool() != nullptr && coin()) got.block = to.pool()->take(bytes);
      if (got.block) {
        std::memcpy(got.block.get(), floats.any(), bytes);
        got.device = reinterpret_cast<const float*>(got.block.get());
      } else {
        got.copy.assign(floats.any(), floats.any() + count);
        got.host = got.copy.data();
      }
      return got;
    }

    template <class Parts>
    void add_up(const Parts& parts, std::int64_t count, float* workspace, float* out,
                Adder& adder) {
      std::vector<GradientPart> places;
      for (const Part& p : parts) places.push_back({p.ready.ranks, p.floats.any()});
      reduce_parts(workers_[0].engine->gradient_order(), spec_.max_p, {0, spec_.max_p}, places,
                   count, out, workspace, adder);
    }

    // By the owner of the bucket.
    Floats sum(std::uint32_t bucket) {
      const std::size_t owner = bucket % workers_.size();
      Worker& w = workers_[owner];
      const std::int64_t count = w.engine->buckets()[bucket].floats();
      for (Part& part : parts_[bucket])
        if (part.worker != owner) part.floats = send(part.floats, count, w);
      Floats sum;
      if (w.pool() != nullptr)
        sum.block = w.pool()->take(static_cast<std::size_t>(count) * sizeof(float));
      if (sum.block) {
        cuda::DeviceReduction& device = *w.engine->reduction();
        auto* const out = reinterpret_cast<float*>(sum.block.get());
        add_up(parts_[bucket], count, device.workspace(), out, device);
        REQUIRE(device.synchronise().ok());
        sum.device = out;
        ++summed_on_device_;
        return sum;
      }
      sum.copy.resize(static_cast<std::size_t>(count));
      std::vector<float> workspace(static_cast<std::size_t>(reduce_workspace_floats(spec_.max_p)));
      HostAdder host(w.engine->kernels());
      add_up(parts_[bucket], count, workspace.data(), sum.copy.data(), host);
      sum.host = sum.copy.data();
      return sum;
    }

    void update(std::size_t worker, const std::vector<Floats>& sums,
                const std::vector<EstContext>& next) {
      Worker& w = workers_[worker];
      std::vector<Floats> held;
      std::vector<const float*> reduced;
      for (std::uint32_t b = 0; b < sums.size(); ++b) {
        if (b % workers_.size() == worker) {
          reduced.push_back(sums[b].any());
        } else {
          held.push_back(send(sums[b], w.engine->buckets()[b].floats(), w));
          reduced.push_back(held.back().any());
        }
      }
      const Status updated = w.engine->apply_update(reduced, next);
      ES_CHECK_MSG(updated.ok(), updated.ok() ? "" : updated.error().message);
      ES_CHECK(w.engine->provide_for_peers().ok());
      w.blocks.clear();
    }

    const JobSpec spec_;
    test::BatchSource batches_;
    std::mt19937_64 random_;
    std::vector<Worker> workers_;
    std::vector<std::vector<Part>> parts_;  // By bucket.
    int summed_on_device_ = 0;
  };

  std::vector<WorkerPlan> random_workers(std::mt19937_64& random, std::uint32_t max_p) {
    std::vector<WorkerPlan> workers;
    for (VirtualRank begin = 0; begin < max_p;) {
      // Several workers, because a worker with all ranks keeps its sum (GradientPath::whole).
      const std::uint32_t most = begin == 0 ? max_p - 1 : max_p - begin;
      const auto size = std::uniform_int_distribution<std::uint32_t>(1, most)(random);
      workers.push_back({.range = {begin, begin + size},
                         .device = random() % 4 == 0 ? DeviceKind::kCpu : kDevice,
                         .device_sums = static_cast<std::uint32_t>(random() % 3)});
      begin += size;
    }
    return workers;
  }

  }  // namespace

  TEST_CASE("any workers, parts and sums in any memory, have the bytes of one CPU") {
    const std::uint64_t seed = test::seed("device exchange");
    std::mt19937_64 random(seed);
    int summed_on_device = 0;
    for (int trial = 0; trial < 12; ++trial) {
      const auto max_p = std::uniform_int_distribution<std::uint32_t>(2, 11)(random);
      const JobSpec spec = job_spec(max_p, DeterminismLevel::kD2);
      const auto plans = random_workers(random, max_p);
      CAPTURE(max_p);
      CAPTURE(plans.size());
      test::InProcessJob expected(spec, images(), {{.range = {0, max_p}}}, kBucketBytes);
      Job job(spec, plans, random());
      for (int i = 0; i < 4; ++i) {
        expected.step();
        job.step();
        for (std::size_t w = 0; w < plans.size(); ++w)
          CHECK(job.engine(w).params_digest() == expected.engine(0).params_digest());
      }
      for (std::size_t w = 0; w < plans.size(); ++w) {
        REQUIRE(job.engine(w).fetch_replica().ok());
        CHECK(job.engine(w).state_digest() == expected.engine(0).state_digest());
      }
      summed_on_device += job.summed_on_device();
    }
    CHECK(summed_on_device > 0);
  }

  TEST_CASE("at level D0 workers are chained on a device as on the host") {
    std::mt19937_64 random(test::seed("device exchange D0"));
    for (int trial = 0; trial < 4; ++trial) {
      const auto max_p = std::uniform_int_distribution<std::uint32_t>(2, 7)(random);
      const JobSpec spec = job_spec(max_p, DeterminismLevel::kD0);
      const auto plans = random_workers(random, max_p);
      test::InProcessJob expected(spec, images(), plans, kBucketBytes);
      Job job(spec, plans, random());
      for (int i = 0; i < 4; ++i) {
        expected.step();
        job.step();
      }
      CHECK(job.engine(0).params_digest() == expected.engine(0).params_digest());
    }
  }
}
