#include <string>
#include <vector>

#include "actors/config/program.h"
#include "actors/esctl/esctl.h"

namespace {

using namespace es::actors;

// Words about a command that could not be written are an error too, if there is none that is worse.
int finish(int code, esctl::Console& console) {
  console.out.flush();
  console.err.flush();
  return console.err.bad() && code == 0 ? es::exit_code(es::ErrorKind::kFailure) : code;
}

}  // namespace

int main(int argc, char** argv) {
  return run_program("esctl", [&] {
    esctl::Console console = esctl::process_console();
    return finish(esctl::run_esctl(std::vector<std::string>(argv + 1, argv + argc), console),
                  console);
  });
}
