// GraphBuilder: losses.
#include "gpu/graph/builder.h"
#include "gpu/graph/ops/operator.h"

namespace es::gpu {

std::optional<std::vector<Tensor>> GraphBuilder::begin_loss(Op& op) {
  if (!failed() && graph_.mean_loss != kNoTensor)
    fail(op_name(op.kind), op.name, "the model has a loss already");
  return outputs_of(op);
}

// The last outputs are the losses of the rows and their mean.
void GraphBuilder::end_loss(Op op, std::vector<Tensor> outputs) {
  append(std::move(op), std::move(outputs));
  if (failed()) return;
  const std::vector<TensorId>& out = graph_.ops.back().out;
  graph_.row_loss = out[out.size() - 2];
  // The shape of the row losses is [batch,1,1,rows of a sample], so its last extent is the number
  // of rows of a sample (with_losses in ops/loss.cc).
  graph_.rows_per_sample = shape(graph_.row_loss).row();
  graph_.mean_loss = out.back();
}

void GraphBuilder::cross_entropy(const std::string& name, TensorId logits, TensorId labels,
                                 const LossTerms& terms) {
  Op op{.kind = OpKind::kCrossEntropy, .name = name, .in = {logits, labels}, .terms = terms};
  std::optional<std::vector<Tensor>> outputs = begin_loss(op);
  if (!outputs) return;
  const TensorShape& in = shape(logits);
  // A negative label is allowed: its row takes no part in the loss. A label beyond the classes
  // would make the kernel read outside of the row.
  if (note(labels).high >= in.row()) {
    fail("cross_entropy", name,
         "labels up to " + std::to_string(note(labels).high) + " do not fit the " +
             std::to_string(in.row()) + " classes of the logits " + shape_text(in));
    return;
  }
  end_loss(std::move(op), *std::move(outputs));
  if (!failed() && note(labels).low < 0) graph_.row_weight = labels;
}

void GraphBuilder::bce_with_logits(const std::string& name, TensorId logits, TensorId targets) {
  Op op{.kind = OpKind::kBce, .name = name, .in = {logits, targets}};
  if (auto outputs = begin_loss(op)) end_loss(std::move(op), *std::move(outputs));
}

void GraphBuilder::mse(const std::string& name, TensorId x, TensorId targets) {
  Op op{.kind = OpKind::kMse, .name = name, .in = {x, targets}};
  if (auto outputs = begin_loss(op)) end_loss(std::move(op), *std::move(outputs));
}

void GraphBuilder::scalar_loss(const std::string& name, TensorId x, const LossRows& rows) {
  Op op{.kind = OpKind::kScalarLoss, .name = name, .in = {x}};
  auto outputs = begin_loss(op);
  if (!outputs) return;
  end_loss(std::move(op), *std::move(outputs));
  graph_.loss_of_batch = rows.losses == kNoTensor;
  if (failed() || graph_.loss_of_batch) return;
  graph_.row_loss = rows.losses;
  graph_.row_weight = rows.weights;
  graph_.rows_per_sample = shape(rows.losses).count() / graph_.batch;
}

void GraphBuilder::yolo(const std::string& name, const std::vector<TensorId>& outputs,
                        TensorId boxes, const YoloShape& shape, std::int64_t image_h,
                        std::int64_t image_w) {
  if (failed() || !floats("yolo", name, {boxes})) return;
  if (outputs.size() != 3) return void(fail("yolo", name, "needs three outputs"));
  Op op{.kind = OpKind::kYolo, .name = name, .in = outputs};
  op.in.push_back(boxes);
  op.yolo = shape;
  op.yolo.image_h = image_h;
  op.yolo.image_w = image_w;
  if (auto results = begin_loss(op)) end_loss(std::move(op), *std::move(results));
}

}  // namespace es::gpu
