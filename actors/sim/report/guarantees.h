#pragma once
// Whether queues had their guarantees in a simulation. Pure.
//
// A demand within the guarantee of a queue is a job of it, or of a queue below it, that holds
// nothing and would fit into what the guarantee leaves beside the devices that the queue has. The
// guarantee is kept if no such job waits for longer than a pause. Reservations raise it for their
// time; lost nodes do not lower it.
#include <string>
#include <vector>

#include "actors/sim/shell/simulation.h"

namespace es::actors::simulator {

struct Guarantee {
  std::string queue;
  // Times, each longer than a pause, in which one demand or several overlapping ones waited;
  // ascending, without overlap.
  struct Wait {
    double from_s = 0, until_s = 0;
    std::size_t jobs = 0;   // that waited in it
    std::string first_job;  // that waited first: its id in the trace
    bool operator==(const Wait&) const = default;
  };
  std::vector<Wait> waits;
  double waited_s() const;  // all together
};

struct GuaranteeRules {
  std::vector<scheduler::Queue> queues;   // completed_queues()
  std::vector<store::TraceClaim> claims;  // reservations are among them
  scheduler::StartsWith starts_with{};    // what the policy gives a job at the least
  double pause_s = 0;                     // a wait that is not longer is none
};

// Of the queues with a guarantee or a reservation, in their order.
std::vector<Guarantee> guarantees_of(const Workload& workload, const SimulationResult& result,
                                     const GuaranteeRules& rules);

// A table for other programs: one line for each wait.
std::string guarantees_csv(const std::vector<Guarantee>& guarantees);

}  // namespace es::actors::simulator
