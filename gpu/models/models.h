#pragma once
// The models, by name. Parameter names are those of the PyTorch state dict given with each.
#include <cstdint>
#include <string>

#include "gpu/graph/graph.h"
#include "proto/base/job_spec.h"
#include "proto/base/result.h"

namespace es::gpu {

// Builds spec.name for mini-batches [batch,height,width,channels]; spec.width = 0 takes the model's
// own width. Error (usage): an unknown name, or images that are too small for the model.
Result<Graph> build_model(const ModelSpec& spec, TensorShape input);

// Flatten - Linear(width) - ReLU - Linear(width) - ReLU - Linear(classes), width 128.
// PyTorch: nn.Sequential `net` with Flatten at 0: net.1, net.3, net.5.
Result<Graph> build_mlp(TensorShape input, std::int64_t width, std::int64_t classes);

// Two blocks conv 3x3 - batch norm - ReLU - max pool 2x2 (width 16, then 32 channels), flatten,
// Linear(4 * width) - ReLU - Linear(classes): about 106,000 parameters on 28x28x1.
// PyTorch: conv1, bn1, conv2, bn2, fc1, fc2.
Result<Graph> build_small_cnn(TensorShape input, std::int64_t width, std::int64_t classes);

// ResNet18 with the stem for small images (conv1 3x3 stride 1, no max pool), width 64.
// PyTorch: torchvision's resnet18: conv1, bn1, layer1.0.conv1, ..., layer2.0.downsample.0, fc.
Result<Graph> build_resnet18(TensorShape input, std::int64_t width, std::int64_t classes);

}  // namespace es::gpu
