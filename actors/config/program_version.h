#pragma once
// What the programs answer to --version.
#include <string>

namespace es::actors {

// "PROGRAM 0.1.0 (protocol 2, checkpoint format 2)": the release, and the numbers in which two
// programs must agree to speak with each other and to read each other's checkpoints.
std::string version_line(const std::string& program);

}  // namespace es::actors
