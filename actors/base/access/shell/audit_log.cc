#include "actors/base/access/shell/audit_log.h"

#include <utility>

#include "actors/base/log/log.h"

namespace es::actors::access {

AuditLog::AuditLog(std::filesystem::path file)
    : file_(std::move(file)), out_(file_, std::ios::app) {
  if (!out_) log::warning("the audit log " + file_.string() + " cannot be written");
}

void AuditLog::write(const AuditEntry& entry) {
  out_ << audit_line(entry) << std::flush;
  if (out_) return;
  log::error("the audit log " + file_.string() + " cannot be written");
  out_.clear();
}

}  // namespace es::actors::access
