#include "tests/support/reference_data.h"

#include <cstdio>
#include <cstdlib>

#include "tests/support/places.h"

namespace es::test {

std::filesystem::path reference_data(const char* name) {
  const char* override_path = std::getenv("ES_SHARED");
  const std::filesystem::path root =
      override_path != nullptr ? override_path : source_root() / ".." / "shared";
  const std::filesystem::path path = root / name;
  if (std::filesystem::is_directory(path)) return path;
  std::printf("skipped: reference data \"%s\" is not at %s (set ES_SHARED)\n", name,
              path.string().c_str());
  return {};
}

}  // namespace es::test
