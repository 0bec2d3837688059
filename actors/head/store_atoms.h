#pragma once
// Messages between the actors of the head about a state directory that cannot be written.
#include <caf/atom.hpp>

namespace es::actors {

// Sent by a job to the cluster scheduler, with the reason as a std::string: a write failed, and its
// effects wait.
using StoreFailedAtom = caf::atom_constant<caf::atom("nowrite")>;
// Sent by a job to the cluster scheduler, with the reason: a job of an earlier head cannot be
// restored.
using HistoryUnreadableAtom = caf::atom_constant<caf::atom("unreadable")>;
// Sent by the cluster scheduler to a job: the job should write what waits.
using StoreRecoveredAtom = caf::atom_constant<caf::atom("writable")>;
// Sent by the cluster scheduler to itself: it tries to write again.
using TryStoreAtom = caf::atom_constant<caf::atom("trystore")>;

}  // namespace es::actors
