#include <string>
#include <vector>

#include "actors/esctl/esctl.h"

int main(int argc, char** argv) {
  es::actors::esctl::Console console = es::actors::esctl::process_console();
  return es::actors::esctl::run_esctl(std::vector<std::string>(argv + 1, argv + argc), console);
}
