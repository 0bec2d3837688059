#pragma once
// The queues of a head as program options: a TOML file, and --quota.
//
//   [queue.NAME]
//   parent = "NAME"                       # default: directly below the cluster
//   guarantee = { cpu-avx2 = 4 }          # devices by type
//   borrow = { cpu-avx2 = 2 }             # the most beyond the guarantee; other types: no limit
//   weight = 1.0
//   tenants = ["NAME", ...]               # whose jobs may be in it; default: all
#include <string>
#include <string_view>
#include <vector>

#include "scheduler/policy/common/queue.h"

namespace es::actors {

// Error (usage), which names `where`, the queue, the field, its value and what is allowed.
Result<std::vector<scheduler::Queue>> parse_queues(std::string_view toml_text,
                                                   const std::string& where);

// The queues of a head: those of the file (none if its name is empty), and one for each quota, with
// the name of its tenant, at the top, with weight 0. Each quota is
// "TENANT=TYPE:COUNT[+TYPE:COUNT...]". Errors: those of read_text_file and parse_queues; a quota is
// malformed (usage); those of scheduler::completed_queues.
Result<std::vector<scheduler::Queue>> read_queues(const std::string& file,
                                                  const std::vector<std::string>& quotas);

}  // namespace es::actors
