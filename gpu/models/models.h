#pragma once
// The models, by name. They use the fields of their task's samples (proto/base/sample_layout.h).
// Parameter names are those of the PyTorch state dict that is given with each model.
//
//   name          size "published"                               names as in
//   mlp           Linear(128) x 2 and a classifier               nn.Sequential `net`, Flatten first
//   small_cnn     two conv blocks, 105,914 parameters at 28x28   conv1, bn1, conv2, bn2, fc1, fc2
//   resnet18      stem for small images, 11,173,962 parameters   torchvision
//   resnet34, 50, 101, 152     21,797,672; 25,557,032;           torchvision
//                              44,549,160; 60,192,808
//   shufflenetv2  x1.0, 2,278,604; with _x0_5: 1,366,792,        torchvision
//                 _x1_5: 3,503,624, _x2_0: 7,393,996
//   vgg11, 13, 16, 19   without batch norm, 132,863,336;         torchvision
//                 133,047,848; 138,357,544; 143,667,240
//   swin_t, s, b  28,288,354; 49,606,258; 87,768,224             torchvision
//   yolov3        Darknet-53 and three heads, 61,949,149         ultralytics/yolov3, yolov3.yaml
//   neumf         GMF 8, MLP 64-32-16-8                          gu, gi, mu, mi, mlp.N, out
//   bert          base, 108,893,186; bert_large: 334,094,338     transformers
//                                                                BertForQuestionAnswering
//   electra       small, 13,483,522; electra_base: 108,893,186,  transformers
//                 electra_large: 334,094,338                     ElectraForQuestionAnswering
//   gpt2          124,439,808; gpt2_medium: 354,823,168,         transformers GPT2LMHeadModel
//                 gpt2_large: 774,030,080, gpt2_xl: 1,557,611,200
//   llama         100,092,672 (no published one);                transformers LlamaForCausalLM
//                 llama_1b: 1,235,814,400 and llama_3b: 3,212,749,824 (Llama 3.2)
//
// The numbers of parameters are for 1000 classes (yolov3: 80; the small models: 10) and a
// vocabulary of 30522 words (gpt2: 50257; llama: 32000, llama_1b and llama_3b: 128256). The size
// "tiny" has the same architecture with every special path, but fewer layers and channels. Variants
// that differ only in layers and channels share one tiny size.
//
// The implementation differs from the published model as follows:
//   * Batch norm has PyTorch's eps and momentum in yolov3 too (Ultralytics: 1e-3 and 0.03), and the
//     activation is the leaky ReLU of the paper with slope 0.1.
//   * The word embedding of the padding token learns as all others do (transformers keeps it at 0).
//   * Normal distributions are replaced by uniform ones of the same variance (WeightInit).
#include <cstdint>

#include "gpu/graph/graph.h"
#include "proto/base/job_spec.h"
#include "proto/base/model_program.h"
#include "proto/base/result.h"
#include "proto/base/sample_layout.h"

namespace es::gpu {

// Builds the model for mini-batches of `batch` samples of `layout`. Numbers of classes, rows of
// embeddings, image sides and numbers of tokens come from the fields of the layout. Outputs of an
// evaluation:
//   classification      logits [batch,classes]
//   recommendation      logit [batch,1]
//   question answering  logits [batch,2,T]: of the first and of the last token
//   language modelling  logits [batch,T,vocabulary] of the next tokens
//   detection           three heads [batch,h,w,3*(5+classes)], coarse to fine; for each anchor
//                       x, y, w, h, objectness, classes, all without activation
//
// Error (usage); the text names model, field, value and what is allowed: an unknown model or size,
// an option that the model does not have, a field that is missing or has another type,
// model.classes that differs from the range of the labels, images that are too small or not a
// multiple of the stride, too many tokens.
Result<Graph> build_model(const ModelSpec& spec, std::int64_t batch, const SampleLayout& layout);

// Returns the program of which build_model() makes the graph (gpu/import/import.h), with PyTorch's
// shapes and names. In it the heads of a detector are [batch,c,h,w], and buffers that only older
// versions of a library wrote are left out. Error (usage): as build_model(), which may refuse the
// model for `batch` samples.
Result<ModelProgram> write_model(const ModelSpec& spec, std::int64_t batch,
                                 const SampleLayout& layout);

}  // namespace es::gpu
