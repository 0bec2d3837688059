#pragma once
// PathRoots are the directories to which paths from outside are confined, namely paths that a
// client gives to a head over the network; and they say whether such a client may name a program.
// The paths in a job are checked by name when the job is admitted (check_named). Every file of a
// data set, of weights or of a checkpoint is checked again when it is opened or created
// (check_opened, check_place), because a symbolic link may have been made since.
//
// The roots of the innermost ConfinedThread of the calling thread apply, otherwise those of
// confine_process, otherwise none. An error is the same whether the file exists or not, so that a
// client cannot learn which files exist.
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "proto/base/result.h"

namespace es::store {

enum class RootKind {
  kData,         // data sets, vocabularies, weights: read
  kCheckpoints,  // checkpoints: read, written and removed
};

// Existing directories with all symbolic links resolved. For each kind, nullopt allows every path,
// and an empty list allows none.
struct PathRoots {
  std::optional<std::vector<std::filesystem::path>> data;
  std::optional<std::vector<std::filesystem::path>> checkpoints;
  // URLs of the services to which a job may have its curves written; nullopt allows every one.
  std::optional<std::vector<std::string>> services{};
  // Whether a job may name a program that is run, which can then do whatever this user may do.
  bool programs = true;
};

// Resolves the directories given to the program's option `option`. Error (usage): one of them is
// not an existing directory.
Result<std::vector<std::filesystem::path>> resolve_roots(
    const std::vector<std::string>& directories, const std::string& option);

// Checks a path that a client gave as `field`. If there are roots, the path must be absolute,
// without ".." and without a NUL byte, and it must lead into a root when all links are followed.
// Names at its end that do not exist yet are allowed. Error (refused): names the field, the path
// and the roots.
Status check_named(RootKind kind, const std::string& field, const std::string& path);

// Called before something is created, listed or removed at `path`. Error (refused): it would not be
// in a root.
Status check_place(RootKind kind, const std::filesystem::path& path);

// Called after `path` was opened as `descriptor`. The descriptor may be negative if opening failed;
// then the path is checked as by check_place, so that the error does not reveal a file outside of
// the roots. Error (refused): the opened file is not in a root.
Status check_opened(RootKind kind, const std::filesystem::path& path, int descriptor);

// Checks that the job of a client may name the program `path` as `field`. Error (refused): names
// the field, the program and the option that allows it.
Status check_program(const std::string& field, const std::string& path);

// Checks that the job of a client may name the service `url` as `field`. Error (refused): names the
// field, the URL and what is allowed.
Status check_service(const std::string& field, const std::string& url);

// Sets the roots of all threads. REQUIRES: no other thread has been started.
void confine_process(PathRoots roots);

// Sets the roots of the calling thread during its lifetime. The roots must outlive it.
class ConfinedThread {
 public:
  explicit ConfinedThread(const PathRoots& roots);
  ~ConfinedThread();
  ConfinedThread(const ConfinedThread&) = delete;
  ConfinedThread& operator=(const ConfinedThread&) = delete;

 private:
  const PathRoots* const before_;
};

}  // namespace es::store
