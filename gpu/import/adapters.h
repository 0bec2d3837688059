#pragma once
// Adapters (LoRA, Hu et al. 2021) of a model: small matrices beside its linear layers, which are
// trained in place of the model itself.
#include <string>
#include <string_view>

#include "proto/base/job_spec.h"
#include "proto/base/model_program.h"
#include "proto/base/result.h"

namespace es::gpu {

// Returns the program with adapters beside the linear layers that lora.targets names, and with all
// of its own parameters frozen. A linear layer is a node of the kind linear, image_linear or matmul
// whose weight is a parameter "MODULE.weight". Its result y becomes
//   y + (alpha / rank) * linear(linear(dropout(x), A), B)
// with the parameters A = "MODULE.lora_A.weight" [rank,in], which begins as PyTorch's linear layers
// do, and B = "MODULE.lora_B.weight" [out,rank], which begins with zeros. Layers that share a
// weight share the adapters. REQUIRES: check_program() accepts the program; lora.rank > 0.
//
// Error (usage): a target names no linear layer; the model has running statistics or states, which
// belong to no adapter; the model has a parameter with the name of an adapter already.
Result<ModelProgram> with_adapters(ModelProgram program, const LoraSpec& lora);

// The names of the two matrices of a module, and whether a parameter has such a name.
std::string adapter_a(std::string_view module);
std::string adapter_b(std::string_view module);
bool is_adapter(std::string_view parameter);
// The module of the matrix A with this name; empty: it is none.
std::string module_of_a(std::string_view parameter);

}  // namespace es::gpu
