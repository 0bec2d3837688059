#pragma once
// HostId: which processes can share memory through /dev/shm.
#include <string>

namespace es::actors {

// Text that is equal for two processes exactly when a segment that one creates in /dev/shm can be
// opened by the other: same running kernel, same file system mounted there (containers usually have
// their own), same user. When that cannot be found out, the text is unique to this process, so that
// bytes travel in messages instead. Constant during the life of a process; thread safe.
const std::string& host_id();

}  // namespace es::actors
