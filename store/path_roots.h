#pragma once
// PathRoots: the directories in which files may lie that somebody else has named: a client of a
// head that it reaches over the network. Fields of jobs are checked by name when a job is admitted
// (check_named), and every file of a data set, of weights or of a checkpoint again where it is
// opened or made (check_opened, check_place): a link may have been made meanwhile.
//
// Which roots hold: those of the innermost ConfinedThread of the calling thread, else those of
// confine_process, else none. A refusal is the same whether the file exists or not.
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

// Existing directories, with all links resolved. Of a kind: absent: anywhere; empty: nowhere.
struct PathRoots {
  std::optional<std::vector<std::filesystem::path>> data;
  std::optional<std::vector<std::filesystem::path>> checkpoints;
};

// The directories of the program's option `option`. Error (usage): one is not an existing
// directory.
Result<std::vector<std::filesystem::path>> resolve_roots(
    const std::vector<std::string>& directories, const std::string& option);

// A path that a client gave as `field`: with roots, it is absolute, has no "..", holds no NUL, and
// lies in a root when all links are followed; what does not exist yet counts by what does.
// Error (refused): names field, path and the roots.
Status check_named(RootKind kind, const std::string& field, const std::string& path);

// Before something is made, listed or removed at `path`. Error (refused): it would not be in a
// root.
Status check_place(RootKind kind, const std::filesystem::path& path);

// After `path` was opened as `descriptor`; negative: it could not be, which need not be said of
// what lies elsewhere. Error (refused): what was opened is not in a root.
Status check_opened(RootKind kind, const std::filesystem::path& path, int descriptor);

// For all threads. REQUIRES: no other thread has been started.
void confine_process(PathRoots roots);

// For the calling thread while it lives. The roots outlive it.
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
