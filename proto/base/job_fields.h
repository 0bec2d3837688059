#pragma once
// The table of the fields of a job specification. Each field is declared once, with its name in a
// job file, its allowed values, its unit, its influence on the bits of the result, and its meaning.
//
// This table is the source for the reader and the writer of job files
// (actors/base/job_file/job_file.h), for validate(), for the check that a checkpoint belongs to the
// same job, for the digest of a specification in ledger files, for `esctl fields` and for
// docs/JOB-FILE.md. Its order is the order of the canonical text.
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "proto/base/job_spec.h"

namespace es {

// Whether the result of a job depends on a field, and whether a job may continue from a checkpoint
// that was written with another value of it.
enum class Bits {
  kDecided,    // yes; a checkpoint belongs only to jobs with the same value
  kByLength,   // yes: the length of the training; a job may continue a checkpoint for longer
  kByLevel,    // yes: the choice of kernels; the checkpoint's record of kernels is compared instead
  kByContent,  // a path; only the content of the file matters
  kNot,        // no
};

struct JobField {
  std::string_view key;  // as in a job file: "max_p", "optimizer.momentum"
  Bits bits = Bits::kDecided;
  std::string_view unit{};     // "global steps"; empty for none
  std::string_view meaning{};  // one sentence
  // The range of a number. An open end is not part of the range.
  double low = 0;
  double high = 0;
  bool low_is_open = false;
  bool high_is_open = false;
  std::string_view zero{};  // what 0 stands for, if it is not an ordinary number
  // One value outside of the range and what it stands for. There is none if the text is empty.
  double also = 0;
  std::string_view also_means{};
  // The values of a text, "sgd|adam|adamw". If empty, any text with at most `bytes_max` bytes for
  // which is_plain() is true is allowed.
  std::string_view choices{};
  std::size_t bytes_max = 4096;
  std::string_view allowed{};  // what is allowed, if the members above do not say it
  // Whether the field has a meaning for a job; if not, its range is not checked. nullptr for all
  // jobs.
  bool (*applies)(const JobSpec&) = nullptr;
  std::string_view applies_to{};  // the same in words: "recommendation"
  // True for a field that was added after the first ledger files. The canonical text omits it while
  // it has its default, so the digests of older specifications do not change.
  bool left_out_at_default = false;
  // Whether another field of the job says what this one would say. The job then may not have this
  // field, and the canonical text omits it. nullptr for never.
  bool (*excluded)(const JobSpec&) = nullptr;
  std::string_view excluded_by{};  // that other field: "model.file"
};

// The allowed values as text: "1 to 1024", "0 (none) to 1000", "0 to below 1, or -1 for the
// published one", "sgd, adam, adamw".
std::string allowed_text(const JobField& field);

// The key "optimizer.momentum" has the table "optimizer" and the name "momentum". The table of
// "max_p" is empty.
std::string_view table_of(const JobField& field);
std::string_view name_in_table(const JobField& field);

// Calls visit(const JobField&, value) for each field, in the order of the canonical text. `value`
// is a reference into `spec` of type std::string, bool, double, int, std::uint32_t, std::uint64_t,
// DeterminismLevel, or a std::vector of std::string, DeviceType, Stage, SchedulePoint,
// ParameterGroup or ClipGroup. Spec is JobSpec or const JobSpec.
template <class Spec, class Visit>
void visit_job_fields(Spec& spec, Visit&& visit);

// The same for the fields of one group of optimizer.groups (ParameterGroup) or
// optimizer.clip_groups (ClipGroup). Their keys are names in the table of the group, and `value` is
// of type std::vector<std::string>, double or std::optional<double>.
template <class Group, class Visit>
void visit_group_fields(Group& group, Visit&& visit);
// The list of groups in a job file: "optimizer.groups".
template <class Group>
constexpr std::string_view group_list() {
  return std::is_same_v<Group, ClipGroup> ? "optimizer.clip_groups" : "optimizer.groups";
}
// The key of such a field in a message: "optimizer.groups[0].weight_decay".
template <class Group>
std::string group_key(std::size_t group, std::string_view key) {
  return std::string(group_list<Group>()) + '[' + std::to_string(group) + "]." + std::string(key);
}

struct FieldValue {
  JobField field;
  // "whole number", "number", "true or false", "text", "list of texts", "list of tables"
  std::string_view type;
  std::string toml;       // the value in a job file: 4, 0.1, true, "sgd", ["cpu-avx2"]
  bool excluded = false;  // JobField::excluded, for this job
  // Of a list of tables: the fields of each table, with their defaults. Otherwise empty.
  std::vector<FieldValue> members = {};
  bool operator==(const FieldValue& other) const { return toml == other.toml; }
};

// All fields, in the order of the table.
std::vector<FieldValue> field_values(const JobSpec& spec);
// The fields of a group. The text of one that is not given is empty.
std::vector<FieldValue> group_field_values(const ParameterGroup& group);
std::vector<FieldValue> group_field_values(const ClipGroup& group);

// The names that jobs of a task may give as model.name and data.kind.
struct TaskNames {
  Task task;
  std::vector<std::string> models;
  std::vector<std::string> data_kinds;
};
std::vector<TaskNames> task_names();

// JobField::bits for this job: evaluations decide the bits if the learning rate goes by them.
Bits bits_of(const JobField& field, const JobSpec& spec);

// A job `a` can continue from a checkpoint of `b` only if all fields with Bits::kDecided are equal.
// Returns the key of the first such field that differs, or an empty text if they are all equal.
std::string_view first_other_bits(const JobSpec& a, const JobSpec& b);

}  // namespace es

#include "proto/base/job_fields_table.h"  // IWYU pragma: export
