#pragma once
// ModelWriter writes a model as a model program (proto/base/model_program.h): the nodes of layers
// with their parameters. The import (gpu/import/import.h) makes the graph of the program, so a
// built-in model and its model file are the same.
//
// Values have PyTorch's shapes: images are [n,c,h,w], tokens [n,t,c], features [n,c]. A node is
// named by the path of its module in the state dict; the parameters of a layer are NAME.weight and
// NAME.bias, its statistics NAME.running_mean and NAME.running_var. One thread at a time.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/graph/builder.h"
#include "gpu/graph/weight_init.h"
#include "proto/base/model_program.h"
#include "proto/base/sample_layout.h"

namespace es::gpu {

using Extents = std::vector<std::int64_t>;
using ModelDims = std::vector<ModelDim>;

// The extents of a value that does not depend on the samples.
ModelDims fixed_dims(const Extents& extents);
// These extents for each sample: [n,extents...].
ModelDims per_sample(const Extents& extents);
// The first extent is the rows of each sample: [n*extents[0],extents[1],...].
ModelDims rows_per_sample(const Extents& extents);

// What an attention has beside queries, keys and values (docs/reference/model-file.md).
struct AttentionTerms {
  bool causal = false;
  ValueId mask = kNoValue, bias = kNoValue, length = kNoValue, first = kNoValue;
  double dropout = 0.0;  // of the probabilities
};

class ModelWriter {
 public:
  // Every field of the layout becomes an input: an image [n,c,h,w], or [n,height,channels] without
  // extents of 1 at the end.
  ModelWriter(std::string name, const SampleLayout& layout);

  // REQUIRES: the layout has the field.
  ValueId input(std::string_view field) const;
  const ModelDims& dims(ValueId id) const { return value(id).dims; }
  std::int64_t extent(ValueId id, std::size_t axis) const { return dims(id)[axis].size; }
  std::int64_t width(ValueId id) const { return dims(id).back().size; }

  // --- Values that belong to the model.
  ValueId parameter(const std::string& name, const Extents& extents, ParamInit init);
  // Another name of the parameter in the state dict.
  void tie(ValueId parameter, const std::string& alias);
  ValueId constant(const std::string& name, const Extents& extents,
                   const std::vector<float>& values);
  ValueId integers(const std::string& name, const Extents& extents,
                   const std::vector<std::int32_t>& values);
  // Entries of the state dict that no node reads.
  void buffer(const std::string& name, const Extents& extents,
              const std::vector<std::int64_t>& values);
  void buffer(const std::string& name, const Extents& extents, const std::vector<float>& values);

  // Appends any node with one output of these extents.
  ValueId node(const char* kind, const std::string& name, const std::vector<ValueId>& inputs,
               ModelDims dims, std::vector<ModelAttribute> attributes = {},
               ValueType type = ValueType::kF32);

  // --- Layers on images.
  ValueId conv(const std::string& name, ValueId x, const Conv2dOptions& options);
  // The activation is a node of its own.
  ValueId batch_norm(const std::string& name, ValueId x, Activation activation = Activation::kNone);
  ValueId max_pool(const std::string& name, ValueId x, std::int64_t kernel, std::int64_t stride,
                   std::int64_t padding = 0);
  // Averages over windows that divide the image into h x w parts.
  ValueId avg_pool(const std::string& name, ValueId x, std::int64_t h, std::int64_t w);
  // A linear layer on the flattened image: [n,out].
  ValueId image_linear(const std::string& name, ValueId x, const LinearOptions& options);

  // --- Layers on the last axis.
  ValueId linear(const std::string& name, ValueId x, const LinearOptions& options);
  ValueId layer_norm(const std::string& name, ValueId x, double eps);

  // The rows of the parameter with this name, [rows,width], that the ids select.
  ValueId embedding(const std::string& parameter, ValueId ids, std::int64_t rows,
                    std::int64_t width, WeightInit init);

  // --- Element by element. Operands are broadcast to the extents of x.
  ValueId element_wise(const char* kind, const std::string& name, ValueId x,
                       const std::vector<ValueId>& others = {},
                       std::vector<ModelAttribute> attributes = {});
  ValueId relu(const std::string& name, ValueId x) { return element_wise("relu", name, x); }
  ValueId gelu(const std::string& name, ValueId x, const char* approximate = "none");
  ValueId add(const std::string& name, ValueId a, ValueId b) {
    return element_wise("add", name, a, {b});
  }
  // Both do nothing if p is 0. The second one drops whole samples.
  ValueId dropout(const std::string& name, ValueId x, double p);
  ValueId sample_dropout(const std::string& name, ValueId x, double p);

  // --- Moves. A reshape to the extents of x is x itself.
  ValueId reshape(const std::string& name, ValueId x, ModelDims dims);
  ValueId permute(const std::string& name, ValueId x, const Extents& order);
  ValueId slice(const std::string& name, ValueId x, std::size_t axis, std::int64_t begin,
                std::int64_t end);
  ValueId concat(const std::string& name, const std::vector<ValueId>& xs, std::size_t axis);

  // --- Attention. [n,t,heads*d] becomes [n,heads,t,d].
  ValueId heads(const std::string& name, ValueId x, std::int64_t heads);
  // Q is [n,heads,t,d]; k and v may have fewer heads. Scores are scaled by 1 / sqrt(d). Returns
  // [n,t,heads*d].
  ValueId attention(const std::string& name, ValueId q, ValueId k, ValueId v,
                    const AttentionTerms& terms);

  // The mean loss of labels, [n,...], for logits [n,classes,...].
  ValueId cross_entropy(ValueId logits, ValueId labels);
  // Completes the model. `outputs` are what an evaluation returns.
  ModelProgram finish(ValueId loss, const std::vector<ValueId>& outputs) &&;

 protected:
  explicit ModelWriter(std::string name) { program_.name = std::move(name); }
  void add_input(const SampleField& field, ModelDims dims);

 private:
  const ModelValue& value(ValueId id) const {
    return program_.values[static_cast<std::size_t>(id)];
  }
  ValueId add_value(ValueType type, ModelDims dims);
  ValueId add_constant(const std::string& name, ValueType type, const Extents& extents,
                       std::vector<std::uint32_t> words);
  ValueId with_weights(const char* kind, const std::string& name, ValueId x, ModelDims dims,
                       std::int64_t in, const LinearOptions& options);
  ValueId random(const char* kind, const std::string& name, ValueId x, double p);

  ModelProgram program_;
  std::int64_t sites_ = 0;  // nodes that draw random numbers
};

}  // namespace es::gpu
