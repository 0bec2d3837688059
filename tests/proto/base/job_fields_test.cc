#include "proto/base/job_fields.h"

#include <doctest/doctest.h>

#include <set>
#include <type_traits>
#include <utility>

using namespace es;

namespace {

// Converts to any type, so that it can initialise any member of an aggregate.
struct Any {
  template <class T>
  operator T() const;
};

template <class T, std::size_t... I>
constexpr bool takes(std::index_sequence<I...>) {
  return requires {
    T{(static_cast<void>(I), Any{})...};
  };
}

// The number of members of the aggregate T.
template <class T, std::size_t N = 64>
constexpr std::size_t member_count() {
  if constexpr (N == 0 || takes<T>(std::make_index_sequence<N>{}))
    return N;
  else
    return member_count<T, N - 1>();
}

template <class... Tables>
constexpr std::size_t members_of_all() {
  return (member_count<Tables>() + ...);
}

// Each table of a specification is one member.
constexpr std::size_t kTables = 10;
constexpr std::size_t kFields =
    members_of_all<JobSpec, ModelSpec, LoraSpec, DataSpec, OptimizerSpec, ScheduleSpec,
                   ResourceSpec, CheckpointSpec, StopSpec, AuditSpec, LogSpec>() -
    kTables;

JobSpec changed(const JobSpec& spec, std::size_t place) {
  JobSpec other = spec;
  std::size_t at = 0;
  visit_job_fields(other, [&](const JobField&, auto& value) {
    using Value = std::decay_t<decltype(value)>;
    if (at++ != place) return;
    if constexpr (std::is_same_v<Value, std::string>)
      value += "x";
    else if constexpr (std::is_same_v<Value, bool>)
      value = !value;
    else if constexpr (std::is_arithmetic_v<Value>)
      value += 1;
    else if constexpr (std::is_same_v<Value, DeterminismLevel>)
      value = DeterminismLevel::kD0;
    else if constexpr (std::is_same_v<Value, std::vector<DeviceType>>)
      value.push_back({"cpu-avx2"});
    else if constexpr (std::is_same_v<Value, std::vector<std::string>>)
      value.push_back("f1");
    else if constexpr (std::is_same_v<Value, std::vector<ParameterGroup>>)
      value.push_back({.parameters = {"*.bias"}});
    else if constexpr (std::is_same_v<Value, std::vector<ClipGroup>>)
      value.push_back({.parameters = {"*.bias"}, .clip_norm = 1.0});
    else if constexpr (std::is_same_v<Value, std::vector<SchedulePoint>>)
      value.push_back({0, 0.5});
    else
      value = parse_stages("cpu-avx2:1@1").value();
  });
  return other;
}

}  // namespace

TEST_SUITE("proto/base/job_fields") {
  TEST_CASE("every member of a specification is in the table, once") {
    std::set<std::string_view> keys;
    std::set<const void*> members;
    JobSpec spec;
    visit_job_fields(spec, [&](const JobField& field, const auto& value) {
      CAPTURE(field.key);
      CHECK(keys.insert(field.key).second);
      CHECK(members.insert(&value).second);
    });
    CHECK(keys.size() == kFields);
  }

  TEST_CASE("every field has a meaning and a description of the allowed values") {
    for (const FieldValue& value : field_values(JobSpec{})) {
      CAPTURE(value.field.key);
      CHECK(value.field.meaning.ends_with("."));
      CHECK(value.field.low <= value.field.high);
      const bool is_number = value.type == "number" || value.type == "whole number";
      if (is_number) CHECK_FALSE(allowed_text(value.field).empty());
    }
  }

  TEST_CASE("a job continues from a checkpoint unless a field that decides its bits differs") {
    const JobSpec spec;
    CHECK(first_other_bits(spec, spec).empty());
    const std::vector<FieldValue> fields = field_values(spec);
    for (std::size_t i = 0; i < fields.size(); ++i) {
      CAPTURE(fields[i].field.key);
      const bool decides = fields[i].field.bits == Bits::kDecided;
      CHECK(first_other_bits(changed(spec, i), spec) ==
            (decides ? fields[i].field.key : std::string_view()));
    }
  }

  TEST_CASE("the allowed values as a text") {
    CHECK(allowed_text({.low = 1, .high = 1024}) == "1 to 1024");
    CHECK(allowed_text({.high = 64, .zero = "no cropping"}) == "0 (no cropping) to 64");
    CHECK(allowed_text({.high = 1, .high_is_open = true}) == "0 to below 1");
    CHECK(allowed_text({.high = 1, .low_is_open = true}) == "above 0, at most 1");
    CHECK(allowed_text({.high = 1, .high_is_open = true, .also = -1, .also_means = "none"}) ==
          "0 to below 1, or -1 for none");
    CHECK(allowed_text({.choices = "sgd|adam"}) == "sgd, adam");
  }

  TEST_CASE("every task has models and data, and every model a task") {
    for (const TaskNames& names : task_names()) {
      CHECK_FALSE(names.data_kinds.empty());
      for (const std::string& model : names.models)
        CHECK(task_of(ModelSpec{.name = model}) == names.task);
    }
  }
}
