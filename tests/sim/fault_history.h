#pragma once
// One random history of a small cluster: jobs, and faults at random times. After the faults
// everything that was broken is repaired. Then every job has to end with the bits of an undisturbed
// run. The same seed gives the same history.
//
// The faults are:
//
//   kill        one worker, several, all, all but one
//   trap        a worker dies, or stops and continues later, or the head dies, between two frames
//               of one type or just before it gets one: an owner between two receivers, a joiner
//               at its Hello or Fetch, a source at its State, a member that leaves at its Release,
//               owner and buddy of a shard between its sum and the new parameters, and others
//   freeze      a worker or a whole machine stops, and continues after its replacement or before
//   scale       to any number of devices, or back to the choice of the scheduler
//   cut         between two workers, or of a machine; in both directions, in one, or repeatedly
//   messages    lost with a connection that is made again, lost between workers without notice, or
//               late
//   node        lost, and back later; no two machines are away at once, so that the devices of
//               every stage exist
//   head        killed between two events, or at a write to its disk, and started again later
//   full disk   the head's disk accepts no writes from one write on, and later it does again
//   checkpoint  at any time, on a disk that may fail; also of the job's own series
//   pause       and resumed later
//   hide        the machine with the newest saved state of a job goes away, and all workers die
//   disk        of one machine destroyed, with all states that were saved there
//
// In two of three histories the machines share no disk, and every second job has sharded state.
#include <cstdint>
#include <map>
#include <string>

namespace es::test {

struct HistoryReport {
  std::string error;                // A description of the error; empty: there is none.
  std::map<std::string, int> done;  // Faults by kind, and notable events.
};

HistoryReport run_fault_history(std::uint64_t seed);

}  // namespace es::test
