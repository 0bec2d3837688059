#include "store/path_roots.h"

#include <algorithm>
#include <deque>
#include <system_error>
#include <utility>

namespace es::store {
namespace {

namespace fs = std::filesystem;

PathRoots& process_roots() {
  static PathRoots roots;
  return roots;
}

// Linux follows the same number of links.
constexpr int kLinksMax = 40;

thread_local const PathRoots* thread_roots = nullptr;

const PathRoots& current_roots() {
  return thread_roots != nullptr ? *thread_roots : process_roots();
}

const std::optional<std::vector<fs::path>>& roots_of(RootKind kind) {
  const PathRoots& roots = current_roots();
  return kind == RootKind::kData ? roots.data : roots.checkpoints;
}

const char* option_of(RootKind kind) {
  return kind == RootKind::kData ? "--data-root" : "--checkpoint-root";
}

// Compares whole names: /data2 is not in /data.
bool lies_in(const fs::path& path, const fs::path& root) {
  // The range of a path consists of its names, so this compares names and not characters.
  return std::ranges::mismatch(root, path).in1 == root.end();
}

bool lies_in_any(const fs::path& resolved, const std::vector<fs::path>& roots) {
  return std::ranges::any_of(roots, [&](const fs::path& root) { return lies_in(resolved, root); });
}

bool has_parent_name(const fs::path& path) {
  return std::ranges::any_of(path, [](const fs::path& name) { return name == ".."; });
}

// Follows every link of an absolute path, also a link whose target does not exist, because an error
// must not reveal whether it exists. Names that do not exist are kept. Returns an empty path if the
// path is relative or its links form a cycle.
fs::path resolve(const fs::path& path) {
  if (!path.is_absolute()) return {};
  std::deque<fs::path> names(path.begin(), path.end());
  fs::path resolved;
  for (int links = 0; !names.empty();) {
    const fs::path name = std::exchange(names.front(), {});
    names.pop_front();
    if (name.is_absolute()) {
      resolved = name;
    } else if (name == "..") {
      // All links before it are resolved already, so the parent by name is the real one. The parent
      // of "/" is "/".
      resolved = resolved.parent_path();
    } else if (!name.empty() && name != ".") {
      std::error_code code;
      const fs::path target = fs::read_symlink(resolved / name, code);
      if (code) {  // not a link
        resolved /= name;
        continue;
      }
      if (++links > kLinksMax) return {};
      // The names of the target replace the link. An absolute target begins with "/", which starts
      // again at the root directory.
      names.insert(names.begin(), target.begin(), target.end());
    }
  }
  return resolved;
}

Error leads_out(RootKind kind, const fs::path& path) {
  return refused(path.string() + ": leads out of the directories of easyscaled " + option_of(kind));
}

std::string allowed_text(RootKind kind, const std::vector<fs::path>& roots) {
  if (roots.empty())
    return std::string("no paths: this head has no ") + option_of(kind) +
           " for clients that reach it over the network (easyscaled --help)";
  std::string text = "absolute paths, without \"..\", in";
  for (std::size_t i = 0; i < roots.size(); ++i)
    text += (i == 0 ? " " : " or ") + roots[i].string();
  return text + " (easyscaled " + option_of(kind) + ")";
}

// Makes the text of a client safe for a message of one line.
std::string shown(const std::string& text) {
  std::string safe;
  // Control characters could forge lines of a log or change a terminal.
  for (const char c : text) safe += static_cast<unsigned char>(c) < ' ' || c == '\x7f' ? '?' : c;
  return safe;
}

}  // namespace

Result<std::vector<fs::path>> resolve_roots(const std::vector<std::string>& directories,
                                            const std::string& option) {
  std::vector<fs::path> roots;
  for (const std::string& directory : directories) {
    std::error_code code;
    // Roots are resolved once. Resolved paths are compared with them by name, so a root that is a
    // link itself would contain nothing.
    const fs::path root = fs::canonical(directory, code);
    if (code || !fs::is_directory(root, code))
      return usage_error(option + " = " + directory + ": allowed is an existing directory");
    roots.push_back(root);
  }
  return roots;
}

Status check_named(RootKind kind, const std::string& field, const std::string& path) {
  const auto& roots = roots_of(kind);
  if (!roots) return {};
  const fs::path named(path);
  const bool plain =
      // A NUL byte ends the name for the system, which would then open another file than the one
      // that was checked.
      named.is_absolute() && !has_parent_name(named) && path.find('\0') == std::string::npos;
  if (plain && lies_in_any(resolve(named), *roots)) return {};
  return refused(field + " = \"" + shown(path) + "\": allowed are " + allowed_text(kind, *roots));
}

Status check_place(RootKind kind, const fs::path& path) {
  const auto& roots = roots_of(kind);
  if (!roots || lies_in_any(resolve(path), *roots)) return {};
  return leads_out(kind, path);
}

Status check_opened(RootKind kind, const fs::path& path, int descriptor) {
  if (descriptor < 0) return check_place(kind, path);
  const auto& roots = roots_of(kind);
  if (!roots) return {};
  // The descriptor names the file that was opened. A check of the path could see another file, if a
  // link was changed after the file was opened.
  std::error_code code;
  const fs::path opened = fs::read_symlink("/proc/self/fd/" + std::to_string(descriptor), code);
  if (!code && lies_in_any(opened, *roots)) return {};
  return leads_out(kind, path);
}

Status check_program(const std::string& field, const std::string& path) {
  if (current_roots().programs) return {};
  return refused(
      field + " = \"" + shown(path) +
      "\": allowed are no programs: this daemon has no --python-data for jobs that reach "
      "it over the network (easyscaled --help)");
}

Status check_service(const std::string& field, const std::string& url) {
  const auto& allowed = current_roots().services;
  const auto plain = [](std::string text) {
    while (text.ends_with('/')) text.pop_back();
    return text;
  };
  const auto same = [&](const std::string& one) { return plain(one) == plain(url); };
  if (!allowed || std::ranges::any_of(*allowed, same)) return {};
  std::string text;
  for (const std::string& one : *allowed) text += (text.empty() ? "" : " or ") + one;
  return refused(field + " = \"" + shown(url) + "\": allowed is " +
                 (text.empty()
                      ? "no server: this head has no --mlflow for clients that reach it over "
                        "the network"
                      : text + " (easyscaled --mlflow)"));
}

void confine_process(PathRoots roots) {
  process_roots() = std::move(roots);
}

ConfinedThread::ConfinedThread(const PathRoots& roots)
    : before_(std::exchange(thread_roots, &roots)) {}

ConfinedThread::~ConfinedThread() {
  thread_roots = before_;
}

}  // namespace es::store
