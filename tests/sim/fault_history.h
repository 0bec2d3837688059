#pragma once
// One random history of a small cluster: jobs, and faults at random moments. When the faults are
// over everything that was broken is mended, and every job has to end, with the bits of a run that
// nothing disturbed. The same seed gives the same history.
//
// Faults     kill      one worker, several, all, all but one
//            trap      a worker dies, or stops and wakes later, or the head dies, between two
//                      frames of one type, or just before it gets one: an owner in mid-broadcast, a
//                      joiner
//                      at its Hello or Fetch, a source at its State, a leaver at its Release ...
//            freeze    a worker or a whole machine stops, and wakes after its replacement or before
//            scale     to any number of devices, or back to the scheduler's choice
//            cut       between two workers; of a machine; both ways, one way, flapping
//            messages  lost with a connection that is made again, lost silently between workers,
//                      late
//            node      lost, and back later: no two machines are away at once, so that every stage
//                      can be had
//            head      killed between two events, or at a write to its disk, and started again
//                      later
//            full disk  the head's disk takes nothing from some write on, and later it does again
//            checkpoint  at any time, on a disk that may fail; of its own series too
//            pause     and resumed later
//            hide      the machine with a job's newest saved state away, and all workers killed
//            disk      of one machine destroyed, with all that was saved there
// In two of three histories the machines share no disk.
#include <cstdint>
#include <map>
#include <string>

namespace es::test {

struct HistoryReport {
  std::string error;                // what went wrong; empty: nothing
  std::map<std::string, int> done;  // faults by kind, and remarkable things that happened
};

HistoryReport run_fault_history(std::uint64_t seed);

}  // namespace es::test
