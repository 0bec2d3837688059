#pragma once
// The table of the fields of a job file (proto/base/job_fields.h) for people and programs.
#include <nlohmann/json.hpp>

#include <string>
#include <vector>

#include "proto/base/job_fields.h"

namespace es::actors {

// `fields`: of field_values(JobSpec{}), so that each has its default.
std::string fields_text(const std::vector<FieldValue>& fields);
std::string fields_json(const std::vector<FieldValue>& fields);
// A table of the fields of a job that have a meaning for it and another value than by default.
std::string job_fields_text(const JobSpec& spec);
// The same: [{"key": "max_p", "value": 4, "decides_bits": true}, ...].
nlohmann::ordered_json job_fields_json(const JobSpec& spec);
// The whole page docs/JOB-FILE.md.
std::string fields_markdown(const std::vector<FieldValue>& fields);

}  // namespace es::actors
