#pragma once
// Where a test program finds files, wherever its build directory is.
#include <filesystem>
#include <string>

namespace es::test {

// The source tree of the build that made this program; empty if the program is in no build
// directory, but for example in a bundle of scripts/gpu_check.
std::filesystem::path source_root();

// Another program that is built beside this one.
std::filesystem::path program_beside(const std::string& name);

}  // namespace es::test
