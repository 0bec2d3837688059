#pragma once
// The file of the audit log. Several objects of one process may append to the same file.
#include <filesystem>
#include <fstream>

#include "actors/base/access/core/audit.h"

namespace es::actors::access {

class AuditLog {
 public:
  // The file is made if it does not exist. If it cannot be opened, or a line cannot be written
  // later, the log of the program says so, and the requests are served.
  explicit AuditLog(std::filesystem::path file);
  void write(const AuditEntry& entry);

 private:
  std::filesystem::path file_;
  std::ofstream out_;
};

}  // namespace es::actors::access
