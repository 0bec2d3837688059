#pragma once
// Reference data that is not part of the repository (PyTorch vectors, job traces). A test that
// needs it skips, with a message, where it is absent.
#include <filesystem>

namespace es::test {

// Directory beside the repository that holds `name` (e.g. "vectors"), or an empty path; ES_SHARED
// overrides where to look. Prints why when it is absent.
std::filesystem::path reference_data(const char* name);

}  // namespace es::test
