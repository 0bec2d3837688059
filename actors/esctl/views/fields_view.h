#pragma once
// The table of the fields of a job file (proto/base/job_fields.h) for people and programs.
#include <string>
#include <vector>

#include "proto/base/job_fields.h"

namespace es::actors::esctl {

// `fields`: of field_values(JobSpec{}), so that each has its default.
std::string fields_text(const std::vector<FieldValue>& fields);
std::string fields_json(const std::vector<FieldValue>& fields);
// The whole page docs/JOB-FILE.md.
std::string fields_markdown(const std::vector<FieldValue>& fields);

}  // namespace es::actors::esctl
