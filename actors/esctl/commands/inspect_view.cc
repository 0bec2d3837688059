#include "actors/esctl/commands/inspect_view.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "actors/head/admission/admission.h"
#include "actors/views/fields_view.h"
#include "actors/views/json_text.h"
#include "actors/views/render_text.h"

namespace es::actors::esctl {
namespace {

using Json = nlohmann::ordered_json;
using Row = std::vector<std::string>;

std::string size_text(std::int64_t bytes) {
  return fixed(double(bytes) / (1 << 20), 2);
}

std::string layout_text(const SampleLayout& layout) {
  std::string text;
  for (const SampleField& f : layout.fields)
    text += (text.empty() ? "" : ", ") + f.name + " " + std::to_string(f.height) + "x" +
            std::to_string(f.width) + "x" + std::to_string(f.channels);
  return text;
}

Json layout_json(const SampleLayout& layout) {
  Json fields = Json::array();
  for (const SampleField& f : layout.fields) {
    Json field{{"name", f.name},
               {"type", f.type == FieldType::kI32 ? "i32" : "f32"},
               {"shape", {f.height, f.width, f.channels}}};
    if (f.type == FieldType::kI32) field["range"] = {f.low, f.high};
    fields.push_back(std::move(field));
  }
  return fields;
}

std::string operators_text(const gpu::EngineDescription& engine) {
  std::vector<Row> rows{{"OPERATOR", "KIND", "OUTPUT", "PARAMETERS", "KERNELS"}};
  for (const gpu::OpDescription& op : engine.ops)
    rows.push_back({op.name, op.detail.empty() ? op.kind : op.kind + " (" + op.detail + ")",
                    op.output, std::to_string(op.parameters), op.kernel});
  return table(rows);
}

std::string memory_text(const std::vector<gpu::EngineDescription>& engines) {
  std::vector<Row> rows{{"MEMORY IN MIB", "PARAMETERS", "MOMENTS", "CONSTANTS", "ARENA",
                         "(AT LEAST)", "WORKSPACE", "EACH GRADIENT", "EACH EST"}};
  for (const gpu::EngineDescription& e : engines)
    rows.push_back({e.kernel_class, size_text(e.memory.params), size_text(e.memory.moments),
                    size_text(e.memory.constants), size_text(e.memory.arena),
                    size_text(e.memory.arena_live_peak), size_text(e.memory.workspace),
                    size_text(e.memory.gradient_slot), size_text(e.memory.context)});
  return table(rows);
}

// What a worker of the job needs on a CPU, for one and more workers.
struct NeededMemory {
  std::uint32_t workers = 1;
  std::uint64_t whole = 0, divided = 0;  // bytes, by shard.state
  bool leave = false;                    // gradients leave early, if the state is divided
};

std::vector<NeededMemory> needed_memory(const Inspection& inspection) {
  const gpu::EngineDescription* engine = &inspection.engines.front();
  for (const gpu::EngineDescription& other : inspection.engines)
    if (other.kernel_class.starts_with("cpu-")) engine = &other;
  const scheduler::WorkerMemory whole = worker_memory(inspection.spec, engine->memory, {});
  scheduler::WorkerMemory divided = whole;
  divided.divided = true;
  const DeviceType cpu{"cpu"};
  std::vector<NeededMemory> needed;
  for (std::uint32_t workers = 1; workers <= std::min(whole.max_p, 8U); ++workers)
    needed.push_back({workers, needed_bytes(whole, cpu, workers).all,
                      needed_bytes(divided, cpu, workers).all,
                      gradients_leave(divided, cpu, workers)});
  return needed;
}

std::string needed_text(const Inspection& inspection) {
  std::vector<Row> rows{{"MIB OF A CPU WORKER", "STATE WHOLE", "STATE DIVIDED", "GRADIENTS THEN"}};
  for (const NeededMemory& needed : needed_memory(inspection))
    rows.push_back({"of " + counted(needed.workers, "worker"),
                    size_text(static_cast<std::int64_t>(needed.whole)),
                    size_text(static_cast<std::int64_t>(needed.divided)),
                    needed.leave ? "leave early" : "whole"});
  return table(rows);
}

Json needed_json(const Inspection& inspection) {
  Json list = Json::array();
  for (const NeededMemory& needed : needed_memory(inspection))
    list.push_back({{"workers", needed.workers},
                    {"whole_bytes", needed.whole},
                    {"divided_bytes", needed.divided},
                    {"gradients_leave", needed.leave}});
  return list;
}

Json memory_json(const gpu::MemoryUse& m) {
  return {{"params_bytes", m.params},
          {"moments_bytes", m.moments},
          {"constants_bytes", m.constants},
          {"arena_bytes", m.arena},
          {"arena_live_peak_bytes", m.arena_live_peak},
          {"workspace_bytes", m.workspace},
          {"gradient_slot_bytes", m.gradient_slot},
          {"gradient_leaving_bytes", m.gradient_leaving},
          {"device_gradients_bytes", m.device_gradients},
          {"spilled_gradients_bytes", m.spilled_gradients},
          {"context_bytes", m.context}};
}

Json engine_json(const gpu::EngineDescription& engine) {
  Json ops = Json::array();
  for (const gpu::OpDescription& op : engine.ops)
    ops.push_back({{"name", op.name},
                   {"kind", op.kind},
                   {"detail", op.detail},
                   {"output", op.output},
                   {"parameters", op.parameters},
                   {"kernel", op.kernel}});
  return {{"kernel_class", engine.kernel_class},
          {"parameters", engine.parameters},
          {"buckets", engine.buckets},
          {"memory", memory_json(engine.memory)},
          {"operators", ops}};
}

std::string cuda_text(const gpu::CudaInventory& cuda) {
  if (cuda.devices.empty()) return "none (" + cuda.why_none + ")";
  std::string text;
  for (const gpu::CudaDevice& device : cuda.devices)
    text += (text.empty() ? "" : ", ") + device.name + " (" + device.type().name + ", " +
            std::to_string(device.memory_bytes >> 20) + " MiB)";
  return text;
}

Json cuda_json(const gpu::CudaInventory& cuda) {
  Json devices = Json::array();
  for (const gpu::CudaDevice& device : cuda.devices)
    devices.push_back({{"name", device.name},
                       {"device_type", device.type().name},
                       {"compute_capability", device.compute_capability},
                       {"memory_bytes", device.memory_bytes},
                       {"peak_tflops", device.peak_tflops},
                       {"peak_gb_per_s", device.peak_gb_per_s}});
  return {{"devices", devices}, {"why_none", cuda.why_none.empty() ? Json() : Json(cuda.why_none)}};
}

// The verdict about level D2.
std::string d2_text(const D2Cost& d2) {
  std::string refused;
  for (const std::string& op : d2.verdict.vendor_refusals) refused += "  " + op + "\n";
  if (!refused.empty()) refused = "The vendor library refuses these:\n" + refused;
  if (d2.verdict.vendor_ops.empty())
    return "D2 costs nothing: D1 uses no vendor kernel on " + d2.device_type + "\n" + refused;
  std::string text = "D2 costs " + fixed(100 * d2.verdict.cost(), 1) + " % of a local step on " +
                     d2.device_type + ": " + fixed(1e3 * d2.verdict.d2_time.count(), 2) +
                     " ms, D1 " + fixed(1e3 * d2.verdict.d1_time.count(), 2) +
                     " ms. D1 runs these with kernels whose bits depend on the hardware:\n";
  for (const std::string& op : d2.verdict.vendor_ops) text += "  " + op + "\n";
  return text + refused;
}

Json d2_json(const D2Cost& d2) {
  return {{"device_type", d2.device_type},
          {"vendor_operators", d2.verdict.vendor_ops},
          {"vendor_refusals", d2.verdict.vendor_refusals},
          {"d1_seconds", d2.verdict.d1_time.count()},
          {"d2_seconds", d2.verdict.d2_time.count()},
          {"cost", d2.verdict.cost()}};
}

std::vector<Row> job_rows(const JobSpec& spec) {
  return {{"job", spec.name},
          {"level", std::string(level_name(spec.level)) + ", " + counted(spec.max_p, "EST") +
                        (spec.tf32 ? ", TF32 on GPUs" : "") +
                        (spec.precision == "fp32" ? "" : ", " + spec.precision) +
                        (spec.arithmetic == "fp32" ? "" : ", " + spec.arithmetic) + ", " +
                        std::to_string(std::uint64_t{spec.batch_size} * spec.max_p) +
                        " samples in a global step"}};
}

std::vector<Row> model_rows(const Inspection& inspection) {
  const gpu::EngineDescription& first = inspection.engines.front();
  std::vector<Row> rows = {{"model", first.model}, {"sample", layout_text(inspection.layout)}};
  for (std::size_t i = 0; i < inspection.others.size(); ++i)
    rows.push_back({"in program " + std::to_string(i + 1), layout_text(inspection.others[i])});
  const std::vector<Row> rest = {
      {"batch", counted(inspection.spec.batch_size, "sample") + " for each EST"},
      {"parameters", std::to_string(first.parameters)},
      {"buckets", std::to_string(first.buckets)},
      {"CUDA devices", cuda_text(inspection.cuda)}};
  rows.insert(rows.end(), rest.begin(), rest.end());
  return rows;
}

}  // namespace

std::string inspection_text(const Inspection& inspection) {
  std::vector<Row> rows = model_rows(inspection);
  if (inspection.of_job) {
    const std::vector<Row> job = job_rows(inspection.spec);
    rows.insert(rows.begin(), job.begin(), job.end());
  }
  std::string text = table(rows);
  if (inspection.of_job) text += "\n" + job_fields_text(inspection.spec);
  std::string shown;
  for (const gpu::EngineDescription& engine : inspection.engines) {
    std::string operators = operators_text(engine);
    if (operators == shown) continue;
    shown = std::move(operators);
    text += "\nfrom " + engine.kernel_class + " on:\n" + shown;
  }
  text += "\n" + memory_text(inspection.engines);
  if (inspection.of_job) text += "\n" + needed_text(inspection);
  return inspection.d2 ? text + "\n" + d2_text(*inspection.d2) : text;
}

std::string inspection_json(const Inspection& inspection) {
  Json classes = Json::array();
  for (const gpu::EngineDescription& engine : inspection.engines)
    classes.push_back(engine_json(engine));
  const JobSpec& spec = inspection.spec;
  Json json{{"name", spec.name},
            {"model", inspection.engines.front().model},
            {"level", level_name(spec.level)},
            {"tf32", spec.tf32},
            {"precision", spec.precision},
            {"arithmetic", spec.arithmetic},
            {"max_p", spec.max_p},
            {"batch_size", spec.batch_size},
            {"sample", layout_json(inspection.layout)},
            {"classes", classes},
            {"cuda", cuda_json(inspection.cuda)}};
  for (const SampleLayout& layout : inspection.others)
    json["samples_of_programs"].push_back(layout_json(layout));
  if (!inspection.of_job) {
    for (const char* key : {"name", "level", "tf32", "precision", "arithmetic", "max_p"})
      json.erase(key);
    return json_text(json);
  }
  json["worker_memory"] = needed_json(inspection);
  json["d2"] = inspection.d2 ? d2_json(*inspection.d2) : Json();
  json["fields"] = job_fields_json(spec);
  return json_text(json);
}

}  // namespace es::actors::esctl
