#include "tests/gpu/support/training.h"

#include <algorithm>

#include "proto/base/philox.h"
#include "proto/base/check.h"

namespace es::test {
namespace {

template <class Digests>
std::string one_text(const Digests& digests) {
  for (const std::string& d : digests)
    if (d != digests.front()) return "workers differ: " + digests.front() + " and " + d;
  return digests.front();
}

}  // namespace

gpu::Batch BatchSource::make(VirtualRank rank, std::uint64_t step) {
  const std::size_t pixels = std::size_t{data_.height} * data_.width * data_.channels;
  images_.resize(spec_.batch_size * pixels);
  labels_.resize(spec_.batch_size);
  for (std::uint32_t s = 0; s < spec_.batch_size; ++s) {
    labels_[s] = static_cast<std::int32_t>((7 * step + 3 * rank + s) % spec_.model.classes);
    for (std::uint32_t p = 0; p < pixels; ++p) {
      const auto words = philox4x32_10({p, s, rank, static_cast<std::uint32_t>(step)},
                                         philox_key(spec_.seed + 1));
      const float noise = 2.0F * uniform_float(words[0]) - 1.0F;
      const bool marked = p % spec_.model.classes == static_cast<std::uint32_t>(labels_[s]);
      images_[s * pixels + p] = marked ? noise + 2.0F : noise;
    }
  }
  return {images_.data(), labels_.data()};
}

InProcessJob::InProcessJob(const JobSpec& spec, gpu::DataShape data,
                           std::vector<WorkerPlan> workers, std::int64_t bucket_bytes)
    : spec_(spec), data_(data), bucket_bytes_(bucket_bytes), batches_(spec, data) {
  start_workers(workers);
  for (Worker& w : workers_) w.engine->init_replica();
}

void InProcessJob::start_workers(const std::vector<WorkerPlan>& plans) {
  workers_.clear();
  for (const WorkerPlan& plan : plans) {
    Worker w;
    w.range = plan.range;
    w.engine = *gpu::Engine::create(
        spec_, data_,
        {.cpu_class = plan.cpu_class, .total_steps = 100, .bucket_bytes = bucket_bytes_});
    for (std::uint32_t i = 0; i < gpu::max_live_buffers(plan.range, spec_.max_p); ++i)
      w.slots.emplace_back(w.engine->table().total_floats());
    workers_.push_back(std::move(w));
  }
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    workers_[i].tree = std::make_unique<gpu::GradientTree>(
        workers_[i].range, spec_.max_p, workers_[i].engine->buckets(),
        workers_[i].engine->kernels(),
        [this, i](std::uint32_t slot) { return workers_[i].slots.at(slot).data(); },
        [this](const gpu::NodeReady& ready) {
          parts_[ready.bucket].push_back({ready.node, ready.data});
        });
  }
}

std::vector<gpu::AlignedBuffer> InProcessJob::reduce() {
  const std::vector<gpu::Bucket>& buckets = workers_[0].engine->buckets();
  gpu::AlignedBuffer workspace(gpu::reduce_tree_workspace_floats(spec_.max_p));
  std::vector<gpu::AlignedBuffer> reduced;
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    reduced.emplace_back(buckets[b].floats());
    const gpu::KernelTable& owner = workers_[b % workers_.size()].engine->kernels();
    gpu::reduce_tree(spec_.max_p, parts_[b], buckets[b].floats(), reduced[b].data(),
                     workspace.data(), owner);
  }
  return reduced;
}

std::vector<float> InProcessJob::step() {
  parts_.assign(workers_[0].engine->buckets().size(), {});
  std::vector<float> losses(spec_.max_p);
  std::vector<gpu::EstContext> next(spec_.max_p);
  for (Worker& w : workers_) {
    for (VirtualRank rank = w.range.begin; rank < w.range.end; ++rank) {
      const gpu::EstContext& current = w.engine->replica().contexts[rank];
      const gpu::EstContext before = current;
      const Result<float> loss = w.engine->local_step(
          rank, batches_.make(rank, current.version), gpu::advance(current.cursor, 3),
          w.tree->begin_rank(rank), next[rank],
          [&](std::uint32_t bucket) { w.tree->bucket_ready(bucket); });
      losses[rank] = *loss;
      ES_CHECK_MSG(w.engine->replica().contexts[rank] == before, "context changed in place");
    }
    ES_CHECK(w.tree->complete());
  }
  const std::vector<gpu::AlignedBuffer> reduced = reduce();
  std::vector<const float*> sums;
  for (const gpu::AlignedBuffer& r : reduced) sums.push_back(r.data());
  for (Worker& w : workers_) {
    const Status updated = w.engine->apply_update(sums, next);
    ES_CHECK_MSG(updated.ok(), updated.error().message);
    w.tree->release_all();
  }
  return losses;
}

void InProcessJob::replace_workers(std::vector<WorkerPlan> workers) {
  const gpu::Replica state = workers_[0].engine->replica();
  start_workers(workers);
  for (Worker& w : workers_) {
    const Status installed = w.engine->install(state);
    ES_CHECK_MSG(installed.ok(), installed.error().message);
  }
}

std::string InProcessJob::params_digest() const {
  std::vector<std::string> digests;
  for (const Worker& w : workers_) digests.push_back(w.engine->params_digest().hex());
  return one_text(digests);
}

std::string InProcessJob::state_digest() const {
  std::vector<std::string> digests;
  for (const Worker& w : workers_) digests.push_back(w.engine->state_digest().hex());
  return one_text(digests);
}

}  // namespace es::test
