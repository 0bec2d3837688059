#include "gpu/base/parallel.h"

#include "gpu/base/float_flags.h"
#include "proto/base/check.h"

namespace es::gpu {
namespace {

// The fields of `ticket_`; the comment at the member explains them.
constexpr std::uint64_t kRunUnit = std::uint64_t{1} << 32;
constexpr std::uint64_t kPartsUnit = std::uint64_t{1} << 16;
constexpr int kPartsMax = 65535;
// Number of polls before a thread sleeps, 20 to 100 microseconds by processor. An operator that is
// not divided takes some microseconds, and waking a thread takes longer than most operators of a
// small model: a helper that slept after every operator would come too late for the next one.
constexpr int kPolls = 2000;

// Calls value() until it differs from `old`, for at most kPolls times. The pause leaves the memory
// bus, and the other hyper-thread of the core, to the thread that will change the value.
template <class Value, class T>
bool changes_soon(Value&& value, const T& old) {
  for (int polls = 0; polls < kPolls; ++polls) {
    if (value() != old) return true;
    __builtin_ia32_pause();
  }
  return false;
}

int taken(std::uint64_t ticket) {
  return static_cast<int>(ticket % kPartsUnit);
}
int parts_in(std::uint64_t ticket) {
  return static_cast<int>(ticket % kRunUnit / kPartsUnit);
}

}  // namespace

Parallel::Parallel(std::uint32_t threads) : claimed_(threads) {
  for (int i = 1; i < static_cast<int>(threads); ++i)
    helpers_.emplace_back([this, i](std::stop_token stop) { help(stop, i); });
}

Parallel::~Parallel() {
  for (std::jthread& helper : helpers_) helper.request_stop();
  // A ticket with a new run number and no parts wakes the helpers, which then see the stop request.
  ticket_ = (ticket_ / kRunUnit + 1) * kRunUnit;
  ticket_.notify_all();
}

void Parallel::run_parts(int parts, Call call, void* context) {
  ES_CHECK(parts <= kPartsMax);
  if (helpers_.empty() || parts <= 1) {
    for (int part = 0; part < parts; ++part) call(context, part);
    return;
  }
  // These relaxed stores become visible to a helper through the release store of the ticket below.
  // No helper reads them earlier, because it cannot take a part of this run before that.
  call_.store(call, std::memory_order_relaxed);
  context_.store(context, std::memory_order_relaxed);
  done_.store(0, std::memory_order_relaxed);
  std::uint64_t ticket =
      (ticket_ / kRunUnit + 1) * kRunUnit + static_cast<std::uint64_t>(parts) * kPartsUnit;
  ticket_.store(ticket, std::memory_order_release);
  ticket_.notify_all();
  while (take_part(ticket)) {
    call(context, claim(ticket, 0));
    done_.fetch_add(1, std::memory_order_acq_rel);
    ticket = ticket_.load(std::memory_order_acquire);
  }
  for (int done = done_.load(); done < parts; done = done_.load())
    if (!changes_soon([this] { return done_.load(); }, done)) done_.wait(done);
  raise_flags(flags_.exchange(0));
}

// Takes one part of the run that `ticket` names; claim() then decides which part it is. Returns
// false if no part is left. On failure of the exchange `ticket` holds the newest value.
bool Parallel::take_part(std::uint64_t& ticket) {
  while (taken(ticket) < parts_in(ticket))
    if (ticket_.compare_exchange_weak(ticket, ticket + 1, std::memory_order_acq_rel,
                                      std::memory_order_acquire))
      return true;
  return false;
}

// Returns the part that a thread executes after it has taken one: its own part, or the next one
// that no thread has claimed. There are exactly as many claims as parts, so the loop always finds
// one. With more parts than threads, the parts are given out in order of arrival, which
// balances uneven work.
int Parallel::claim(std::uint64_t ticket, int thread) {
  const int parts = parts_in(ticket);
  if (parts > static_cast<int>(claimed_.size())) return taken(ticket);
  const std::uint64_t run = ticket / kRunUnit;
  int part = thread % parts;
  // If exchange() returns this run, another thread has claimed the part.
  while (claimed_[static_cast<std::size_t>(part)].exchange(run) == run) part = (part + 1) % parts;
  return part;
}

void Parallel::help(std::stop_token stop, int thread) {
  std::uint64_t ticket = ticket_.load(std::memory_order_acquire);
  while (!stop.stop_requested()) {
    if (take_part(ticket)) {
      // The run cannot end before this part is done, so call_ and context_ belong to this run.
      const Call call = call_.load(std::memory_order_relaxed);
      void* const context = context_.load(std::memory_order_relaxed);
      clear_non_finite_flags();
      call(context, claim(ticket, thread));
      flags_.fetch_or(non_finite_flags(), std::memory_order_relaxed);
      done_.fetch_add(1, std::memory_order_acq_rel);
      done_.notify_one();
      ticket = ticket_.load(std::memory_order_acquire);
      continue;
    }
    const auto newest = [this] { return ticket_.load(std::memory_order_acquire); };
    if (!changes_soon(newest, ticket)) ticket_.wait(ticket, std::memory_order_acquire);
    ticket = newest();
  }
}

}  // namespace es::gpu
