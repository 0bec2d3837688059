#include "actors/head/cluster_scheduler/shell/checkpoint_request.h"

#include <string>
#include <system_error>

#include "actors/base/gateway/shell/visit.h"
#include "proto/messages.h"
#include "proto/text_of.h"

namespace es::actors {

Result<Inbound> with_checkpoint_directory(const Inbound& request, const JobId& job,
                                          const store::PathRoots& roots,
                                          const std::filesystem::path& checkpoint_dir,
                                          std::uint64_t unix_ms) {
  struct Asked {
    std::string directory, otherwise;
    bool at_end = false;
  };
  const auto asked = visit<wire::CheckpointJob>(request, [](wire::CheckpointJob::Reader r) {
    return Asked{name_of(r.getDirectory(), "directory"), name_of(r.getOtherwise(), "otherwise"),
                 r.getAtEnd()};
  });
  if (!asked) return asked.error();
  // The client has chosen these paths, so only the directories that clients may use are allowed.
  const store::ConfinedThread confined(roots);
  for (const std::string& named : {asked->directory, asked->otherwise})
    if (!named.empty())
      ES_RETURN_IF_ERROR(store::check_named(store::RootKind::kCheckpoints, "--to", named));
  if (!asked->directory.empty()) return request;
  std::error_code ignored;
  // An error is not handled here, because it appears when the checkpoint is written.
  std::filesystem::create_directories(checkpoint_dir, ignored);
  const std::string name = job + "-" + std::to_string(unix_ms);
  const std::filesystem::path chosen = checkpoint_dir / name;
  const auto whole =
      Msg<wire::CheckpointJob>::build(request.frame->envelope, [&](wire::CheckpointJob::Builder b) {
        b.setDirectory(chosen.string());
        b.setAtEnd(asked->at_end);
        // A node that cannot write there keeps the checkpoint itself, as it does with the state of
        // a suspended job.
        b.setOtherwise(asked->otherwise.empty() ? name : asked->otherwise);
      });
  Inbound filled = request;
  filled.frame = whole.frame();
  return filled;
}

}  // namespace es::actors
