#pragma once
// A name that no other process has.
#include <string>

namespace es::actors {

// Returns 40 random bits as 8 letters and digits that cannot be confused with each other.
std::string random_tag();

}  // namespace es::actors
