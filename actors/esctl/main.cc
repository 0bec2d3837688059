#include <string>
#include <vector>

#include "actors/base/program/program.h"
#include "actors/esctl/esctl.h"

namespace {

using namespace es::actors;

// If messages could not be written, the code becomes an error too, unless it already is one.
int finish(int code, Console& console) {
  console.out.flush();
  console.err.flush();
  return console.err.bad() && code == 0 ? es::exit_code(es::ErrorKind::kFailure) : code;
}

}  // namespace

int main(int argc, char** argv) {
  return run_program("esctl", [&] {
    Console console = process_console();
    return finish(esctl::run_esctl(std::vector<std::string>(argv + 1, argv + argc), console),
                  console);
  });
}
