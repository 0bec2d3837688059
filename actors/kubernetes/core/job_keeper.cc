#include "actors/kubernetes/core/job_keeper.h"

#include "actors/kubernetes/core/job_changes.h"
#include "actors/kubernetes/core/job_event.h"

namespace es::actors::kubernetes {
namespace {

const HeadJob* job_at(const HeadFacts* head, const std::string& id) {
  if (head == nullptr) return nullptr;
  const auto found = head->jobs.find(id);
  return found == head->jobs.end() ? nullptr : &found->second;
}

std::int64_t generation_of(const Json& job) {
  return value_at(job, {"metadata", "generation"}, std::int64_t{0});
}

}  // namespace

// What was done already, and a watch has not shown yet.
Json JobKeeper::with_report(const Json& object) const {
  Json job = object;
  if (!report_.job.empty()) job["status"]["job"] = report_.job;
  if (!report_.demand.empty()) job["status"]["demand"] = report_.demand;
  if (!report_.submitted.is_null()) job["status"]["submitted"] = report_.submitted;
  if (!written_.is_null()) job["status"]["conditions"] = written_["conditions"];
  return job;
}

bool JobKeeper::lacks(const Json& job) const {
  return report_.scaled == JobReport::Scaled::kUnknown ? lacks_demand(job)
                                                       : report_.scaled != JobReport::Scaled::kDone;
}

JobWork JobKeeper::decide(const Json& object, const Surroundings& around) {
  const Json job = with_report(object);
  if (report_.job.empty()) report_.job = text_at(job, {"status", "job"});
  if (!report_.job.empty() && value_at(job, {"status", "submitted"}, Json()).is_null())
    report_.submitted = frozen_spec(job);
  const HeadJob* known = job_at(around.head, report_.job);
  const bool is_deleted = is_being_deleted(job);
  JobWork work;
  if (around.head != nullptr && around.head->number <= settled_at_) return work;
  // Without its cluster a job has nothing that could be drained.
  if (around.head != nullptr || (!around.has_cluster && is_deleted))
    follow(next_step(job, known, around.first_type, lacks(job)), job, around, work);
  if (is_deleted) return work;  // Its status may be gone with it.
  Json status = job_status(job, known, around.head != nullptr, report_, around.clock);
  if (status != written_) work.status = std::move(status);
  return work;
}

void JobKeeper::follow(const JobOrder& order, const Json& job, const Surroundings& around,
                       JobWork& work) {
  switch (order.step) {
    case JobStep::kNone:
      report_.order_refusal.clear();
      refused_.reset();
      return;
    case JobStep::kAddFinalizer:
      work.finalizers = finalizer_patch(job, true);
      return;
    case JobStep::kRemoveFinalizer:
      // A controller that ended before it wrote the status has left a job that no object names.
      if (report_.job.empty() && around.head != nullptr && !searched_)
        return ask({JobStep::kFind}, around, work);
      work.finalizers = finalizer_patch(job, false);
      return;
    case JobStep::kSubmit:
      if (refused_generation_ == generation_of(job)) return;
      // A changed object is another request.
      if (asked_generation_ != generation_of(job)) refused_.reset();
      if (asked_ != order) {
        asked_spec_ = frozen_spec(job);
        asked_generation_ = generation_of(job);
      }
      return ask(order, around, work);
    case JobStep::kScale:
      if (report_.demand != order.demand || report_.scaled == JobReport::Scaled::kUnknown)
        report_.scaled = JobReport::Scaled::kAsked;
      report_.demand = order.demand;
      // First the status says so.
      if (text_at(written_, {"demand"}) != order.demand) return;
      return ask(order, around, work);
    default:
      return ask(order, around, work);
  }
}

void JobKeeper::ask(const JobOrder& order, const Surroundings& around, JobWork& work) {
  if (asked_ == order || (refused_ == order && around.now < again_at_)) return;
  asked_ = order;
  asked_number_ = around.number;
  work.ask = order;
}

void JobKeeper::answered(const HeadAnswer& answer, std::chrono::steady_clock::time_point now) {
  // A later request has taken the place of this one.
  if (!asked_ || answer.number != asked_number_) return;
  const JobOrder order = *std::exchange(asked_, std::nullopt);
  settled_at_ = answer.look;
  if (!answer.status.ok() && answer.status.error().kind == ErrorKind::kFailure) return;
  take(order, answer);
  if (answer.status.ok()) return refused_.reset();
  refused_ = order;
  again_at_ = now + kAskAgain;
}

void JobKeeper::take(const JobOrder& order, const HeadAnswer& answer) {
  const bool ok = answer.status.ok();
  const std::string refusal = ok ? std::string() : answer.status.error().message;
  switch (order.step) {
    case JobStep::kFind:
      report_.job = answer.job;
      searched_ = ok && answer.job.empty();
      return;
    case JobStep::kSubmit:
      report_.job = answer.job;
      if (ok) report_.submitted = std::move(asked_spec_);
      report_.refusal = refusal;
      // What is wrong stays so; what is refused now, such as a full disk, may pass.
      report_.may_come = !ok && answer.status.error().kind == ErrorKind::kRefused;
      if (!ok && !report_.may_come) refused_generation_ = asked_generation_;
      return;
    case JobStep::kScale:
      report_.scaled = ok ? JobReport::Scaled::kDone : JobReport::Scaled::kRefused;
      report_.scale_refusal = refusal;
      return;
    default:
      report_.order_refusal = refusal;
  }
}

std::optional<Json> JobKeeper::written(const Json& object, const Json& status,
                                       const std::string& clock) {
  written_ = status;
  const JobNews news = news_of(status);
  if (news.key == told_) return {};
  told_ = news.key;
  return job_event(object, news, clock);
}

}  // namespace es::actors::kubernetes
