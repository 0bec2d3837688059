#pragma once
// HostId says which processes can share memory.
#include <string>

namespace es::actors {

// A text that is equal for two processes exactly if each can open memory segments of the other:
// they have the same running kernel, the same PID namespace (containers usually have their own) and
// the same user. If this cannot be found out, the text is unique to this process, so that bytes
// travel in messages instead. It is constant during the life of a process. Thread-safe.
const std::string& host_id();

}  // namespace es::actors
