#pragma once
// The worker process: `easyscaled worker ...`, started by a node agent, never by a person.

namespace es::actors {

// Most threads of one worker process that load mini-batches (--loaders).
inline constexpr int kLoadersMax = 64;

// Runs until the head releases this worker. argv[0] is "worker". Returns the exit status.
int worker_main(int argc, char** argv);

}  // namespace es::actors
