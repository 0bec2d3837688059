#pragma once
// A small model file for tests: a linear classifier of two inputs, with one thing of every kind
// that a model file can contain.
#include <bit>

#include "proto/base/model_program.h"

namespace es::test {

// image [B,1,4,4] -> reshape -> mul by a constant -> linear -> cross_entropy with label [B].
inline ModelProgram small_model() {
  const ModelDim batch{.size = 1, .per_batch = true};
  ModelProgram m;
  m.producer = "a test";
  m.name = "small";
  m.values = {{.type = ValueType::kF32, .dims = {batch, {1}, {4}, {4}}},  // 0 image
              {.type = ValueType::kI32, .dims = {batch}},                 // 1 label
              {.type = ValueType::kF32, .dims = {{3}, {16}}},             // 2 weight
              {.type = ValueType::kF32, .dims = {{3}}},                   // 3 bias
              {.type = ValueType::kF32, .dims = {{16}}},                  // 4 scale
              {.type = ValueType::kF32, .dims = {batch, {16}}},           // 5 flat
              {.type = ValueType::kF32, .dims = {batch, {16}}},           // 6 scaled
              {.type = ValueType::kF32, .dims = {batch, {3}}},            // 7 logits
              {.type = ValueType::kF32, .dims = {}}};                     // 8 loss
  m.inputs = {{.name = "image", .value = 0}, {.name = "label", .value = 1, .low = 0, .high = 2}};
  m.parameters = {{.name = "fc.weight", .aliases = {"head.weight"}, .value = 2},
                  {.name = "fc.bias", .aliases = {}, .value = 3}};
  m.buffers = {
      {.name = "position_ids", .dtype = "I64", .shape = {1}, .bytes = {7, 0, 0, 0, 0, 0, 0, 0}}};
  m.constants = {{.name = "scale", .value = 4, .words = {}}};
  m.constants[0].words.assign(16, std::bit_cast<std::uint32_t>(0.5F));
  m.nodes = {{.kind = "reshape",
              .name = "flatten",
              .inputs = {0},
              .outputs = {5},
              .attributes = {},
              .source = "net.py:7"},
             {.kind = "mul",
              .name = "",
              .inputs = {5, 4},
              .outputs = {6},
              .attributes = {},
              .source = "net.py:8"},
             {.kind = "linear",
              .name = "fc",
              .inputs = {6, 2, 3},
              .outputs = {7},
              .attributes = {},
              .source = "net.py:9"},
             {.kind = "cross_entropy",
              .name = "loss",
              .inputs = {7, 1, kNoValue},
              .outputs = {8},
              .attributes = {{"ignore_index", std::int64_t{-100}},
                             {"label_smoothing", 0.0},
                             {"reduction", std::string("mean")}},
              .source = "train.py:3"}};
  m.loss = 8;
  m.outputs = {{.name = "logits", .value = 7}};
  return m;
}

// The same with a state, "steps" [3], to which every step adds 0.5.
inline ModelProgram with_state(ModelProgram m) {
  for (int i = 0; i < 3; ++i) m.values.push_back({.type = ValueType::kF32, .dims = {{3}}});
  m.format = kModelFormatWithStates;
  m.states = {{.name = "steps", .dtype = "F32", .value = 9}};
  m.nodes.push_back({.kind = "add_scalar",
                     .name = "counter",
                     .inputs = {9},
                     .outputs = {10},
                     .attributes = {{"value", 0.5}},
                     .source = "net.py:10"});
  m.nodes.push_back({.kind = "set_state",
                     .name = "counter",
                     .inputs = {10},
                     .outputs = {11},
                     .attributes = {{"state", std::int64_t{0}}},
                     .source = "net.py:10"});
  return m;
}

// The same with an optimizer: p - lr * g for both parameters, and a state that keeps the gradient
// of the weight.
inline ModelProgram with_updates(ModelProgram m) {
  const auto update = [](std::vector<ModelDim> dims, bool state) {
    ModelProgram u;
    u.values.assign(6, {.type = ValueType::kF32, .dims = std::move(dims)});
    u.values[2].dims.clear();
    u.parameters = {{.name = "parameter", .value = 0, .trainable = false},
                    {.name = "gradient", .value = 1, .trainable = false}};
    if (state) u.parameters.push_back({.name = "state.last", .value = 5, .trainable = false});
    u.parameters.push_back({.name = "number.0", .value = 2, .trainable = false});
    u.nodes = {{.kind = "mul", .inputs = {1, 2}, .outputs = {3}},
               {.kind = "sub", .inputs = {0, 3}, .outputs = {4}}};
    u.outputs = {{.name = "parameter", .value = 4}};
    if (state) u.outputs.push_back({.name = "state.last", .value = 1});
    return u;
  };
  m.format = kModelFormatWithUpdates;
  m.numbers = {{.name = "lr", .values = {0.5F, 0.25F, 0.125F}}};
  m.updates = {{.parameters = {"fc.weight"},
                .programs = {update({{3}, {16}}, true), update({{3}, {16}}, true)},
                .phases = {{0, 0}, {2, 1}}},
               {.parameters = {"fc.bias"}, .programs = {update({{3}}, false)}, .phases = {{0, 0}}}};
  return m;
}

// The same with the bias as what a second loss trains, in every third iteration.
inline ModelProgram with_losses(ModelProgram m) {
  ModelProgram further = small_model();
  further.parameters[0] = {.name = "fc.weight", .value = 2, .trainable = false};
  further.parameters[1].aliases.clear();
  further.buffers.clear();
  m.parameters[1].trainable = false;
  m.format = kModelFormatWithPrograms;
  m.programs = {std::move(further)};
  m.every = {1, 3};
  return m;
}

}  // namespace es::test
