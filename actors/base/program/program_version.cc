#include "actors/base/program/program_version.h"

#include "actors/base/program/commit.h"
#include "proto/message_type.h"
#include "store/checkpoint/manifest.h"

namespace es::actors {

std::string release() {
  return ES_VERSION;
}

std::string version_line(const std::string& program) {
  return program + " " + release() + " (protocol " + std::to_string(kProtocolVersion) +
         ", checkpoint format " + std::to_string(store::kCheckpointFormatVersion) +
         ")\nbuilt from " ES_COMMIT " by " ES_BUILD;
}

}  // namespace es::actors
