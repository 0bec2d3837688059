#include "store/dataset/sorted_names.h"

#include <algorithm>
#include <system_error>

#include "store/path_roots.h"

namespace es::store {

Result<std::vector<std::string>> sorted_names(
    const std::filesystem::path& directory,
    const std::function<bool(const std::filesystem::directory_entry&)>& wanted) {
  using Iterator = std::filesystem::directory_iterator;
  ES_RETURN_IF_ERROR(check_place(RootKind::kData, directory));
  std::error_code code;
  std::vector<std::string> names;
  for (Iterator at(directory, code), end; !code && at != end; at.increment(code))
    if (wanted(*at)) names.push_back(at->path().filename().string());
  if (code) return not_found(directory.string() + ": cannot be listed: " + code.message());
  std::ranges::sort(names);
  return names;
}

}  // namespace es::store
