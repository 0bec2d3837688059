#include "tests/support/places.h"

#include <fstream>

namespace es::test {
namespace {

std::filesystem::path this_program() {
  return std::filesystem::read_symlink("/proc/self/exe");
}

}  // namespace

std::filesystem::path source_root() {
  // Meson writes this file into the folder that has all test programs (tests/meson.build).
  for (auto at = this_program().parent_path(); at.has_relative_path(); at = at.parent_path())
    if (std::ifstream file(at / "source_root"); file) {
      std::string root;
      std::getline(file, root);
      return root;
    }
  return {};
}

std::filesystem::path program_beside(const std::string& name) {
  return this_program().parent_path() / name;
}

}  // namespace es::test
