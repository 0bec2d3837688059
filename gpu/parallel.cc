#include "gpu/parallel.h"

#include "gpu/float_flags.h"
#include "proto/base/check.h"

namespace es::gpu {
namespace {

constexpr std::uint64_t kRunUnit = std::uint64_t{1} << 32;
constexpr std::uint64_t kPartsUnit = std::uint64_t{1} << 16;
constexpr int kPartsMax = 65535;
// Looks before a thread sleeps: operators follow each other within microseconds.
constexpr int kSpins = 2000;

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
  ticket_ = (ticket_ / kRunUnit + 1) * kRunUnit;
  ticket_.notify_all();
}

void Parallel::run_parts(int parts, Call call, void* context) {
  ES_CHECK(parts <= kPartsMax);
  if (helpers_.empty() || parts <= 1) {
    for (int part = 0; part < parts; ++part) call(context, part);
    return;
  }
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
  int spins = 0;
  for (int done = done_.load(); done < parts; done = done_.load())
    if (++spins > kSpins) done_.wait(done);
  raise_flags(flags_.exchange(0));
}

// Takes a part of the ticket's run, which claim() then names. False: none is left.
bool Parallel::take_part(std::uint64_t& ticket) {
  while (taken(ticket) < parts_in(ticket))
    if (ticket_.compare_exchange_weak(ticket, ticket + 1, std::memory_order_acq_rel,
                                      std::memory_order_acquire))
      return true;
  return false;
}

// Which part a thread does that has taken one: its own, or the next that nobody has. As many claim
// as there are parts, so there is one. More parts than threads balance uneven work: first come,
// first served.
int Parallel::claim(std::uint64_t ticket, int thread) {
  const int parts = parts_in(ticket);
  if (parts > static_cast<int>(claimed_.size())) return taken(ticket);
  const std::uint64_t run = ticket / kRunUnit;
  int part = thread % parts;
  while (claimed_[static_cast<std::size_t>(part)].exchange(run) == run) part = (part + 1) % parts;
  return part;
}

void Parallel::help(std::stop_token stop, int thread) {
  std::uint64_t ticket = ticket_.load(std::memory_order_acquire);
  while (!stop.stop_requested()) {
    if (take_part(ticket)) {
      // The run cannot end before this part is done, so these are the run's own.
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
    const std::uint64_t finished = ticket;
    for (int spins = 0; ticket == finished; ticket = ticket_.load(std::memory_order_acquire))
      if (++spins > kSpins) ticket_.wait(finished, std::memory_order_acquire);
  }
}

}  // namespace es::gpu
