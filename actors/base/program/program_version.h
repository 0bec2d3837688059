#pragma once
// The version of the programs.
#include <string>

namespace es::actors {

// The release, for example "0.1.0".
std::string release();

// The answer to --version, two lines:
//
//   PROGRAM 0.1.0 (protocol 2, checkpoint format 2)
//   built from COMMIT by gcc 12.2.0: debugoptimized, cuda local, onednn
//
// The first one has the release, the protocol number in which two programs must agree, and the
// checkpoint format that they must have in common to read each other's checkpoints. COMMIT is
// "unknown" if the source was no clone.
std::string version_line(const std::string& program);

}  // namespace es::actors
