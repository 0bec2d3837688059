#pragma once
// What is the same for every daemon that a command starts: the way from fork to its program, and
// what its exit status means.
#include <sys/types.h>

#include <string>

#include "actors/esctl/client/stop_signals.h"
#include "proto/base/result.h"

namespace es::actors::esctl {

// Becomes the program argv[0], with these descriptors as standard output and standard error, and
// nothing as standard input. It runs in a child between fork and exec, where only async-signal-safe
// functions are allowed. `parent` is the process that has forked: when it ends, the daemon gets
// SIGTERM. Never returns.
[[noreturn]] void become_daemon(char* const* argv, int output_fd, int error_fd, pid_t parent,
                                const StopSignals& signals);

// `status` is that of waitpid(2). For example "exit status 2" or "signal Killed".
std::string describe_exit(int status);

// A daemon that ends early has said what kind of error it is by its exit code. That of esctl is
// then the same.
ErrorKind kind_of_exit(int status);

}  // namespace es::actors::esctl
