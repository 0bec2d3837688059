#pragma once
// HostId: which processes can share memory.
#include <string>

namespace es::actors {

// Text that is equal for two processes exactly when one can open a memory segment of the other:
// same running kernel, same numbering of processes (containers usually have their own), same user.
// When that cannot be found out, the text is unique to this process, so that bytes travel in
// messages instead. Constant during the life of a process; thread safe.
const std::string& host_id();

}  // namespace es::actors
