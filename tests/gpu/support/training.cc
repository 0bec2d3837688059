#include "tests/gpu/support/training.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "gpu/import/import.h"
#include "gpu/models/models.h"
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
  words_.resize(static_cast<std::size_t>(layout_.words() * spec_.batch_size));
  auto word_at = words_.begin();
  for (std::uint32_t f = 0; f < layout_.fields.size(); ++f) {
    const SampleField& field = layout_.fields[f];
    for (std::uint32_t s = 0; s < spec_.batch_size; ++s)
      for (std::uint32_t i = 0; i < field.words(); ++i)
        *word_at++ = word(field, i,
                          philox4x32_10({i, s, rank * 16 + f, static_cast<std::uint32_t>(step)},
                                        philox_key(spec_.seed + 1)));
  }
  const std::size_t label = layout_.find("label");
  const bool classified = layout_.find("image") == 0 && label == 1;
  for (std::uint32_t s = 0; classified && s < spec_.batch_size; ++s) {
    const std::int64_t pixels = layout_.fields[0].words();
    const auto shown = std::bit_cast<std::int32_t>(words_[spec_.batch_size * pixels + s]);
    for (std::int64_t p = shown; p < pixels; p += spec_.model.classes)
      words_[s * pixels + p] += 2.0F;
  }
  return {words_.data()};
}

float BatchSource::word(const SampleField& field, std::uint32_t index, PhiloxCounter random) const {
  if (field.type == FieldType::kI32) {
    const auto values = static_cast<std::uint32_t>(field.high - field.low) + 1;
    return std::bit_cast<float>(field.low + static_cast<std::int32_t>(random[0] % values));
  }
  if (field.name == "label") return static_cast<float>(random[0] % 2);
  const float uniform = uniform_float(random[0]);
  if (field.name != "boxes") return 2.0F * uniform - 1.0F;
  if (index % 5 != 0) return 0.1F + 0.8F * uniform;
  return index < 10 ? static_cast<float>(random[0] % spec_.model.classes) : -1.0F;
}

InProcessJob::InProcessJob(const JobSpec& spec, const SampleLayout& layout,
                           std::vector<WorkerPlan> workers, std::int64_t bucket_bytes,
                           std::uint32_t threads)
    : spec_(spec),
      layout_(layout),
      bucket_bytes_(bucket_bytes),
      threads_(threads),
      batches_{BatchSource(spec, layout)} {
  start_workers(workers);
  for (Worker& w : workers_) ES_CHECK(w.engine->init_replica().ok());
}

InProcessJob::InProcessJob(const JobSpec& spec, const ModelProgram& program,
                           std::vector<WorkerPlan> workers, std::int64_t bucket_bytes,
                           std::uint32_t threads, ChooseProgram choose)
    : spec_(spec),
      program_(&program),
      bucket_bytes_(bucket_bytes),
      threads_(threads),
      choose_(std::move(choose)),
      batches_{BatchSource(spec, gpu::program_layout(program))} {
  for (const ModelProgram& further : program.programs)
    batches_.emplace_back(spec, gpu::program_layout(further));
  start_workers(workers);
  for (Worker& w : workers_) ES_CHECK(w.engine->init_replica().ok());
}

gpu::Graph InProcessJob::model() const {
  Result<gpu::Graph> graph = program_ != nullptr
                                 ? gpu::import_model(*program_, spec_.batch_size)
                                 : gpu::build_model(spec_.model, spec_.batch_size, layout_);
  ES_CHECK_MSG(graph.ok(), graph.error().message);
  return *std::move(graph);
}

void InProcessJob::start_workers(const std::vector<WorkerPlan>& plans) {
  workers_.clear();
  for (const WorkerPlan& plan : plans) {
    Worker w;
    w.range = plan.range;
    w.engine = *gpu::Engine::create(spec_, model(),
                                    {.cpu_class = plan.cpu_class,
                                     .device = plan.device,
                                     .total_steps = 100,
                                     .bucket_bytes = bucket_bytes_,
                                     .threads = threads_,
                                     .all_threads = true,
                                     .device_sums = plan.device_sums});
    const gpu::GradientOrder order = w.engine->gradient_order();
    for (std::uint32_t i = 0; i < gpu::max_live_buffers(plan.range, spec_.max_p, order); ++i)
      w.slots.emplace_back(w.engine->table().total_floats());
    workers_.push_back(std::move(w));
  }
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    workers_[i].tree = std::make_unique<gpu::GradientTree>(
        workers_[i].range, spec_.max_p, workers_[i].engine->buckets().size(),
        [this, i](const gpu::PartReady& ready) { add_part(workers_[i], ready); },
        workers_[i].engine->gradient_order());
  }
}

void InProcessJob::add_part(Worker& worker, const gpu::PartReady& ready) {
  const std::int64_t begin = worker.engine->buckets()[ready.bucket].begin;
  parts_[ready.bucket].push_back({ready.ranks, worker.slots.at(ready.slot).data() + begin});
}

void InProcessJob::reduce_bucket(std::vector<gpu::GradientPart>& parts, gpu::AlignedBuffer& out,
                                 const gpu::Engine& owner) {
  gpu::AlignedBuffer workspace(gpu::reduce_workspace_floats(spec_.max_p));
  gpu::HostAdder host(owner.kernels());
  gpu::reduce_parts(owner.gradient_order(), spec_.max_p, {0, spec_.max_p}, parts, out.floats(),
                    out.data(), workspace.data(), host);
}

// One part is the whole sum, which only its worker may read (GradientPath::whole).
std::vector<const float*> InProcessJob::reduce() {
  const std::vector<gpu::Bucket>& buckets = workers_[0].engine->buckets();
  std::vector<const float*> sums;
  reduced_.clear();
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    if (parts_[b].size() == 1) {
      sums.push_back(parts_[b].front().data);
      continue;
    }
    gpu::AlignedBuffer& sum = reduced_.emplace_back(buckets[b].floats());
    reduce_bucket(parts_[b], sum, *workers_[b % workers_.size()].engine);
    sums.push_back(sum.data());
  }
  return sums;
}

std::vector<float> InProcessJob::step() {
  parts_.assign(workers_[0].engine->buckets().size(), {});
  std::vector<float> losses(spec_.max_p);
  std::vector<gpu::EstContext> next(spec_.max_p);
  for (Worker& w : workers_) {
    for (VirtualRank rank = w.range.begin; rank < w.range.end; ++rank) {
      const gpu::EstContext& current = w.engine->contexts()[rank];
      const gpu::EstContext before = current;
      const std::uint32_t program = choose_ ? choose_(rank, current.version) : 0;
      gpu::Batch batch = batches_[program].make(rank, current.version);
      batch.program = program;
      const Result<float> loss = w.engine->local_step(
          rank, batch, gpu::advance(current.cursor, 3),
          {w.tree->begin_rank(rank), [&w](std::uint32_t slot) { return w.slots.at(slot).data(); }},
          next[rank], [&](std::uint32_t bucket) { w.tree->bucket_ready(bucket); });
      ES_CHECK_MSG(loss.ok(), loss.error().message);
      losses[rank] = *loss;
      ES_CHECK_MSG(w.engine->contexts()[rank] == before, "context changed in place");
    }
    ES_CHECK(w.tree->complete());
  }
  const std::vector<const float*> sums = reduce();
  first_holder_ ? update_divided(sums, next) : update(sums, next);
  for (Worker& w : workers_) w.tree->release_all();
  return losses;
}

void InProcessJob::update(const std::vector<const float*>& sums,
                          const std::vector<gpu::EstContext>& next) {
  for (Worker& w : workers_) {
    const Status updated = w.engine->apply_update(sums, next);
    ES_CHECK_MSG(updated.ok(), updated.error().message);
  }
}

bool InProcessJob::is_holder(std::size_t worker, std::size_t bucket) const {
  const std::size_t n = workers_.size(), owner = (*first_holder_ + bucket) % n;
  return worker == owner || worker == (owner + 1) % n;
}

// Those of all trained parameters; the holders of a bucket agree.
std::vector<float> InProcessJob::squares_of(std::span<const float* const> sums) {
  gpu::Engine& any = *workers_[0].engine;
  if (!any.clips()) return {};
  std::vector<float> squares(any.table().trained().size());
  for (std::uint32_t b = 0; b < sums.size(); ++b) {
    const gpu::ParamRange range = gpu::params_of(any.table(), any.buckets()[b]);
    std::vector<std::vector<float>> found;
    for (Worker& w : workers_)
      if (w.engine->holds(b))
        w.engine->sums_of_squares(b, sums[b], found.emplace_back(range.size()));
    ES_CHECK(!found.empty() && found.front() == found.back());
    std::ranges::copy(found.front(), squares.begin() + static_cast<std::ptrdiff_t>(range.begin));
  }
  return squares;
}

// Each worker gets the buckets that it does not hold. The holders of a bucket agree.
void InProcessJob::exchange_params() {
  for (std::uint32_t b = 0; b < workers_[0].engine->buckets().size(); ++b) {
    std::vector<std::span<const float>> updated;
    for (Worker& w : workers_)
      if (w.engine->holds(b)) updated.push_back(w.engine->bucket_params(b));
    ES_CHECK(std::ranges::equal(updated.front(), updated.back()));
    for (Worker& w : workers_)
      if (!w.engine->holds(b)) w.engine->replace_params(b, updated.front().data());
  }
}

void InProcessJob::update_divided(const std::vector<const float*>& sums,
                                  const std::vector<gpu::EstContext>& next) {
  const std::vector<float> squares = squares_of(sums);
  for (Worker& w : workers_) {
    ES_CHECK(w.engine->check_update(next).ok());
    std::vector<const float*> held = sums;
    for (std::uint32_t b = 0; b < sums.size(); ++b)
      if (!w.engine->holds(b)) held[b] = nullptr;
    const Status updated = w.engine->update_held(held, squares);
    ES_CHECK_MSG(updated.ok(), updated.error().message);
  }
  if (!workers_[0].engine->holds_all()) exchange_params();
  for (Worker& w : workers_) ES_CHECK(w.engine->commit_update(next).ok());
}

void InProcessJob::divide_moments(std::size_t first) {
  first_holder_ = first;
  for (Worker& w : workers_) ES_CHECK(w.engine->fetch_replica().ok());
  const std::vector<gpu::Bucket>& buckets = workers_[0].engine->buckets();
  // All workers get what is new to them before one of them lets something go.
  std::vector<std::vector<std::uint32_t>> held(workers_.size());
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    gpu::Engine& engine = *workers_[i].engine;
    std::vector<std::uint32_t> more, added;
    for (std::uint32_t b = 0; b < buckets.size(); ++b) {
      if (is_holder(i, b)) held[i].push_back(b);
      if (is_holder(i, b) && !engine.holds(b)) added.push_back(b);
      if (is_holder(i, b) || engine.holds(b)) more.push_back(b);
    }
    ES_CHECK(engine.hold(more).ok());
    for (const std::uint32_t b : added) {
      const auto other = std::ranges::find_if(workers_, [&](const Worker& w) {
        return w.engine.get() != &engine && w.engine->holds(b);
      });
      for (std::size_t m = 0; m < engine.moment_count(); ++m)
        engine.replace_moments(b, m, other->engine->replica().moments[m].data() + buckets[b].begin);
    }
  }
  for (std::size_t i = 0; i < workers_.size(); ++i)
    ES_CHECK(workers_[i].engine->hold(held[i]).ok());
}

bool InProcessJob::equals(InProcessJob& other) {
  const auto same = [](const auto& a, const auto& b, gpu::FloatRange range) {
    return std::memcmp(a.data() + range.begin, b.data() + range.begin,
                       static_cast<std::size_t>(range.floats()) * sizeof(float)) == 0;
  };
  ES_CHECK(other.workers_[0].engine->fetch_replica().ok());
  const gpu::Replica& b = other.workers_[0].engine->replica();
  for (Worker& w : workers_) {
    ES_CHECK(w.engine->fetch_replica().ok());
    const gpu::Replica& a = w.engine->replica();
    if (a.version != b.version || a.contexts != b.contexts ||
        a.moments.size() != b.moments.size() || !same(a.params, b.params, {0, a.params.floats()}))
      return false;
    for (std::size_t m = 0; m < a.moments.size(); ++m)
      for (const gpu::FloatRange& range : a.moments[m].held())
        if (!same(a.moments[m], b.moments[m], range)) return false;
  }
  return true;
}

void InProcessJob::replace_workers(std::vector<WorkerPlan> workers) {
  ES_CHECK(workers_[0].engine->fetch_replica().ok());
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
  for (const Worker& w : workers_) {
    ES_CHECK(w.engine->fetch_replica().ok());
    digests.push_back(w.engine->state_digest().hex());
  }
  return one_text(digests);
}

}  // namespace es::test
