#pragma once
// The version of the programs.
#include <string>

namespace es::actors {

// The release, for example "0.1.0".
std::string release();

// The answer to --version, for example "PROGRAM 0.1.0 (protocol 2, checkpoint format 2)": the
// release, the protocol number in which two programs must agree, and the checkpoint format that
// they must have in common to read each other's checkpoints.
std::string version_line(const std::string& program);

}  // namespace es::actors
