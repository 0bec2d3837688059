#include "actors/head/cluster_scheduler/shell/decisions.h"

#include <algorithm>
#include <cmath>

#include "actors/base/protocol/core/instant.h"

namespace es::actors {
namespace {

// Shortest time between two decisions that the policy itself asked for.
constexpr double kDecisionsApartSeconds = 0.1;

}  // namespace

Decisions::Decisions(Options options, Ports ports)
    : core_(std::move(options.policy), std::move(options.limits)),
      delay_(options.delay),
      now_s_(std::move(options.now_s)),
      stopwatch_s_(std::move(options.stopwatch_s)),
      ports_(std::move(ports)) {}

void Decisions::take(const cluster::Event& event) {
  record(event);
  plan(now_s_() + in_seconds(delay_));
}

void Decisions::take_now(const cluster::Event& event) {
  record(event);
  decide_now();
}

void Decisions::record(const cluster::Event& event) {
  perform(core_.take(event, now_s_()));
}

void Decisions::plan(double due_s) {
  // The timers of later decisions still fire, and on_time() ignores them.
  if (due_s >= due_s_) return;
  due_s_ = due_s;
  ports_.wake(std::chrono::nanoseconds(std::llround((due_s - now_s_()) * 1e9)), due_s);
}

void Decisions::on_time(double due_s) {
  if (due_s != due_s_) return;
  due_s_ = scheduler::kNever.count();
  const double begin_s = stopwatch_s_ ? stopwatch_s_() : 0;
  const std::vector<cluster::Effect> effects = core_.decide(now_s_());
  if (stopwatch_s_) times_.add(stopwatch_s_() - begin_s);
  perform(effects);
  ports_.decided({core_.take_usage(), core_.take_ended_claims()});
  if (core_.decide_again_s() < scheduler::kNever.count())
    plan(std::max(core_.decide_again_s(), now_s_() + kDecisionsApartSeconds));
}

void Decisions::perform(const std::vector<cluster::Effect>& effects) const {
  for (const cluster::Effect& effect : effects) ports_.perform(effect);
}

}  // namespace es::actors
