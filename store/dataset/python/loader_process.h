#pragma once
// LoaderProcess is a Python interpreter that computes samples of a dataset.
#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "store/dataset/python/loader_channel.h"

namespace es::store {

// How loader processes are started.
struct LoaderCommand {
  std::string python;       // the interpreter
  std::string python_path;  // directories with modules, separated by ':'
  std::string dataset;      // the file of the dataset, as a name for people
  int dataset_descriptor = -1;
};

// Used by one thread at a time. Its end ends the process and everything that it has started in its
// process group.
class LoaderProcess {
 public:
  // The kernel ends the process when the calling thread ends. Error (failure): the system has no
  // memory or no process for it. An interpreter that does not exist is found by the first message.
  static Result<std::unique_ptr<LoaderProcess>> start(const LoaderCommand& command,
                                                      std::unique_ptr<SharedSamples> memory);
  ~LoaderProcess();
  LoaderProcess(const LoaderProcess&) = delete;
  LoaderProcess& operator=(const LoaderProcess&) = delete;

  LoaderChannel& channel() { return channel_; }

  // How the process has ended, for example "has ended with exit code 3". One that has closed its
  // socket and still runs is ended after a short while.
  std::string end();

 private:
  LoaderProcess(pid_t pid, int socket, std::unique_ptr<SharedSamples> memory)
      : pid_(pid), channel_(socket, std::move(memory)) {}
  void kill() const;
  int reap();

  pid_t pid_;  // 0 after it was reaped
  LoaderChannel channel_;
};

}  // namespace es::store
