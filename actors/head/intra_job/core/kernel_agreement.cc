#include "actors/head/intra_job/core/kernel_agreement.h"

#include <sstream>

namespace es::actors::intra_job {
namespace {

// The next line in quotes.
std::string next_line(std::istringstream& text) {
  std::string line;
  return std::getline(text, line) ? "'" + line + "'" : "nothing more";
}

}  // namespace

Status KernelAgreement::check(const DeviceType& type, const std::string& kernels) const {
  const auto found = kernels_.find(type);
  if (found == kernels_.end() || found->second == kernels) return {};
  std::istringstream theirs(found->second), own(kernels);
  std::string their_line, own_line;
  // Texts may differ in the end of the last line only, so both may have nothing more.
  while (their_line == own_line && (theirs || own)) {
    their_line = next_line(theirs);
    own_line = next_line(own);
  }
  return refused("computes with other kernels than the job's other workers on " + type.name +
                 ", which give other bits: it has " + own_line + " where they have " + their_line +
                 "; level D2 allows any kernels");
}

}  // namespace es::actors::intra_job
