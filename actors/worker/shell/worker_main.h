#pragma once
// The worker process `easyscaled worker ...`. A node agent starts it; users do not.

namespace es::actors {

// The largest number of threads that load mini-batches in one worker process (--loaders).
inline constexpr int kLoadersMax = 64;

// Runs until the head releases this worker, and returns the exit status. argv[0] is "worker".
int worker_main(int argc, char** argv);

}  // namespace es::actors
