#include "actors/base/program/actor_process.h"

#include <unistd.h>

#include <caf/actor_system_config.hpp>
#include <caf/atom.hpp>

#include "actors/base/log/log.h"
#include "actors/base/program/program.h"

namespace es::actors {

void run_actor_process(const char* name, std::size_t threads,
                       const std::function<Status(caf::actor_system&)>& body) {
  // Never deleted; see the header.
  auto* const config = new caf::actor_system_config;
  config->set("scheduler.policy", caf::atom("sharing"));
  config->set("scheduler.max-threads", threads);
  auto* const system = new caf::actor_system(*config);
  ::_exit(run_program(name, [&] {
    const Status status = body(*system);
    if (status.ok()) return 0;
    log::error(status.error().message);
    return exit_code(status.error().kind);
  }));
}

}  // namespace es::actors
