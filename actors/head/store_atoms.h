#pragma once
// What the actors of the head tell each other about a state directory that cannot be written.
#include <caf/atom.hpp>

namespace es::actors {

// job -> cluster scheduler, with the reason (std::string): something could not be written, and
// waits.
using StoreFailedAtom = caf::atom_constant<caf::atom("nowrite")>;
// job -> cluster scheduler, with the reason: a job of an earlier head cannot be restored.
using HistoryUnreadableAtom = caf::atom_constant<caf::atom("unreadable")>;
// cluster scheduler -> job: write what waits.
using StoreRecoveredAtom = caf::atom_constant<caf::atom("writable")>;
// To the cluster scheduler itself: try again.
using TryStoreAtom = caf::atom_constant<caf::atom("trystore")>;

}  // namespace es::actors
