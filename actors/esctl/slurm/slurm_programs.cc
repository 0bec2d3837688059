#include "actors/esctl/slurm/slurm_programs.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include "proto/base/file_descriptor.h"

namespace es::actors::esctl {
namespace {

struct Pipe {
  std::unique_ptr<FileDescriptor> read, write;
};

Result<Pipe> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    return failure(std::string("a pipe: ") + std::strerror(errno));
  return Pipe{std::make_unique<FileDescriptor>(ends[0]), std::make_unique<FileDescriptor>(ends[1])};
}

// Reads both outputs until the program has closed them.
void read_both(int out, int err, std::string& out_text, std::string& err_text) {
  std::array<pollfd, 2> fds{{{out, POLLIN, 0}, {err, POLLIN, 0}}};
  std::array<std::string*, 2> texts{&out_text, &err_text};
  std::array<char, 4096> bytes;
  while (fds[0].fd >= 0 || fds[1].fd >= 0) {
    if (::poll(fds.data(), fds.size(), -1) < 0 && errno != EINTR) return;
    for (std::size_t i = 0; i < fds.size(); ++i) {
      if (fds[i].fd < 0 || fds[i].revents == 0) continue;
      const ssize_t count = ::read(fds[i].fd, bytes.data(), bytes.size());
      if (count > 0)
        texts[i]->append(bytes.data(), static_cast<std::size_t>(count));
      else if (count == 0 || errno != EINTR)
        fds[i].fd = -1;
    }
  }
}

std::string last_line(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

std::vector<std::string> environment_with(const std::map<std::string, std::string>& variables) {
  std::vector<std::string> all;
  for (char** at = environ; *at != nullptr; ++at) {
    const std::string entry = *at;
    if (!variables.contains(entry.substr(0, entry.find('=')))) all.push_back(entry);
  }
  for (const auto& [name, value] : variables) all.push_back(name + "=" + value);
  return all;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// Starts the program with no blocked signals. Returns an errno value.
int spawn(const std::vector<std::string>& words,
          const std::map<std::string, std::string>& variables, int out, int err, pid_t& pid) {
  std::vector<std::string> arguments = words, environment = environment_with(variables);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, err, STDERR_FILENO);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  const int code = ::posix_spawnp(&pid, words[0].c_str(), &actions, &attributes,
                                  pointers_to(arguments).data(), pointers_to(environment).data());
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  return code;
}

}  // namespace

Result<std::string> run_program_of_slurm(const std::vector<std::string>& words,
                                         const std::map<std::string, std::string>& variables) {
  auto out = make_pipe(), err = make_pipe();
  if (!out) return out.error();
  if (!err) return err.error();
  pid_t pid = 0;
  const int code = spawn(words, variables, out->write->get(), err->write->get(), pid);
  if (code == ENOENT)
    return not_found(words[0] +
                     ": no such program on PATH; esctl slurm needs Slurm's client programs");
  if (code != 0) return failure(words[0] + ": " + std::strerror(code));
  // Only the program holds these ends now, so the outputs end with it.
  out->write.reset();
  err->write.reset();
  std::string out_text, err_text;
  read_both(out->read->get(), err->read->get(), out_text, err_text);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return out_text;
  const std::string why = last_line(err_text.empty() ? out_text : err_text);
  return failure(words[0] + ": " + (why.empty() ? "it has failed without a message" : why));
}

Result<std::vector<QueuedJob>> jobs_named(const std::vector<std::string>& names) {
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ",") + name;
  const auto text =
      run_program_of_slurm({"squeue", "--noheader", "--array", "--name", list, "--user",
                            std::to_string(::geteuid()), "--format", kQueueFormat});
  if (!text) return text.error();
  return parse_queue(*text);
}

Result<std::set<std::string>> draining_nodes(const std::set<std::string>& nodes) {
  if (nodes.empty()) return std::set<std::string>();
  std::string list;
  for (const std::string& node : nodes) list += (list.empty() ? "" : ",") + node;
  const auto text = run_program_of_slurm(
      {"sinfo", "--noheader", "--Node", "--nodes", list, "--format", kNodeFormat});
  if (!text) return text.error();
  return parse_draining_nodes(*text);
}

Result<std::string> submit_script(const std::vector<std::string>& options,
                                  const std::string& script,
                                  const std::vector<std::string>& arguments,
                                  const std::map<std::string, std::string>& variables) {
  std::vector<std::string> words{"sbatch", "--parsable"};
  words.insert(words.end(), options.begin(), options.end());
  words.push_back(script);
  words.insert(words.end(), arguments.begin(), arguments.end());
  const auto text = run_program_of_slurm(words, variables);
  if (!text) return text.error();
  return parse_submitted(*text);
}

Status cancel_jobs(const std::vector<std::string>& ids) {
  if (ids.empty()) return {};
  std::vector<std::string> words{"scancel"};
  words.insert(words.end(), ids.begin(), ids.end());
  const auto done = run_program_of_slurm(words);
  return done ? Status() : done.error();
}

Status terminate_jobs(const std::vector<std::string>& ids) {
  if (ids.empty()) return {};
  std::vector<std::string> words{"scancel", "--signal=TERM"};
  words.insert(words.end(), ids.begin(), ids.end());
  const auto done = run_program_of_slurm(words);
  return done ? Status() : done.error();
}

}  // namespace es::actors::esctl
