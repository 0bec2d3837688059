#pragma once
// Reference data that are not part of the repository (PyTorch vectors, job traces). A test that
// needs them is skipped with a message if they are missing.
#include <filesystem>

namespace es::test {

// The directory beside the repository that holds `name` (e.g. "vectors"), or an empty path with a
// printed reason. ES_SHARED overrides where to look.
std::filesystem::path reference_data(const char* name);

}  // namespace es::test
