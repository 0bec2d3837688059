#pragma once
// GraphBuilder: writes a model down operator by operator.
//
//   GraphBuilder b("mlp", {batch, 8, 8, 1});
//   TensorId x = b.flatten(b.input());
//   x = b.relu("relu1", b.linear("fc1", x, {.out = 32}));
//   ...
//   Result<Graph> graph = b.finish(x);
//
// The first shape error stops everything after it and is what finish() returns, with the operator's
// name; so a model needs one check. Parameters are laid out in the order of the calls.
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "gpu/graph/graph.h"
#include "proto/base/result.h"

namespace es::gpu {

// How convolution and linear weights start; all uniform (libm's normal numbers differ by machine).
enum class WeightInit {
  kPytorchDefault,  // kaiming_uniform(a=sqrt(5)): bound 1/sqrt(fan_in)
  kFanOutRelu,  // variance of torchvision's kaiming_normal(fan_out, relu): bound sqrt(6/fan_out)
};

struct Conv2dOptions {
  std::int64_t out = 1;  // output channels
  std::int64_t kernel = 3;
  std::int64_t stride = 1;
  std::int64_t pad = 0;
  std::int64_t groups = 1;
  bool bias = false;
  WeightInit init = WeightInit::kPytorchDefault;
};

struct LinearOptions {
  std::int64_t out = 1;
  bool bias = true;
};

struct PoolOptions {
  std::int64_t kernel = 2;
  std::int64_t stride = 2;
  std::int64_t pad = 0;
};

struct ReluFused {
  bool relu = false;
};

class GraphBuilder {
 public:
  GraphBuilder(std::string model, TensorShape input);

  TensorId input() const { return graph_.input; }

  // `name` is the module's path in the state dict; parameters are NAME.weight and NAME.bias,
  // statistics NAME.running_mean and NAME.running_var.
  TensorId conv2d(const std::string& name, TensorId x, const Conv2dOptions& options);
  TensorId linear(const std::string& name, TensorId x, const LinearOptions& options);
  TensorId batch_norm(const std::string& name, TensorId x, ReluFused fused = {});
  TensorId relu(const std::string& name, TensorId x);
  TensorId add(const std::string& name, TensorId a, TensorId b, ReluFused fused = {});
  TensorId max_pool(const std::string& name, TensorId x, const PoolOptions& options);
  TensorId avg_pool(const std::string& name, TensorId x, const PoolOptions& options);
  TensorId global_avg_pool(const std::string& name, TensorId x);
  // [n,h,w,c] -> [n,1,1,h*w*c]. PyTorch flattens [c,h,w]: a linear that follows permutes its
  // columns on import and export. So between the two only relu and add may stand.
  TensorId flatten(const std::string& name, TensorId x);

  // Ends the model with softmax cross entropy over the logits.
  // Error (usage): the first operator whose shapes do not fit.
  Result<Graph> finish(TensorId logits);

 private:
  TensorId add_tensor(TensorShape shape, bool needs_grad, ElementType type = ElementType::kF32);
  TensorId pool(OpKind kind, const std::string& name, TensorId x, const PoolOptions& options);
  // One-output operator whose parameters are already in the op.
  TensorId emit(Op op, TensorShape y);
  ParamId add_param(const std::string& name, std::vector<std::int64_t> torch_shape,
                    ParamOrder order, ParamInit init);
  TensorId fail(OpKind kind, const std::string& name, const std::string& what);
  void check_all_used(TensorId logits);
  bool failed() const { return error_.has_value(); }

  Graph graph_;
  std::optional<Error> error_;
  // For each tensor, (spatial, channels) of the image that it is a flattened form of, or {1, c}.
  std::vector<std::pair<std::int64_t, std::int64_t>> flattened_from_;
};

}  // namespace es::gpu
