#pragma once
// The table of the fields of a job specification: every field once, with its name in a job file,
// what is allowed, its unit, whether it decides the bits of the result, and what it means.
//
// The reader and the writer of job files (actors/config/job_file.h), validate(), the check that a
// checkpoint belongs to the same job, the digest of a specification in ledger files, `esctl fields`
// and docs/JOB-FILE.md all follow from this table. The order is that of the canonical text.
#include <string>
#include <string_view>
#include <vector>

#include "proto/base/job_spec.h"

namespace es {

// Whether the result of a job depends on a field, and whether a job may go on from a checkpoint
// that was written with another value.
enum class Bits {
  kDecided,   // yes; a checkpoint belongs only to jobs with the same value
  kByLength,  // yes: how long the job trains; it may go on from a checkpoint for longer
  kByLevel,  // yes: which kernels compute; the record of kernels in a checkpoint is checked instead
  kByContent,  // a path: only what lies there matters
  kNot,        // no
};

struct JobField {
  std::string_view key;  // as in a job file: "max_p", "optimizer.momentum"
  Bits bits = Bits::kDecided;
  std::string_view unit{};     // "global steps"; empty: none
  std::string_view meaning{};  // one sentence
  // Of a number: from low to high. An open end does not belong to the range.
  double low = 0;
  double high = 0;
  bool low_is_open = false;
  bool high_is_open = false;
  std::string_view zero{};  // what 0 stands for, when it is not just a number
  // One value outside of the range, and what it stands for; with an empty text there is none.
  double also = 0;
  std::string_view also_means{};
  // Of a text: "sgd|adam|adamw"; empty: any text of at most `bytes_max` bytes that is_plain().
  std::string_view choices{};
  std::size_t bytes_max = 4096;
  std::string_view allowed{};  // what is allowed, when none of the above says it
  // The jobs for which the field has a meaning; for the others its range is not checked. None: all.
  bool (*applies)(const JobSpec&) = nullptr;
  std::string_view applies_to{};  // the same in words: "recommendation"
  // A field that was added after the first ledger files: it is left out of the canonical text while
  // it has its default, so that the digests of older specifications stay as they are.
  bool left_out_at_default = false;
};

// "1 to 1024", "0 (none) to 1000", "0 to below 1, or -1 (the published one)", "sgd, adam, adamw".
std::string allowed_text(const JobField& field);

// "name" of "optimizer.momentum" is "momentum", its table "optimizer"; of "max_p" there is none.
std::string_view table_of(const JobField& field);
std::string_view name_in_table(const JobField& field);

// Calls visit(const JobField&, value) for each field, in the order of the canonical text. `value`
// is a reference into `spec`: std::string, bool, double, int, std::uint32_t, std::uint64_t,
// DeterminismLevel, std::vector<DeviceType> or std::vector<Stage>. Spec: JobSpec or const JobSpec.
template <class Spec, class Visit>
void visit_job_fields(Spec& spec, Visit&& visit);

struct FieldValue {
  JobField field;
  std::string_view type;  // "whole number", "number", "true or false", "text", "list of texts"
  std::string toml;  // the value as a job file has it: 4, 0.1, true, "sgd", ["cpu-avx2"]
  bool operator==(const FieldValue& other) const { return toml == other.toml; }
};

// All fields, in the order of the table.
std::vector<FieldValue> field_values(const JobSpec& spec);

// What jobs of a task may name as model.name and data.kind.
struct TaskNames {
  Task task;
  std::vector<std::string> models;
  std::vector<std::string> data_kinds;
};
std::vector<TaskNames> task_names();

// The key of the first field that decides the bits and differs so that a job `a` cannot go on from
// a checkpoint of `b`; empty: it can.
std::string_view first_other_bits(const JobSpec& a, const JobSpec& b);

}  // namespace es

#include "proto/base/job_fields_table.h"  // IWYU pragma: export
