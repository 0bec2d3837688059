// JobCore: events of the cluster scheduler, of nodes and of the job's planner; text for users.
#include <algorithm>
#include <iterator>

#include "actors/head/intra_job/core/job_core.h"
#include "proto/base/number_text.h"

namespace es::actors::intra_job {

void JobCore::on_allocation(const Allocation& event) {
  if (!context_.fleet.allocate(event)) return;
  demand_.give_up_other_types(event);
  suspension_.take(event);
  if (context_.phase == Phase::kIdle && !context_.is_paused())
    context_.show_state(event.devices.empty() ? JobState::kQueued : JobState::kStarting);
  // A list without a device only takes devices back.
  if (!event.devices.empty()) demand_.met();
}

void JobCore::on_demand_refused(const DemandRefused& event) {
  if (context_.is_ending() || context_.is_paused()) return;
  // A refused scale request brings back the demand before it. A resumed job is paused again,
  // because its user can decide. Any other job waits if it once had its devices, and fails
  // otherwise.
  if (!demand_.has_open_scale() && suspension_.is_resuming())
    return suspension_.refuse_resume(event.reason);
  if (std::string why = demand_.refused_because(event.reason); !why.empty())
    lifecycle_.fail(std::move(why));
}

void JobCore::on_worker_exited(const WorkerExited& event) {
  const std::optional<Worker> worker = fleet_.reaped(event.incarnation);
  if (!worker) return;
  checkpoints_.no_answer_from(event.incarnation);
  if (worker->phase == Worker::Phase::kLeaving || context_.is_ending()) return;
  // A process that ended with its node says nothing about its device, so it is no failed start.
  if (event.with_node && worker->phase == Worker::Phase::kStarting) return;
  // Several workers of one lost node count as one loss, which the last of them represents.
  const bool counts = !event.with_node || !fleet_.has_others_on_node_of(*worker);
  lose(*worker, {.why = "exited: " + event.description,
                 .cause = event.cause,
                 .way = event.way,
                 .counts = counts});
}

void JobCore::on_worker_lost(const WorkerLost& event) {
  Worker* worker = context_.fleet.find(event.incarnation);
  // A killed worker is expected to fall silent.
  if (worker == nullptr || worker->killed) return;
  evict(*worker, {.why = "is lost: " + event.reason});
}

// The device stays in use until the exit is reported.
void JobCore::evict(Worker& worker, const Loss& loss) {
  // kill() changes the phase, on which the consequences of the loss depend.
  const Worker before = worker;
  fleet_.kill(worker);
  if (!context_.is_ending() && before.phase != Worker::Phase::kLeaving) lose(before, loss);
}

// The job continues without this worker. REQUIRES: `worker` is a copy.
void JobCore::lose(const Worker& worker, const Loss& loss) {
  const LossVerdict verdict = fleet_.lost(worker, loss);
  if (!verdict.job.ok()) return fail(verdict.job.error().message);
  // The next loss may end the job, and may take the last worker that holds its state.
  if (verdict.may_fail && holds_unsaved_version()) suspension_.save();
  if (verdict.new_round) rounds_.begin(loss.pause);
}

// Ends the job as failed, after it is saved if a worker holds what is not on a disk yet.
void JobCore::fail(std::string why) {
  if (context_.is_ending()) return;
  if (!holds_unsaved_version()) return lifecycle_.fail(std::move(why));
  context_.warn("the job is saved before it fails: " + why);
  suspension_.fail(std::move(why));
  rounds_.begin(PauseCause::kWorkerLost);
}

bool JobCore::holds_unsaved_version(Incarnation besides) const {
  const std::vector<Incarnation> members = context_.fleet.placed();
  return std::ranges::any_of(members, [&](Incarnation member) { return member != besides; }) &&
         progress_.version() > restart_.version() && !context_.is_paused();
}

void JobCore::on_budget_command(const BudgetCommand& event) {
  JobRecord& record = context_.record;
  if (context_.is_ending()) return context_.answer(event.request, refused("the job has ended"));
  if (event.budget > 0 && event.budget <= record.spent)
    return context_.answer(
        event.request,
        refused("budget = " + number_text(event.budget) + ": the job has spent " +
                amount_text(record.spent) + "; allowed is more than that, or 0 for no budget"));
  record.budget = event.budget;
  if (std::exchange(record.over_budget, false))
    return suspension_.resume({.request = event.request}, waiting_for());
  context_.save();
  context_.answer(event.request, {});
}

void JobCore::on_rebalance_command() {
  if (!context_.is_paused() && !suspension_.is_active()) rounds_.rebalance();
}

// The members on these devices leave as if the devices had been called back. Ignored for devices
// that the user chose.
void JobCore::on_give_back_command(const GiveBackCommand& event) {
  if (context_.phase != Phase::kNormal || suspension_.is_active() || demand_.staff()) return;
  for (const DeviceId& device : event.devices)
    if (context_.fleet.allocated(device)) context_.fleet.give_up(device);
}

void JobCore::on_nodes_present(const NodesPresent& event) {
  const NodeNames before = restart_.node_names();
  if (before == event.nodes) return;
  std::set<std::string> lost;
  std::ranges::set_difference(*before, *event.nodes, std::inserter(lost, lost.end()));
  restart_.set_nodes(event.nodes);
  // While they were away, the others may have missed that checkpoints on their disks were replaced.
  if (!context_.is_ending()) checkpoints_.keep_suspensions(*before);
  rounds_.load_again_without(lost);
  rounds_.continue_if_known();  // a node that left owes no answer any more
}

void JobCore::on_node_said_hello(const NodeSaidHello& event) {
  restart_.forget(event.node);
  rounds_.load_again_without({event.node});
}

void JobCore::on_states_found(const StatesFound& event) {
  restart_.take(event);
  rounds_.continue_if_known();
}

// --- text for users

std::string JobCore::waiting_for() const {
  if (context_.is_ending()) return {};
  if (context_.record.over_budget) return "a higher budget: " + budget_text(context_.record);
  if (context_.is_paused()) return suspension_.resume_refusal();
  if (context_.phase == Phase::kIdle || rounds_.all_reported())
    if (std::string state = restart_.text(restart_.choose()); !state.empty()) return state;
  const Wanted wanted = demand_.at(restart_.next_version());
  const DeviceSet have = context_.fleet.allocated_set();
  if (wanted && !have.contains(*wanted))
    return "devices " + demand_.needed_at(restart_.next_version())->text() + ", has " +
           (have.empty() ? "none" : have.text());
  if (context_.phase != Phase::kIdle) return {};
  if (!have.empty()) return "its worker processes to start";
  const std::optional<DeviceType>& bound = context_.record.bound_type;
  const std::uint32_t least = std::max(context_.config.spec.resources.min_devices, 1U);
  // Whether such devices are free is not known here, and the policy may keep free ones for others.
  return "at least " + std::to_string(least) + (least == 1 ? " device" : " devices") +
         (bound ? " of type " + bound->name : "");
}

std::uint32_t JobCore::devices_wanted() const {
  if (context_.is_ending() || context_.is_paused()) return 0;
  if (const Wanted wanted = demand_.needed_at(restart_.next_version())) return wanted->total();
  const JobSpec& spec = context_.config.spec;
  const std::uint32_t limit = spec.resources.max_devices;
  return limit == 0 ? spec.max_p : std::min(limit, spec.max_p);
}

std::string JobCore::warning() const {
  const std::string& unwritten = checkpoints_.warning();
  const std::string& damage = restart_.warning();
  if (unwritten.empty() || damage.empty()) return unwritten + damage;
  return damage + "; " + unwritten;
}

}  // namespace es::actors::intra_job
